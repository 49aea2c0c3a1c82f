//! How much what came of each call takes in the answer to a round, and in the turn of
//! results that is recorded: counted as it is written, escaped and repeated, before the
//! call has ended for anybody, so that what does not fit costs that call alone.

use parking_lot::Mutex;
use prost::Message as _;

use super::{collect::Collected, document::ResultDocument, plan::Known};
use crate::interaction::backend::{Dialect, Outcome, ToolResult, messages};
use crate::wire::{Code, Reason, Status, pb};

/// What stands around the parts of a call: field tags, lengths, braces and names.
const AROUND_CALL: usize = 256;
const AROUND_PART: usize = 16;

/// In bytes: of the answer, and of the turn in it.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    answer: usize,
    turn: usize,
}

/// What the calls of a round may still take.
#[derive(Debug)]
pub(super) struct Answer {
    dialect: Option<Dialect>,
    /// Beside what each call takes at least.
    left: Mutex<Size>,
}

impl Answer {
    /// An answer of at most so many bytes.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where the calls would take more than half of it whatever came
    /// of them.
    pub(super) fn new<'a>(
        most: usize,
        dialect: Option<Dialect>,
        calls: impl Iterator<Item = &'a Known>,
    ) -> Result<Self, Status> {
        let mut least = Size::default();
        for call in calls {
            let size = size(dialect, call, &short(Status::ok()));
            least.answer += size.answer;
            least.turn += size.turn;
        }
        if least.answer > most / 2 {
            let taken = format!("{} bytes of the answer, and may take {}", least.answer, most / 2);
            let message = format!("the ids and names of the calls take {taken}");
            return Err(Status::of(Reason::InvalidRequest, message));
        }
        let turn = usize::MAX;
        let left = Size { answer: most - least.answer, turn };
        Ok(Self { dialect, left: Mutex::new(left) })
    }

    /// Holds the turn of results to so many bytes, too.
    pub(super) fn bound_turn<'a>(&self, most: usize, calls: impl Iterator<Item = &'a Known>) {
        let least = calls.map(|call| size(self.dialect, call, &short(Status::ok())).turn);
        self.left.lock().turn = most.saturating_sub(least.sum());
    }

    /// What came of a call, as far as there is room for it, its status as it goes on
    /// the wire.
    pub(super) fn fit(&self, call: &Known, collected: Collected) -> Collected {
        let collected = Collected { status: collected.status.bounded(), ..collected };
        if self.take(size(self.dialect, call, &collected), call) {
            return collected;
        }
        let Collected { status, log: _, fragments: _, document: _ } = collected;
        let status = match status.is_ok() {
            true => {
                let fault = format!("{:?} put out more than fits into the answer", call.name);
                Status::of(Reason::OutputTooLarge, fault)
            }
            false => status,
        };
        let failed = Collected::refused(status);
        if self.take(size(self.dialect, call, &failed), call) {
            failed
        } else {
            short(failed.status)
        }
    }

    /// Takes what is more than each call takes at least.
    fn take(&self, size: Size, call: &Known) -> bool {
        let least = self::size(self.dialect, call, &short(Status::ok()));
        let mut left = self.left.lock();
        let answer = left.answer.checked_sub(size.answer.saturating_sub(least.answer));
        let turn = left.turn.checked_sub(size.turn.saturating_sub(least.turn));
        let (Some(answer), Some(turn)) = (answer, turn) else { return false };
        *left = Size { answer, turn };
        true
    }
}

/// How a call failed, in little: there is always room for this.
fn short(status: Status) -> Collected {
    let Status { code, reason, message: _, details: _ } = status;
    let code = if code == Code::Ok { Code::ResourceExhausted } else { code };
    let message = "what more there is to say does not fit into the answer".to_owned();
    Collected::refused(Status { code, reason, message, details: vec![] })
}

/// What came of a call as its model is told.
pub(super) fn tool_result(
    dialect: Dialect,
    call: &Known,
    status: &Status,
    document: Option<ResultDocument>,
) -> ToolResult {
    let outcome = match document {
        Some(ResultDocument { text, is_json: _, images }) => Outcome::Done { text, images },
        None => Outcome::Failed(status.summary()),
    };
    let id = (call.id_is_own || dialect.needs_id()).then(|| call.id.clone());
    ToolResult { id, name: call.name.clone(), outcome }
}

/// What a call takes at most: alone its messages take no less than with others.
fn size(dialect: Option<Dialect>, call: &Known, collected: &Collected) -> Size {
    let Collected { status, log, fragments, document } = collected;
    let told: usize = dialect.map_or(0, |dialect| {
        let result = tool_result(dialect, call, status, document.clone());
        messages(dialect, &[result]).iter().map(|message| message.len() + AROUND_PART).sum()
    });
    let fragments: usize =
        fragments.iter().map(|fragment| fragment.encoded_len() + AROUND_PART).sum();
    let result = pb::CallResult {
        id: call.id.clone(),
        name: call.name.clone(),
        status: Some(status.clone().into()),
        log: String::new(),
    };
    // Under its id it stands among the outputs, the logs and the statuses.
    let ids = call.id.len() + 2 * json_len(&call.id);
    let turn = AROUND_CALL + ids + fragments + told + json_len(log) + json_len(&status.message);
    Size { answer: turn + result.encoded_len() + log.len() + told, turn }
}

/// How long a text is as JSON.
pub(super) fn json_len(text: &str) -> usize {
    let len = |byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..0x20 => 6,
        _ => 1,
    };
    2 + text.bytes().map(len).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interaction::backend::Image;
    use crate::runner::{Round, round::Ended};
    use crate::wire::{Chunk, NodeFragment};

    /// What calls came to, with much that grows when it is escaped.
    fn ended() -> Vec<Ended> {
        let hard = "\"\\\n\u{1}é";
        let known = |at: usize, id_is_own| Known {
            id: format!("{at}{hard}"),
            id_is_own,
            name: format!("name{hard}"),
        };
        let image = Image { media_type: "image/png".into(), data: vec![0; 1000].into() };
        let document = |images| {
            let text = Some(hard.repeat(100));
            Some(ResultDocument { text, is_json: false, images })
        };
        let done = |images: Vec<Image>| Collected {
            status: Status::ok(),
            log: hard.repeat(50),
            fragments: vec![NodeFragment::last("a", Chunk::text(hard.repeat(100)))],
            document: document(images),
        };
        let failed = || Collected::refused(Status::handler(Code::Aborted, hard.repeat(1000)));
        let all = [done(vec![]), failed(), done(vec![image.clone(), image]), failed()];
        let all = all.into_iter().enumerate();
        let ended = all.map(|(at, collected)| Ended {
            known: known(at, at % 2 == 0),
            collected: Collected { status: collected.status.bounded(), ..collected },
        });
        ended.collect()
    }

    #[test]
    fn an_answer_is_never_larger_than_was_counted() {
        for dialect in Dialect::ALL.map(Some).into_iter().chain([None]) {
            let ended = ended();
            let mut counted = Size::default();
            for Ended { known, collected } in &ended {
                let size = size(dialect, known, collected);
                counted.answer += size.answer;
                counted.turn += size.turn;
            }
            let Round { results, interaction, messages, .. } =
                Round::new(String::new(), dialect, ended);
            let turn = interaction.encoded_len();
            let results: usize =
                results.iter().map(|result| result.log.len() + result.id.len()).sum();
            let answer = turn + results + messages.iter().map(String::len).sum::<usize>();
            assert!(
                turn <= counted.turn && counted.turn < turn * 2,
                "{dialect:?}: {turn} {counted:?}"
            );
            assert!(answer <= counted.answer, "{dialect:?}: {answer} {counted:?}");
        }
    }
}

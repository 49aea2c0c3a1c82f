//! What an interaction must be, held against every field of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use super::{
    error::InteractionError,
    problem::{Fault, Problem},
    timestamp,
};
use crate::wire::{
    Chunk, NameError, NodeFragment, Reason,
    chunk_limits::{MAX_ATTRIBUTE_BYTES, MAX_ATTRIBUTES, MAX_MEDIA_TYPE_LEN, MAX_REF_LEN},
    json_weight,
    name::{self, Name, shown, start_of},
    pb::{self, Interaction, NodeFragments, Role, chunk::Body, node_fragment::Payload},
};

/// The longest id of an interaction, in characters.
pub const MAX_TEXT_LEN: usize = 255;

/// How many problems of one interaction are told.
pub const MAX_PROBLEMS: usize = 1000;

/// How many characters of somebody's key stand in the path of a field.
const MAX_KEY_LEN: usize = 64;

/// What is wrong with an interaction, and notes. Fields are named as the portable
/// JSON names them, in its order. At most [`MAX_PROBLEMS`] are told, the last of them
/// never a note: one that is refused has a problem that says so.
pub fn validate(interaction: &Interaction) -> Vec<Problem> {
    find(interaction, MAX_PROBLEMS, |_| true)
}

/// Refuses an interaction for the first thing that [`validate`] finds wrong,
/// notes apart.
///
/// # Errors
/// [`InteractionError::Refused`] names the field.
pub fn check(interaction: &Interaction) -> Result<(), InteractionError> {
    check_but(interaction, |_| true)
}

/// The same for a turn that is run or kept: a call may have the id that its
/// provider gave it, if that is no longer than [`MAX_TEXT_LEN`] and has no control
/// characters.
///
/// # Errors
/// As [`check`].
pub fn check_turn(interaction: &Interaction) -> Result<(), InteractionError> {
    check_but(interaction, |fault| !matches!(fault, Fault::ForeignCallId(_)))
}

fn check_but(
    interaction: &Interaction,
    counts: fn(&Fault) -> bool,
) -> Result<(), InteractionError> {
    match find(interaction, 1, counts).pop() {
        Some(problem) => Err(problem.into()),
        None => Ok(()),
    }
}

/// The first problems, of those that count; the last place is kept for a refusal.
fn find(interaction: &Interaction, most: usize, counts: fn(&Fault) -> bool) -> Vec<Problem> {
    let mut problems = Problems { found: vec![], most, counts };
    // Broken off where there are enough.
    let _ = problems.interaction(interaction);
    problems.found
}

/// Whether there is more to look for.
type Flow = ControlFlow<()>;

/// Collects problems. Field paths are written only where one is told.
struct Problems {
    found: Vec<Problem>,
    most: usize,
    counts: fn(&Fault) -> bool,
}

impl Problems {
    fn interaction(&mut self, interaction: &Interaction) -> Flow {
        let Interaction {
            id,
            role,
            created_at_millis: _,
            previous_interaction_id,
            model: _,
            status,
            system_instructions,
            action_configs: _,
            content,
            action_calls,
            action_inputs,
            action_outputs,
            backend_specific_metadata: _,
            usage_metadata: _,
        } = interaction;
        self.length(id, MAX_TEXT_LEN, || "id".into())?;
        if Role::try_from(*role).is_err() {
            self.push(Fault::UnknownRole(*role), || "role".into())?;
        }
        self.length(previous_interaction_id, MAX_TEXT_LEN, || "previous_interaction_id".into())?;
        if let Some(status) = status {
            self.status(status)?;
        }
        for (index, chunk) in system_instructions.iter().enumerate() {
            self.chunk(chunk, &|| format!("system_instructions[{index}]"))?;
        }
        for (index, chunk) in content.iter().enumerate() {
            self.chunk(chunk, &|| format!("content[{index}]"))?;
        }
        self.calls(action_calls)?;
        let ids: BTreeSet<&str> = action_calls.iter().map(|call| call.id.as_str()).collect();
        for call in action_inputs.keys().filter(|call| !ids.contains(call.as_str())) {
            self.push(Fault::UnknownCall, || format!("action_inputs.{}", key(call)))?;
        }
        self.fragments("action_inputs", action_inputs)?;
        self.fragments("action_outputs", action_outputs)
    }

    fn status(&mut self, status: &pb::Status) -> Flow {
        let pb::Status { code, message: _, details, reason } = status;
        if !(0..=16).contains(code) {
            self.push(Fault::UnknownCode(*code), || "status.code".into())?;
        }
        for (index, detail) in details.iter().enumerate() {
            if let Some(fault) = detail_fault(detail) {
                self.push(fault, || format!("status.details[{index}]"))?;
            }
        }
        if Reason::try_from(*reason).is_err() {
            self.push(Fault::UnknownReason(*reason), || "status.reason".into())?;
        }
        Flow::Continue(())
    }

    fn chunk(&mut self, chunk: &Chunk, field: &dyn Fn() -> String) -> Flow {
        let Chunk { metadata, body } = chunk;
        if let Some(pb::ChunkMetadata { media_type, timestamp, attributes }) = metadata {
            self.length(media_type, MAX_MEDIA_TYPE_LEN, || field() + ".metadata.mimetype")?;
            if timestamp.is_some_and(|timestamp| !timestamp::is_in_range(timestamp)) {
                self.push(Fault::TimestampOutOfRange, || field() + ".metadata.timestamp")?;
            }
            let (count, max) = (attributes.len(), MAX_ATTRIBUTES);
            if count > max {
                self.push(Fault::TooMany { count, max }, || field() + ".metadata.attributes")?;
            }
            let bytes = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
            if bytes > MAX_ATTRIBUTE_BYTES {
                let fault = Fault::TooLarge { bytes, max: MAX_ATTRIBUTE_BYTES };
                self.push(fault, || field() + ".metadata.attributes")?;
            }
            for name in attributes.keys() {
                if let Some(error) = name_fault(name) {
                    let field = || format!("{}.metadata.attributes.{}", field(), key(name));
                    self.push(Fault::BadName(error), field)?;
                }
            }
        }
        match body {
            Some(Body::Ref(reference)) if reference.is_empty() => {
                self.push(Fault::EmptyRef, || field() + ".ref")
            }
            Some(Body::Ref(reference)) => self.length(reference, MAX_REF_LEN, || field() + ".ref"),
            Some(Body::Data(_)) | None => Flow::Continue(()),
        }
    }

    fn calls(&mut self, calls: &[pb::ActionMessage]) -> Flow {
        let mut seen = BTreeSet::new();
        for (index, call) in calls.iter().enumerate() {
            let pb::ActionMessage { id, name, inputs, outputs, headers: _ } = call;
            let field = |rest: &str| format!("action_calls[{index}].{rest}");
            if !id.is_empty()
                && let Some(error) = name_fault(id)
            {
                let fault = match is_foreign_id(id) {
                    true => Fault::ForeignCallId(error),
                    false => Fault::BadName(error),
                };
                self.push(fault, || field("id"))?;
            }
            if !name.is_empty()
                && let Some(error) = name_fault(name)
            {
                self.push(Fault::BadName(error), || field("name"))?;
            }
            if !id.is_empty() && !seen.insert(id) {
                self.push(Fault::DuplicateCall(shown(id).to_owned()), || field("id"))?;
            }
            for (bindings, rest) in [(inputs, "inputs"), (outputs, "outputs")] {
                for (place, pb::PortBinding { name, id }) in bindings.iter().enumerate() {
                    self.usable(name, || field(&format!("{rest}[{place}].name")))?;
                    self.usable(id, || field(&format!("{rest}[{place}].id")))?;
                }
            }
        }
        Flow::Continue(())
    }

    fn fragments(&mut self, map: &str, fragments: &BTreeMap<String, NodeFragments>) -> Flow {
        for (call, NodeFragments { fragments }) in fragments {
            for (index, fragment) in fragments.iter().enumerate() {
                let NodeFragment { id, payload, seq: _, continued: _ } = fragment;
                let field = || format!("{map}.{}[{index}]", key(call));
                self.usable(id, || field() + ".id")?;
                match payload {
                    Some(Payload::Chunk(chunk)) => self.chunk(chunk, &|| field() + ".data")?,
                    Some(Payload::NodeRef(node)) => {
                        self.usable(&node.id, || field() + ".data.id")?;
                    }
                    None => {}
                }
            }
        }
        Flow::Continue(())
    }

    fn usable(&mut self, text: &str, field: impl Fn() -> String) -> Flow {
        match name_fault(text) {
            Some(error) => self.push(Fault::UnusableName(error), field),
            None => Flow::Continue(()),
        }
    }

    fn length(&mut self, text: &str, max: usize, field: impl Fn() -> String) -> Flow {
        // A text has at least as many bytes as characters.
        if text.len() > max {
            let len = text.chars().count();
            if len > max {
                self.push(Fault::TooLong { len, max }, field)?;
            }
        }
        Flow::Continue(())
    }

    fn push(&mut self, fault: Fault, field: impl FnOnce() -> String) -> Flow {
        let left = self.most - self.found.len();
        if !(self.counts)(&fault) || (left == 1 && !fault.is_refused()) {
            return Flow::Continue(());
        }
        self.found.push(Problem { field: field(), fault });
        if left == 1 { Flow::Break(()) } else { Flow::Continue(()) }
    }
}

/// Somebody's key, as it stands in the path of a field.
fn key(text: &str) -> &str {
    start_of(text, MAX_KEY_LEN)
}

/// Whether a text can be handed back as a call's id.
fn is_foreign_id(id: &str) -> bool {
    id.chars().count() <= MAX_TEXT_LEN && !id.chars().any(char::is_control)
}

/// Why a text is not a name.
fn name_fault(text: &str) -> Option<NameError> {
    if name::is_name(text) { None } else { Name::new(text).err() }
}

/// Why a detail is not one JSON value that everybody can read: syntax, a lone
/// surrogate, a number out of range, or nested deeper than 127.
pub(super) fn detail_fault(detail: &str) -> Option<Fault> {
    let error = json_weight::read::<serde_json::Value>(detail.as_bytes()).err()?;
    Some(Fault::BadDetail(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Status;

    fn call(id: &str, name: &str) -> pb::ActionMessage {
        pb::ActionMessage { id: id.into(), name: name.into(), ..Default::default() }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |interaction: Interaction, expected: &str, refused: bool| {
            let problems = validate(&interaction);
            let [problem] = problems.as_slice() else { panic!("{expected}: {problems:?}") };
            assert!(problem.to_string().starts_with(expected), "{expected}: {problem}");
            assert_eq!(problem.is_refused(), refused, "{expected}");
            assert_eq!(super::check(&interaction).is_err(), refused, "{expected}");
        };
        let with_calls = |action_calls| Interaction { action_calls, ..Default::default() };
        let with_status = |status| Interaction { status: Some(status), ..Default::default() };
        let with_content = |chunk| Interaction { content: vec![chunk], ..Default::default() };
        check(with_calls(vec![call("c d", "n")]), "action_calls[0].id: ", true);
        check(with_calls(vec![call("c", "n!")]), "action_calls[0].name: ", true);
        check(with_calls(vec![call("c", "n"), call("c", "m")]), "action_calls[1].id: ", true);
        check(Interaction { role: 9, ..Default::default() }, "role: 9", true);
        check(Interaction { id: "é".repeat(256), ..Default::default() }, "id: has 256", true);
        check(with_status(pb::Status { code: 17, ..Default::default() }), "status.code: 17", true);
        check(with_status(pb::Status { code: -1, ..Default::default() }), "status.code: -1", true);
        check(with_status(pb::Status { reason: 99, ..Default::default() }), "status.reason", true);
        for detail in ["NaN", "", "{", "1 2", "\"\\ud800\"", "1e999", &"[".repeat(100_000)] {
            let status =
                pb::Status { details: vec!["1".into(), detail.into()], ..Default::default() };
            check(with_status(status), "status.details[1]: not JSON", true);
        }
        let reference = |text: String| Chunk { metadata: None, body: Some(Body::Ref(text)) };
        check(with_content(reference(String::new())), "content[0].ref: ", true);
        check(with_content(reference("x".repeat(2049))), "content[0].ref: ", true);
        let mut chunk = Chunk::text("");
        chunk.metadata.get_or_insert_default().timestamp =
            Some(pbjson_types::Timestamp { seconds: i64::MAX, nanos: 0 });
        check(with_content(chunk), "content[0].metadata.timestamp: ", true);
        let mut chunk = Chunk::text("");
        chunk.metadata.get_or_insert_default().attributes.insert("a b".into(), "".into());
        check(with_content(chunk), "content[0].metadata.attributes.a b: ", true);
        for (count, bytes) in [(65, 0), (1, 64 * 1024)] {
            let mut chunk = Chunk::text("");
            let attributes = &mut chunk.metadata.get_or_insert_default().attributes;
            attributes.extend((0..count).map(|n| (format!("n{n}"), vec![0; bytes].into())));
            check(with_content(chunk), "content[0].metadata.attributes: ", true);
        }
        let fragments = |id: &str| NodeFragments { fragments: vec![NodeFragment::end(id)] };
        check(
            Interaction {
                action_inputs: [("c".to_owned(), fragments("word"))].into(),
                ..Default::default()
            },
            "action_inputs.c: ",
            false,
        );
        check(
            Interaction {
                action_outputs: [("c".to_owned(), fragments("a b"))].into(),
                ..Default::default()
            },
            "action_outputs.c[0].id: ",
            false,
        );
        assert_eq!(validate(&with_calls(vec![call("", ""), call("", "")])), []);
    }

    #[test]
    fn however_much_is_wrong_a_refusal_is_told_and_little_else() {
        let notes = NodeFragments { fragments: vec![NodeFragment::end("a b"); 5000] };
        let long_key = "é".repeat(5000);
        let mut interaction =
            Interaction { action_outputs: [(long_key, notes)].into(), ..Default::default() };
        let problems = validate(&interaction);
        assert_eq!(problems.len(), MAX_PROBLEMS - 1);
        let path = format!("action_outputs.{}[0].id", "é".repeat(64));
        assert_eq!(problems[0].field, path);
        assert_eq!(super::check(&interaction), Ok(()));
        let nowhere = Chunk { metadata: None, body: Some(Body::Ref(String::new())) };
        let fragments = vec![NodeFragment::last("x", nowhere); 5000];
        interaction.action_outputs.insert("ü".into(), NodeFragments { fragments });
        let problems = validate(&interaction);
        assert_eq!(problems.len(), MAX_PROBLEMS);
        assert_eq!(problems[MAX_PROBLEMS - 1].field, "action_outputs.ü[0].data.ref");
        assert!(super::check(&interaction).is_err());
    }

    #[test]
    fn a_repeated_call_id_has_a_reason_of_its_own() {
        let twice = Interaction {
            action_calls: vec![call("c", "n"), call("c", "n")],
            ..Default::default()
        };
        let error = super::check(&twice).expect_err("refused");
        assert_eq!(error.field(), "action_calls[1].id");
        assert_eq!(Status::from(error).reason, Reason::DuplicateCall);
    }
}

//! One call of a round, from its start to what it put out, within its limits.

use tokio::{sync::mpsc, time::Instant};

use super::{
    answer::{Answer, json_len},
    document::ResultDocument,
    journal::Journal,
    limits::{Limits, Room},
    plan::{Known, PlannedCall, Prepared},
    round::Ended,
};
use crate::action::{
    ActionSchema, Call, Event, Port, Run, Scope,
    schema::{Field, WHOLE_RESULT_ID},
};
use crate::node::Piece;
use crate::wire::chunk::Kind;
use crate::wire::pb::LogEntry;
use crate::wire::{NodeFragment, Reason, Status};

/// Something that happened to a call of a round, for those who follow it.
#[derive(Debug, Clone)]
pub enum CallEvent {
    /// It began.
    Started {
        /// The call's place in the round.
        call: usize,
    },
    /// It narrated; never an internal entry.
    Log {
        /// The call's place in the round.
        call: usize,
        /// What it said.
        entry: LogEntry,
    },
    /// It put something out over a mapped port.
    Output {
        /// The call's place in the round.
        call: usize,
        /// Fragments, whose id is the field of the result.
        fragments: Vec<NodeFragment>,
    },
    /// It ended, or was refused. Nothing more comes of it.
    Finished {
        /// The call's place in the round.
        call: usize,
        /// How.
        status: Status,
        /// What it narrated, in one text.
        log: String,
    },
}

/// Where the events of a round go, if anywhere.
pub(super) type Events = Option<mpsc::Sender<CallEvent>>;

/// What a call came to.
pub(super) struct Collected {
    pub(super) status: Status,
    pub(super) log: String,
    /// What it put out over mapped ports, under the fields of the result.
    pub(super) fragments: Vec<NodeFragment>,
    /// The same as a model reads it; `None` where the call failed.
    pub(super) document: Option<ResultDocument>,
}

impl Collected {
    pub(super) fn refused(status: Status) -> Self {
        Self { status, log: String::new(), fragments: vec![], document: None }
    }
}

/// The longest user-facing log of one call, in bytes; the rest is left out, as is what
/// is past the logs of the round together, and the log says so.
const MAX_LOG_BYTES: usize = 256 * 1024;
/// What ends a log that was cut.
const LOG_CUT: &str = "\n[the rest of the log was left out]";

/// What the calls of a round share.
pub(super) struct Shared<'a> {
    pub(super) scope: &'a Scope,
    pub(super) limits: &'a Limits,
    /// When they end at the latest.
    pub(super) end: Option<Instant>,
    /// What they may still put out together.
    pub(super) room: Room,
    /// How much they may still log together.
    pub(super) log_room: Room,
    pub(super) answer: Answer,
    pub(super) events: Events,
    pub(super) journal: &'a dyn Journal,
}

/// Runs a call to its end.
pub(super) async fn collect(shared: &Shared<'_>, place: usize, call: PlannedCall) -> Ended {
    let PlannedCall { known, run_id, start } = call;
    let collected = run(shared, place, &known, run_id, start).await;
    if shared.events.is_some() {
        let (status, log) = (collected.status.clone(), collected.log.clone());
        tell(&shared.events, CallEvent::Finished { call: place, status, log }).await;
    }
    Ended { known, collected }
}

async fn run(
    shared: &Shared<'_>,
    place: usize,
    known: &Known,
    run_id: String,
    start: Result<Prepared, Status>,
) -> Collected {
    let journal = shared.journal;
    let fit = |collected| shared.answer.fit(known, collected);
    let refused = |status: Status| fit(Collected::refused(status));
    let schema = start.as_ref().ok().map(|prepared| prepared.entry.schema());
    match journal.recorded(&known.id, schema).await {
        Ok(None) => {}
        Ok(Some(collected)) => return fit(collected),
        Err(status) => return refused(status),
    }
    let prepared = match start {
        Ok(prepared) => prepared,
        Err(status) => return refused(status),
    };
    let schema = prepared.entry.schema().clone();
    if let Err(status) = journal.begin(&known.id).await {
        return refused(status);
    }
    let start = shared.scope.start(Call {
        id: run_id,
        entry: prepared.entry,
        inputs: prepared.inputs,
        headers: prepared.headers,
        deadline: shared.end,
    });
    let collected = match start {
        Ok(run) => {
            tell(&shared.events, CallEvent::Started { call: place }).await;
            fit(Collector::new(shared, place, schema).follow(run).await)
        }
        Err(status) => refused(status),
    };
    match journal.end(&known.id, &collected).await {
        Ok(()) => collected,
        // The round fails with it.
        Err(status) => Collected::refused(status),
    }
}

/// Whoever follows may have left; the call goes on for its result.
async fn tell(events: &Events, event: CallEvent) {
    if let Some(events) = events {
        events.send(event).await.ok();
    }
}

struct Collector<'a> {
    shared: &'a Shared<'a>,
    place: usize,
    schema: ActionSchema,
    outputs: Vec<Vec<Piece>>,
    log: String,
    log_is_full: bool,
    output_bytes: usize,
    media_bytes: usize,
    /// Of what the calls of the round share.
    taken: usize,
}

impl<'a> Collector<'a> {
    fn new(shared: &'a Shared<'a>, place: usize, schema: ActionSchema) -> Self {
        let outputs = vec![Vec::new(); schema.outputs().len()];
        let (log, log_is_full) = (String::new(), false);
        let (output_bytes, media_bytes, taken) = (0, 0, 0);
        Self { shared, place, schema, outputs, log, log_is_full, output_bytes, media_bytes, taken }
    }

    async fn follow(mut self, mut run: Run) -> Collected {
        let mut stopped = self.shared.journal.stopped();
        let mut stopping = false;
        let status = loop {
            // Both are cancel safe: waiting to be stopped loses nothing.
            let event = tokio::select! {
                biased;
                status = &mut stopped, if !stopping => {
                    stopping = true;
                    run.stop(status);
                    continue;
                }
                event = run.next_event() => event,
            };
            match event {
                Some(Event::Output(port, pieces)) => {
                    if let Err(status) = self.take(port, pieces).await {
                        run.stop(status);
                    }
                }
                Some(Event::Log(entry)) if entry.internal => {
                    let (call, action) = (run.id(), self.schema.name().as_str());
                    tracing::debug!(call, action, text = entry.text, "an internal log entry");
                }
                Some(Event::Log(entry)) => {
                    self.note(&entry.text);
                    tell(&self.shared.events, CallEvent::Log { call: self.place, entry }).await;
                }
                Some(Event::Finished(status)) => break status,
                None => break Status::ok(),
            }
        };
        self.end(status)
    }

    fn end(self, mut status: Status) -> Collected {
        let Self { shared, schema, mut outputs, log, taken, .. } = self;
        if status.reason == Reason::OutputTooLarge {
            outputs.clear();
            shared.room.give_back(taken);
        }
        // What was collected is all there will be: it ends here, even where the
        // action left it open.
        for last in outputs.iter_mut().filter_map(|pieces| pieces.last_mut()) {
            last.continued = false;
        }
        let mut document = None;
        if status.is_ok() {
            match ResultDocument::new(&schema, &outputs) {
                Ok(whole) => document = Some(whole),
                Err(broken) => status = broken,
            }
        }
        Collected { status, log, fragments: fragments(&schema, outputs), document }
    }

    /// Adds to the log; once it is full nothing more, so that it has no holes.
    fn note(&mut self, text: &str) {
        if self.log_is_full {
            return;
        }
        let fits = self.log.len() + text.len() <= MAX_LOG_BYTES;
        if fits && self.shared.log_room.take(json_len(text)) {
            self.log.push_str(text);
        } else {
            self.log.push_str(LOG_CUT);
            self.log_is_full = true;
        }
    }

    /// Takes what a mapped port put out, as long as it is within the limits.
    async fn take(&mut self, index: usize, pieces: Vec<Piece>) -> Result<(), Status> {
        let port = &self.schema.outputs()[index];
        let Some(field) = fragment_id(&self.schema, port) else { return Ok(()) };
        let limits = self.shared.limits;
        let too_large = |what: String| {
            Status::of(Reason::OutputTooLarge, format!("{:?} put out {what}", self.schema.name()))
        };
        for piece in &pieces {
            let media_type = piece.chunk().map_or("", |chunk| chunk.media_type());
            let (sum, most, what) = match Kind::of(media_type) {
                Kind::Image | Kind::Audio => {
                    (&mut self.media_bytes, limits.max_media_bytes, "picture and sound")
                }
                Kind::Text | Kind::Json | Kind::Bytes => {
                    (&mut self.output_bytes, limits.max_output_bytes, "output")
                }
            };
            let bytes = piece.payload_len();
            if sum.saturating_add(bytes) > most {
                return Err(too_large(format!("more than {most} {what} bytes")));
            }
            // What is beside the bytes is held, too.
            if !self.shared.room.take(piece.cost()) {
                let most = limits.max_round_bytes;
                return Err(too_large(format!(
                    "more than was left of the {most} bytes for all calls of the round"
                )));
            }
            *sum += bytes;
            self.taken += piece.cost();
        }
        let kept = &mut self.outputs[index];
        if self.shared.events.is_some() {
            let fragments = pieces
                .iter()
                .enumerate()
                .map(|(at, piece)| piece.clone().into_fragment(field, (kept.len() + at) as u32));
            let event = CallEvent::Output { call: self.place, fragments: fragments.collect() };
            kept.extend(pieces);
            tell(&self.shared.events, event).await;
        } else {
            kept.extend(pieces);
        }
        Ok(())
    }
}

/// The mapped outputs of a call under the fields of the result.
fn fragments(schema: &ActionSchema, outputs: Vec<Vec<Piece>>) -> Vec<NodeFragment> {
    let mut fragments = Vec::with_capacity(outputs.iter().map(Vec::len).sum());
    for (port, pieces) in schema.outputs().iter().zip(outputs) {
        if let Some(id) = fragment_id(schema, port) {
            let pieces = pieces.into_iter().enumerate();
            fragments.extend(pieces.map(|(seq, piece)| piece.into_fragment(id, seq as u32)));
        }
    }
    fragments
}

/// The id that a port's fragments have in the results; `None` where it is dropped.
fn fragment_id<'a>(schema: &'a ActionSchema, port: &'a Port) -> Option<&'a str> {
    match schema.field_of(port) {
        Field::Named(field) => Some(field),
        Field::Whole => Some(WHOLE_RESULT_ID),
        Field::Dropped => None,
    }
}

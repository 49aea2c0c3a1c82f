//! One call of a round, from its start to what it put out, within its limits.

use tokio::{sync::mpsc, time::Instant};

use super::{document::ResultDocument, journal::Journal, limits::Limits, plan::PlannedCall};
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

/// The longest user-facing log of one call, in bytes; the rest is left out, and
/// the log says so.
const MAX_LOG_BYTES: usize = 256 * 1024;
/// What ends a log that was cut.
const LOG_CUT: &str = "\n[the rest of the log was left out]";

/// Runs a call to its end.
pub(super) async fn collect(
    scope: &Scope,
    place: usize,
    call: PlannedCall,
    limits: &Limits,
    end: Option<Instant>,
    events: Events,
    journal: &dyn Journal,
) -> Collected {
    let collected = run(scope, place, call, limits, end, &events, journal).await;
    if events.is_some() {
        let (status, log) = (collected.status.clone(), collected.log.clone());
        tell(&events, CallEvent::Finished { call: place, status, log }).await;
    }
    collected
}

async fn run(
    scope: &Scope,
    place: usize,
    call: PlannedCall,
    limits: &Limits,
    end: Option<Instant>,
    events: &Events,
    journal: &dyn Journal,
) -> Collected {
    let schema = call.start.as_ref().ok().map(|prepared| prepared.entry.schema());
    match journal.recorded(&call.id, schema).await {
        Ok(None) => {}
        Ok(Some(collected)) => return collected,
        Err(status) => return Collected::refused(status),
    }
    let prepared = match call.start {
        Ok(prepared) => prepared,
        Err(status) => return Collected::refused(status),
    };
    let schema = prepared.entry.schema().clone();
    if let Err(status) = journal.begin(&call.id).await {
        return Collected::refused(status);
    }
    let start = scope.start(Call {
        id: call.run_id,
        entry: prepared.entry,
        inputs: prepared.inputs,
        headers: prepared.headers,
        deadline: end,
    });
    let collected = match start {
        Ok(run) => {
            tell(events, CallEvent::Started { call: place }).await;
            Collector::new(place, schema, limits, events).follow(run, journal).await
        }
        Err(status) => Collected::refused(status),
    };
    match journal.end(&call.id, &collected).await {
        Ok(()) => collected,
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
    place: usize,
    schema: ActionSchema,
    limits: &'a Limits,
    events: &'a Events,
    outputs: Vec<Vec<Piece>>,
    log: String,
    log_is_full: bool,
    output_bytes: usize,
    media_bytes: usize,
}

impl<'a> Collector<'a> {
    fn new(place: usize, schema: ActionSchema, limits: &'a Limits, events: &'a Events) -> Self {
        let outputs = vec![Vec::new(); schema.outputs().len()];
        let log = String::new();
        Self {
            place,
            schema,
            limits,
            events,
            outputs,
            log,
            log_is_full: false,
            output_bytes: 0,
            media_bytes: 0,
        }
    }

    async fn follow(mut self, mut run: Run, journal: &dyn Journal) -> Collected {
        let mut stopped = journal.stopped();
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
                    tracing::debug!(call = run.id(), action = %self.schema.name(), "{}", entry.text);
                }
                Some(Event::Log(entry)) => {
                    self.note(&entry.text);
                    tell(self.events, CallEvent::Log { call: self.place, entry }).await;
                }
                Some(Event::Finished(status)) => break status,
                None => break Status::ok(),
            }
        };
        self.end(status)
    }

    fn end(self, mut status: Status) -> Collected {
        let Self { schema, mut outputs, log, .. } = self;
        if status.reason == Reason::OutputTooLarge {
            outputs.clear();
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
        if self.log.len() + text.len() <= MAX_LOG_BYTES {
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
        for piece in &pieces {
            let media_type = piece.chunk().map_or("", |chunk| chunk.media_type());
            let (sum, most, what) = match Kind::of(media_type) {
                Kind::Image | Kind::Audio => {
                    (&mut self.media_bytes, self.limits.max_media_bytes, "picture and sound")
                }
                Kind::Text | Kind::Json | Kind::Bytes => {
                    (&mut self.output_bytes, self.limits.max_output_bytes, "output")
                }
            };
            *sum = sum.saturating_add(piece.payload_len());
            if *sum > most {
                return Err(Status::of(
                    Reason::OutputTooLarge,
                    format!("{:?} put out more than {most} {what} bytes", self.schema.name()),
                ));
            }
        }
        let kept = &mut self.outputs[index];
        if self.events.is_some() {
            let fragments = pieces
                .iter()
                .enumerate()
                .map(|(at, piece)| piece.clone().into_fragment(field, (kept.len() + at) as u32));
            let event = CallEvent::Output { call: self.place, fragments: fragments.collect() };
            kept.extend(pieces);
            tell(self.events, event).await;
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

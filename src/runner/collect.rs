//! One call of a round, from its start to what it put out, within its limits.

use tokio::{sync::mpsc, time::Instant};

use super::{limits::Limits, plan::PlannedCall};
use crate::action::{ActionSchema, Call, Event, Run, Scope, schema::{Field, WHOLE_RESULT_ID}};
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
}

/// Where the events of a round go, if anywhere.
pub(super) type Events = Option<mpsc::Sender<CallEvent>>;

/// What a call came to.
pub(super) struct Collected {
    pub(super) status: Status,
    pub(super) log: String,
    /// By output port, in the order of the schema; dropped ports are empty.
    pub(super) outputs: Vec<Vec<Piece>>,
    pub(super) schema: Option<ActionSchema>,
}

/// The longest user-facing log of one call, in bytes; the rest is left out.
const MAX_LOG_BYTES: usize = 256 * 1024;

/// Runs a call to its end.
pub(super) async fn collect(
    scope: &Scope,
    place: usize,
    call: PlannedCall,
    limits: &Limits,
    end: Option<Instant>,
    events: Events,
) -> Collected {
    let refused = |status| Collected { status, log: String::new(), outputs: vec![], schema: None };
    let prepared = match call.start {
        Ok(prepared) => prepared,
        Err(status) => return refused(status),
    };
    let schema = prepared.entry.schema().clone();
    let start = scope.start(Call {
        id: call.id,
        entry: prepared.entry,
        inputs: prepared.inputs,
        headers: prepared.headers,
        deadline: end,
    });
    match start {
        Ok(run) => {
            tell(&events, CallEvent::Started { call: place }).await;
            Collector::new(place, schema, limits, events).follow(run).await
        }
        Err(status) => refused(status),
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
    events: Events,
    outputs: Vec<Vec<Piece>>,
    log: String,
    output_bytes: usize,
    media_bytes: usize,
}

impl<'a> Collector<'a> {
    fn new(place: usize, schema: ActionSchema, limits: &'a Limits, events: Events) -> Self {
        let outputs = vec![Vec::new(); schema.outputs().len()];
        let log = String::new();
        Self { place, schema, limits, events, outputs, log, output_bytes: 0, media_bytes: 0 }
    }

    async fn follow(mut self, mut run: Run) -> Collected {
        let status = loop {
            match run.next_event().await {
                Some(Event::Output(port, pieces)) => {
                    if let Err(status) = self.take(port, pieces).await {
                        run.stop(status);
                    }
                }
                Some(Event::Log(entry)) if entry.internal => {
                    tracing::debug!(call = run.id(), action = %self.schema.name(), "{}", entry.text);
                }
                Some(Event::Log(entry)) => {
                    if self.log.len() + entry.text.len() <= MAX_LOG_BYTES {
                        self.log.push_str(&entry.text);
                    }
                    tell(&self.events, CallEvent::Log { call: self.place, entry }).await;
                }
                Some(Event::Finished(status)) => break status,
                None => break Status::ok(),
            }
        };
        if status.reason == Reason::OutputTooLarge {
            self.outputs.clear();
        }
        let Self { schema, mut outputs, log, .. } = self;
        // What was collected is all there will be: it ends here, even where the
        // action left it open.
        for last in outputs.iter_mut().filter_map(|pieces| pieces.last_mut()) {
            last.continued = false;
        }
        Collected { status, log, outputs, schema: Some(schema) }
    }

    /// Takes what a mapped port put out, as long as it is within the limits.
    async fn take(&mut self, index: usize, pieces: Vec<Piece>) -> Result<(), Status> {
        let port = &self.schema.outputs()[index];
        let field = match self.schema.field_of(port) {
            Field::Named(field) => field,
            Field::Whole => WHOLE_RESULT_ID,
            Field::Dropped => return Ok(()),
        };
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
            let fragments = pieces.iter().enumerate().map(|(at, piece)| {
                piece.clone().into_fragment(field, (kept.len() + at) as u32)
            });
            let event = CallEvent::Output { call: self.place, fragments: fragments.collect() };
            kept.extend(pieces);
            tell(&self.events, event).await;
        } else {
            kept.extend(pieces);
        }
        Ok(())
    }
}

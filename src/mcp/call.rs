//! One tool call while it runs: what it puts out is collected, what it narrates
//! is told as it happens.

use std::{collections::VecDeque, future::Future, pin::Pin};

use rmcp::model::CallToolResult;
use tokio_util::sync::CancellationToken;

use super::result::{ResultLimits, failure, success};
use crate::action::{Event, Run, schema::Field};
use crate::node::Piece;
use crate::wire::{Code, Reason, Status};

/// The most bytes that are collected of one call; past it the call fails. Up to
/// here a result that is too large is cut.
const MAX_COLLECTED_BYTES: usize = 32 << 20;
/// The longest log in a result, in bytes; the rest is left out.
pub(super) const MAX_LOG_BYTES: usize = 256 * 1024;
/// How many entries wait for a client that is slow to take them; past it they
/// are told together.
const MAX_WAITING: usize = 64;

/// Tells a client one piece of narration; resolves once it is on its way.
pub(super) type Told = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a call came to.
pub(super) struct Finished {
    /// What its client is told.
    pub(super) result: CallToolResult,
    /// What the log is told.
    pub(super) code: Code,
}

impl Finished {
    /// A call that failed, after it had narrated this much.
    pub(super) fn failed(status: &Status, log: &str) -> Self {
        Self { result: failure(status, log), code: status.code }
    }
}

/// Follows a call to its end; `None` where its client cancelled it. `tell` is
/// asked with each entry for the user, one after the other, all of them before
/// the result; absent where the client wants no progress.
pub(super) async fn follow(
    mut run: Run,
    limits: ResultLimits,
    cancelled: &CancellationToken,
    mut tell: Option<impl FnMut(String) -> Told>,
) -> Option<Finished> {
    let mut collector = Collector::new(&run);
    let mut narration = Narration::default();
    let mut ended = None;
    while ended.is_none() || narration.telling.is_some() {
        // Both branches are cancel safe: events stay with the run, and a telling
        // that was begun stays where it is.
        tokio::select! {
            biased;
            () = cancelled.cancelled() => return None,
            event = run.next_event(), if ended.is_none() => match event {
                Some(Event::Output(port, pieces)) => {
                    if let Err(status) = collector.take(port, pieces) {
                        run.stop(status);
                    }
                }
                Some(Event::Log(entry)) if entry.internal => {
                    let (call, action) = (run.id(), run.schema().name().as_str());
                    tracing::debug!(call, action, text = entry.text, "an internal log entry");
                }
                Some(Event::Log(entry)) => {
                    collector.log(&entry.text);
                    if let Some(tell) = &mut tell {
                        narration.add(entry.text, tell);
                    }
                }
                Some(Event::Finished(status)) => ended = Some(status),
                None => ended = Some(Status::ok()),
            },
            () = narration.told(), if narration.telling.is_some() => {
                if let Some(tell) = &mut tell {
                    narration.next(tell);
                }
            }
        }
    }
    Some(collector.result(&run, ended.unwrap_or_else(Status::ok), limits))
}

/// Entries on their way to the client, in order.
#[derive(Default)]
struct Narration {
    telling: Option<Told>,
    waiting: VecDeque<String>,
}

impl Narration {
    fn add(&mut self, text: String, tell: &mut impl FnMut(String) -> Told) {
        let is_full = self.waiting.len() >= MAX_WAITING;
        match self.waiting.back_mut() {
            Some(last) if is_full => {
                if last.len() + text.len() <= MAX_LOG_BYTES {
                    last.push_str(&text);
                }
            }
            _ => self.waiting.push_back(text),
        }
        if self.telling.is_none() {
            self.next(tell);
        }
    }

    fn next(&mut self, tell: &mut impl FnMut(String) -> Told) {
        self.telling = self.waiting.pop_front().map(tell);
    }

    async fn told(&mut self) {
        if let Some(telling) = &mut self.telling {
            telling.await;
            self.telling = None;
        }
    }
}

/// What a call has put out so far.
struct Collector {
    /// By output port; `None` for one that is dropped from the result.
    outputs: Vec<Option<Vec<Piece>>>,
    bytes: usize,
    log: String,
}

impl Collector {
    fn new(run: &Run) -> Self {
        let schema = run.schema();
        let kept = |port| (schema.field_of(port) != Field::Dropped).then(Vec::new);
        Self { outputs: schema.outputs().iter().map(kept).collect(), bytes: 0, log: String::new() }
    }

    fn take(&mut self, port: usize, pieces: Vec<Piece>) -> Result<(), Status> {
        let Some(kept) = &mut self.outputs[port] else { return Ok(()) };
        self.bytes += pieces.iter().map(Piece::cost).sum::<usize>();
        if self.bytes > MAX_COLLECTED_BYTES {
            return Err(Status::of(
                Reason::OutputTooLarge,
                format!("the result has more than {MAX_COLLECTED_BYTES} bytes"),
            ));
        }
        kept.extend(pieces);
        Ok(())
    }

    fn log(&mut self, text: &str) {
        if self.log.len() + text.len() <= MAX_LOG_BYTES {
            self.log.push_str(text);
        }
    }

    fn result(self, run: &Run, status: Status, limits: ResultLimits) -> Finished {
        let Self { outputs, bytes: _, log } = self;
        if !status.is_ok() {
            return Finished::failed(&status, &log);
        }
        let outputs: Vec<Vec<Piece>> = outputs.into_iter().map(Option::unwrap_or_default).collect();
        match success(run.schema(), &outputs, &log, limits) {
            Ok(result) => Finished { result, code: Code::Ok },
            Err(broken) => Finished::failed(&broken, &log),
        }
    }
}

//! One action called directly: what RunAction, StreamAction and CallAction answer.

use futures::{Stream, StreamExt as _};
use tonic::Streaming;

use super::{
    caller::Caller,
    refusals::as_promised,
    start::{Place, Started, invalid, start_open},
    struct_json::{message_of_json, text_value},
};
use crate::action::{
    DEFAULT_MAX_OUTPUT_BYTES, Event, Outputs,
    log::KeptLog,
    schema::{Field, WHOLE_RESULT_ID},
};
use crate::node::{Piece, Writer};
use crate::runner::ResultDocument;
use crate::wire::pb::{call_action_request::Message, call_action_response, stream_action_response};
use crate::wire::{NodeFragment, Reason, Status, name::shown, pb};

/// Waits for all that a call puts out.
pub(super) async fn run_to_end(started: Started) -> Result<pb::RunActionResponse, Status> {
    let mut started = started;
    let run = &mut started.run;
    let schema = run.schema().clone();
    let mut log = KeptLog::default();
    let narrate = |entry: pb::LogEntry| {
        if !entry.internal {
            log.add(entry);
        }
    };
    let outputs = Outputs::collect(run, DEFAULT_MAX_OUTPUT_BYTES, narrate).await;
    let outputs = outputs.map_err(|mut status| {
        if status.reason == Reason::OutputTooLarge {
            status.message.push_str("; StreamAction hands on any number");
        }
        status
    })?;
    let outputs = outputs.into_ports();
    let document = ResultDocument::new(&schema, &outputs)?;
    let result = document.text.map(|text| match document.is_json {
        true => message_of_json(text),
        false => text_value(text),
    });
    let fragments = schema.outputs().iter().zip(outputs).flat_map(|(port, pieces)| {
        let id = match schema.field_of(port) {
            Field::Named(field) => field.to_owned(),
            Field::Whole => WHOLE_RESULT_ID.to_owned(),
            Field::Dropped => return vec![],
        };
        addressed(&id, 0, pieces)
    });
    let logs = std::iter::from_fn(|| log.take()).collect();
    Ok(pb::RunActionResponse { result, outputs: fragments.collect(), logs })
}

fn addressed(id: &str, first: u32, pieces: Vec<Piece>) -> Vec<NodeFragment> {
    let pieces = pieces.into_iter().enumerate();
    pieces.map(|(at, piece)| piece.into_fragment(id, first + at as u32)).collect()
}

/// What a caller that follows a call is told.
enum Told {
    Outputs(pb::NodeFragments),
    Log(pb::LogEntry),
    Status(pb::Status),
}

impl From<Told> for pb::StreamActionResponse {
    fn from(told: Told) -> Self {
        use stream_action_response::Event;
        let event = match told {
            Told::Outputs(outputs) => Event::Outputs(outputs),
            Told::Log(entry) => Event::Log(entry),
            Told::Status(status) => Event::Status(status),
        };
        Self { event: Some(event) }
    }
}

impl From<Told> for pb::CallActionResponse {
    fn from(told: Told) -> Self {
        use call_action_response::Event;
        let event = match told {
            Told::Outputs(outputs) => Event::Outputs(outputs),
            Told::Log(entry) => Event::Log(entry),
            Told::Status(status) => Event::Status(status),
        };
        Self { event: Some(event) }
    }
}

/// Follows a run and gives its fragments their places.
struct Follower {
    started: Started,
    next_seq: Vec<u32>,
}

impl Follower {
    fn new(started: Started) -> Self {
        let next_seq = vec![0; started.run.schema().outputs().len()];
        Self { started, next_seq }
    }

    /// Cancel safe.
    async fn next(&mut self) -> Option<Told> {
        loop {
            return Some(match self.started.run.next_event().await? {
                Event::Output(port, pieces) => {
                    let first = self.next_seq[port];
                    self.next_seq[port] += pieces.len() as u32;
                    let id = self.started.run.schema().outputs()[port].name();
                    Told::Outputs(pb::NodeFragments { fragments: addressed(id, first, pieces) })
                }
                Event::Log(entry) if entry.internal => continue,
                Event::Log(entry) => Told::Log(entry),
                Event::Finished(status) => Told::Status(status.into()),
            });
        }
    }
}

/// The events of a call. Whoever drops the stream cancels the call.
pub(super) fn events(
    started: Started,
) -> impl Stream<Item = Result<pb::StreamActionResponse, tonic::Status>> + Send {
    futures::stream::unfold(Follower::new(started), |mut follower| async {
        let told = follower.next().await?;
        Some((Ok(told.into()), follower))
    })
}

/// A call whose inputs come while it runs.
pub(super) fn stream_both_ways(
    place: Place,
    caller: Caller,
    mut requests: Streaming<pb::CallActionRequest>,
) -> impl Stream<Item = Result<pb::CallActionResponse, tonic::Status>> + Send {
    async_stream::try_stream! {
        let first = requests.message().await.map_err(as_promised)?;
        let started = match first.and_then(|request| request.message) {
            Some(Message::Start(start)) => {
                start_open(&place, caller, start.into())?
            }
            Some(Message::Inputs(_)) | None => {
                Err(invalid("the first message must be `start`"))?;
                return;
            }
        };
        let run = &started.run;
        let writers = run.schema().inputs().iter().map(|port| {
            let open = (!port.is_autofilled()).then(|| run.input(port.name())).flatten();
            (port.name().to_owned(), open)
        });
        let feed = feed(requests, writers.collect());
        tokio::pin!(feed);
        let mut feeding = true;
        let mut follower = Follower::new(started);
        loop {
            // `feed` is polled where it stands and never restarted; `next` is
            // cancel safe. Outputs go first, so that a caller that only writes
            // still sees its call end.
            tokio::select! {
                biased;
                told = follower.next() => match told {
                    Some(told) => yield told.into(),
                    None => break,
                },
                fed = &mut feed, if feeding => {
                    feeding = false;
                    match fed {
                        Ok(()) => follower.started.run.close_inputs(),
                        Err(status) => follower.started.run.stop(status),
                    }
                }
            }
        }
    }
}

/// Writes what the caller sends to the inputs, until it half-closes.
async fn feed(
    mut requests: Streaming<pb::CallActionRequest>,
    mut writers: Vec<(String, Option<Writer>)>,
) -> Result<(), Status> {
    while let Some(request) = requests.next().await {
        // A caller that never stops must not keep the call from being followed.
        tokio::task::consume_budget().await;
        match request.map_err(as_promised)?.message {
            Some(Message::Inputs(inputs)) => {
                for fragment in inputs.fragments {
                    write(&mut writers, fragment).await?;
                }
            }
            Some(Message::Start(_)) => {
                return Err(invalid("`start` can only be the first message"));
            }
            None => return Err(invalid("a message without content")),
        }
    }
    Ok(())
}

async fn write(
    writers: &mut [(String, Option<Writer>)],
    fragment: NodeFragment,
) -> Result<(), Status> {
    let mut callable = writers.iter().filter(|(_, writer)| writer.is_some());
    let only = match (callable.next(), callable.next()) {
        (Some((name, _)), None) if fragment.id.is_empty() => Some(name.clone()),
        _ => None,
    };
    let id = only.as_deref().unwrap_or(&fragment.id);
    let port = writers.iter_mut().find(|(name, _)| name == id);
    match port {
        Some((name, Some(writer))) => writer.write_fragment(fragment).await.map_err(|status| {
            Status { message: format!("input {name:?}: {}", status.message), ..status }
        }),
        Some((name, None)) => Err(Status::of(
            Reason::AutofilledInput,
            format!("input {name:?} is filled by the runtime and cannot be given"),
        )),
        None => Err(Status::of(
            Reason::UndeclaredInput,
            format!("there is no input {:?}", shown(&fragment.id)),
        )),
    }
}

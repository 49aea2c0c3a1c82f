//! One action called directly: RunAction, StreamAction and CallAction.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use serde_json::value::RawValue;
use tokio::time::Instant;
use tonic::Streaming;
use uuid::Uuid;

use super::caller::{Caller, earliest};
use crate::action::{
    Call, Event, Inputs, Run, Scope,
    schema::{Field, WHOLE_RESULT_ID},
};
use crate::interaction::backend::Arguments;
use crate::node::{Piece, Writer};
use crate::runner::{DEFAULT_CALL_TIMEOUT, ResultDocument};
use crate::wire::pb::{call_action_request::Message, call_action_response, stream_action_response};
use crate::wire::{NodeFragment, Reason, Status, pb};

/// The fields that RunAction, StreamAction and CallAction's start share.
pub(super) struct Start {
    action: String,
    arguments: Option<pbjson_types::Struct>,
    arguments_json: String,
    inputs: Vec<NodeFragment>,
    headers: BTreeMap<String, Bytes>,
    timeout: Option<pbjson_types::Duration>,
}

impl From<pb::RunActionRequest> for Start {
    fn from(request: pb::RunActionRequest) -> Self {
        let pb::RunActionRequest { action, arguments, arguments_json, inputs, headers, timeout } =
            request;
        Self { action, arguments, arguments_json, inputs, headers, timeout }
    }
}

impl From<pb::StreamActionRequest> for Start {
    fn from(request: pb::StreamActionRequest) -> Self {
        let pb::StreamActionRequest { action, arguments, arguments_json, inputs, headers, timeout } =
            request;
        Self { action, arguments, arguments_json, inputs, headers, timeout }
    }
}

impl From<pb::CallStart> for Start {
    fn from(start: pb::CallStart) -> Self {
        let pb::CallStart { action, arguments, arguments_json, headers, timeout } = start;
        Self { action, arguments, arguments_json, inputs: vec![], headers, timeout }
    }
}

/// Which inputs a call begins with.
enum Opening {
    /// All there will be.
    Whole,
    /// Some; others follow.
    Open,
}

/// Starts a call that has all its inputs.
pub(super) fn start(scope: &Scope, caller: Caller, start: Start) -> Result<Run, Status> {
    let timeout = Some(DEFAULT_CALL_TIMEOUT);
    begin(scope, caller, start, Opening::Whole, timeout)
}

fn begin(
    scope: &Scope,
    caller: Caller,
    start: Start,
    opening: Opening,
    default_timeout: Option<Duration>,
) -> Result<Run, Status> {
    let Start { action, arguments, arguments_json, inputs, headers, timeout } = start;
    let timeout = match timeout {
        Some(timeout) => Some(duration("timeout", timeout)?),
        None => default_timeout,
    };
    let entry = scope.registry().runnable(&action)?;
    let arguments = match (arguments, arguments_json.is_empty()) {
        (Some(_), false) => {
            return Err(invalid("arguments and arguments_json: only one can be given"));
        }
        (Some(arguments), true) => struct_json(arguments)?,
        (None, _) => arguments_json,
    };
    if !arguments.is_empty() && !inputs.is_empty() {
        return Err(invalid("arguments and inputs: only one can be given"));
    }
    let inputs = if inputs.is_empty() {
        let raw: Option<&RawValue> = match arguments.trim() {
            "" => None,
            text => Some(serde_json::from_str(text).map_err(|error| {
                Status::of(Reason::InvalidInput, format!("the arguments are not JSON: {error}"))
            })?),
        };
        let arguments =
            Arguments::read(raw).map_err(|fault| Status::of(Reason::InvalidInput, fault))?;
        match opening {
            Opening::Whole => Inputs::from_arguments(entry.schema(), arguments.iter())?,
            Opening::Open => Inputs::open(entry.schema(), arguments.iter())?,
        }
    } else {
        Inputs::from_fragments(entry.schema(), &[], inputs)?
    };
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let deadline = earliest(end, caller.end());
    let mut all_headers = caller.headers;
    all_headers.extend(headers);
    let id = Uuid::new_v4().simple().to_string();
    scope.start(Call { id, entry, inputs, headers: all_headers, deadline })
}

fn invalid(message: impl Into<String>) -> Status {
    Status::of(Reason::InvalidRequest, message)
}

/// A duration of a request.
pub(super) fn duration(field: &str, duration: pbjson_types::Duration) -> Result<Duration, Status> {
    let seconds = u64::try_from(duration.seconds).ok();
    let nanos = u32::try_from(duration.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    match (seconds, nanos) {
        (Some(seconds), Some(nanos)) => Ok(Duration::new(seconds, nanos)),
        _ => Err(invalid(format!("{field}: a duration cannot be negative"))),
    }
}

/// Arguments that came as a message, as JSON text. Whole numbers are written
/// without a fraction, as every integer schema wants them.
fn struct_json(arguments: pbjson_types::Struct) -> Result<String, Status> {
    let object: serde_json::Map<String, serde_json::Value> =
        arguments.fields.into_iter().map(|(name, value)| (name, value_json(value))).collect();
    serde_json::to_string(&object).map_err(|error| invalid(format!("arguments: {error}")))
}

fn value_json(value: pbjson_types::Value) -> serde_json::Value {
    use pbjson_types::value::Kind;
    /// Up to here every whole number has its own double.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value.kind {
        None | Some(Kind::NullValue(_)) => serde_json::Value::Null,
        Some(Kind::BoolValue(value)) => value.into(),
        Some(Kind::StringValue(value)) => value.into(),
        Some(Kind::NumberValue(number)) if number.fract() == 0.0 && number.abs() <= EXACT => {
            (number as i64).into()
        }
        Some(Kind::NumberValue(number)) => number.into(),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(value_json).collect(),
        Some(Kind::StructValue(object)) => {
            object.fields.into_iter().map(|(name, value)| (name, value_json(value))).collect()
        }
    }
}

/// A result document as a message, for people to read.
fn message_of_json(value: serde_json::Value) -> pbjson_types::Value {
    use pbjson_types::value::Kind;
    let kind = match value {
        serde_json::Value::Null => Kind::NullValue(0),
        serde_json::Value::Bool(value) => Kind::BoolValue(value),
        serde_json::Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        serde_json::Value::String(text) => Kind::StringValue(text),
        serde_json::Value::Array(values) => Kind::ListValue(pbjson_types::ListValue {
            values: values.into_iter().map(message_of_json).collect(),
        }),
        serde_json::Value::Object(object) => Kind::StructValue(pbjson_types::Struct {
            fields: object
                .into_iter()
                .map(|(name, value)| (name, message_of_json(value)))
                .collect(),
        }),
    };
    pbjson_types::Value { kind: Some(kind) }
}

/// Waits for all that a call puts out.
pub(super) async fn run_to_end(mut run: Run) -> Result<pb::RunActionResponse, Status> {
    let schema = run.schema().clone();
    let mut outputs = vec![Vec::new(); schema.outputs().len()];
    let mut logs = vec![];
    while let Some(event) = run.next_event().await {
        match event {
            Event::Output(port, pieces) => outputs[port].extend(pieces),
            Event::Log(entry) if entry.internal => {}
            Event::Log(entry) => logs.push(entry),
            Event::Finished(status) if status.is_ok() => {}
            Event::Finished(status) => return Err(status),
        }
    }
    let document = ResultDocument::new(&schema, &outputs)?;
    let result = document.text.map(|text| match document.is_json {
        true => serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text)),
        false => serde_json::Value::String(text),
    });
    let fragments = schema.outputs().iter().zip(outputs).flat_map(|(port, pieces)| {
        let id = match schema.field_of(port) {
            Field::Named(field) => field.to_owned(),
            Field::Whole => WHOLE_RESULT_ID.to_owned(),
            Field::Dropped => return vec![],
        };
        addressed(&id, 0, pieces)
    });
    Ok(pb::RunActionResponse {
        result: result.map(message_of_json),
        outputs: fragments.collect(),
        logs,
    })
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
    run: Run,
    next_seq: Vec<u32>,
}

impl Follower {
    fn new(run: Run) -> Self {
        let next_seq = vec![0; run.schema().outputs().len()];
        Self { run, next_seq }
    }

    /// Cancel safe.
    async fn next(&mut self) -> Option<Told> {
        loop {
            return Some(match self.run.next_event().await? {
                Event::Output(port, pieces) => {
                    let first = self.next_seq[port];
                    self.next_seq[port] += pieces.len() as u32;
                    let id = self.run.schema().outputs()[port].name();
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
    run: Run,
) -> impl Stream<Item = Result<pb::StreamActionResponse, tonic::Status>> + Send {
    futures::stream::unfold(Follower::new(run), |mut follower| async {
        let told = follower.next().await?;
        Some((Ok(told.into()), follower))
    })
}

/// A call whose inputs come while it runs.
pub(super) fn stream_both_ways(
    scope: Scope,
    caller: Caller,
    mut requests: Streaming<pb::CallActionRequest>,
) -> impl Stream<Item = Result<pb::CallActionResponse, tonic::Status>> + Send {
    async_stream::try_stream! {
        let run = match requests.message().await?.and_then(|request| request.message) {
            Some(Message::Start(start)) => {
                begin(&scope, caller, start.into(), Opening::Open, None)?
            }
            Some(Message::Inputs(_)) | None => {
                Err(invalid("the first message must be `start`"))?;
                return;
            }
        };
        let writers = run.schema().inputs().iter().map(|port| {
            let open = (!port.is_autofilled()).then(|| run.input(port.name())).flatten();
            (port.name().to_owned(), open)
        });
        let feed = feed(requests, writers.collect());
        tokio::pin!(feed);
        let mut feeding = true;
        let mut follower = Follower::new(run);
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
                        Ok(()) => follower.run.close_inputs(),
                        Err(status) => follower.run.stop(status),
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
        match request?.message {
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
    let port = writers.iter_mut().find(|(name, _)| *name == fragment.id);
    match port {
        Some((_, Some(writer))) => writer.write_fragment(fragment).await,
        Some((name, None)) => Err(Status::of(
            Reason::AutofilledInput,
            format!("input {name:?} is filled by the runtime and cannot be given"),
        )),
        None => Err(Status::of(
            Reason::UndeclaredInput,
            format!("there is no input {:?}", fragment.id.chars().take(255).collect::<String>()),
        )),
    }
}

//! The start of one action: a request's fields become a running call.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{
    caller::{Caller, earliest},
    struct_json::json_of_struct,
};
use crate::action::{Call, Inputs, Run, Scope, inputs::Opening};
use crate::interaction::backend::Arguments;
use crate::runner::DEFAULT_CALL_TIMEOUT;
use crate::session::{Reachable, RunNodes};
use crate::wire::time_limit::{self, deadline_after};
use crate::wire::{NodeFragment, Reason, Status, json_weight, pb};

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

/// Where calls run, and where they can be reached.
pub(super) struct Place {
    pub(super) scope: Scope,
    pub(super) runs: Option<RunNodes>,
}

/// A call that runs. The run is dropped first: what it holds counts from its end.
pub(super) struct Started {
    pub(super) run: Run,
    _reachable: Option<Reachable>,
}

/// Starts a call that has all its inputs.
pub(super) fn start(place: &Place, caller: Caller, start: Start) -> Result<Started, Status> {
    let timeout = Some(DEFAULT_CALL_TIMEOUT);
    begin(place, caller, start, Opening::Whole, timeout)
}

/// Starts a call whose other inputs follow.
pub(super) fn start_open(place: &Place, caller: Caller, start: Start) -> Result<Started, Status> {
    begin(place, caller, start, Opening::Open, None)
}

fn begin(
    place: &Place,
    mut caller: Caller,
    start: Start,
    opening: Opening,
    default_timeout: Option<Duration>,
) -> Result<Started, Status> {
    let Start { action, arguments, arguments_json, inputs, headers, timeout } = start;
    let timeout = match timeout {
        Some(timeout) => Some(time_limit::read("timeout", timeout)?),
        None => default_timeout,
    };
    caller.add_headers(headers)?;
    let entry = place.scope.registry().runnable(&action)?;
    let arguments = match (arguments, arguments_json.is_empty()) {
        (Some(_), false) => {
            return Err(invalid("arguments and arguments_json: only one can be given"));
        }
        (Some(arguments), true) => {
            let object = json_of_struct(arguments);
            let object = object.map_err(|error| invalid(format!("arguments: {error}")))?;
            serde_json::Value::from(object).to_string()
        }
        (None, _) => arguments_json,
    };
    if !arguments.is_empty() && !inputs.is_empty() {
        return Err(invalid("arguments and inputs: only one can be given"));
    }
    let inputs = if inputs.is_empty() {
        let raw: Option<&RawValue> = match arguments.trim() {
            "" => None,
            text => {
                json_weight::check(text.as_bytes())?;
                Some(serde_json::from_str(text).map_err(|error| {
                    Status::of(Reason::InvalidInput, format!("the arguments are not JSON: {error}"))
                })?)
            }
        };
        let arguments =
            Arguments::read(raw).map_err(|fault| Status::of(Reason::InvalidInput, fault))?;
        Inputs::of_arguments(entry.schema(), arguments.iter(), opening)?
    } else {
        Inputs::from_fragments(entry.schema(), &[], inputs)?
    };
    let end = timeout.and_then(deadline_after);
    let deadline = earliest(end, caller.end());
    let id = Uuid::new_v4().simple().to_string();
    let call = Call { id, entry, inputs, headers: caller.headers, deadline };
    let reachable = match (caller.run_id, &place.runs) {
        (None, _) => None,
        (Some(id), Some(runs)) => Some(runs.reserve(id)?),
        (Some(_), None) => {
            return Err(Status::of(Reason::Unsupported, "runs cannot be reached at this server"));
        }
    };
    let run = place.scope.clone().at(caller.depth).start(call)?;
    if let Some(reachable) = &reachable {
        reachable.open(&run);
    }
    Ok(Started { run, _reachable: reachable })
}

pub(super) fn invalid(message: impl Into<String>) -> Status {
    Status::of(Reason::InvalidRequest, message)
}

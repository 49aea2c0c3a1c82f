//! A call that a handler makes: another action under the same root, with the
//! deadline and the flowing headers of the call that makes it.

use std::time::Duration;

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::Instant;

use super::{
    context::{Context, decode},
    inputs::Inputs,
    run::{Event, Run},
    schema::ActionSchema,
    scope::Call,
};
use crate::node::{Piece, join};
use crate::wire::{Headers, Reason, Status};

/// A nested call in the making.
#[must_use = "a call does nothing until it is run"]
pub struct NestedCall {
    context: Context,
    action: String,
    arguments: Vec<(String, Result<Box<RawValue>, String>)>,
    headers: Headers,
    timeout: Option<Duration>,
}

impl NestedCall {
    pub(super) fn new(context: Context, action: &str) -> Self {
        let headers = context.flowing_headers();
        Self { context, action: action.to_owned(), arguments: vec![], headers, timeout: None }
    }

    /// Gives an argument, by port name; a stream port takes a list.
    pub fn argument<T: Serialize + ?Sized>(mut self, port: &str, value: &T) -> Self {
        let value = to_raw_value(value).map_err(|error| error.to_string());
        self.arguments.push((port.to_owned(), value));
        self
    }

    /// Sends a header along.
    pub fn header(mut self, name: &str, value: impl Into<Bytes>) -> Self {
        self.headers.set(name, value);
        self
    }

    /// Ends the call after this long, and never later than the calling one.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Starts the call with inputs that were not given left open: write them with
    /// [`Run::input`] and end them with [`Run::close_inputs`]. While the run
    /// lives the calling action's slot is free for others.
    ///
    /// # Errors
    /// NOT_FOUND for an action that cannot be run here, INVALID_ARGUMENT for
    /// arguments that do not fit.
    pub fn start(self) -> Result<Run, Status> {
        let (scope_context, call) =
            self.prepare(|schema, arguments| Inputs::open(schema, arguments))?;
        let mut run = scope_context.scope().start(call)?;
        run.lease = Some(scope_context.slot().lend());
        Ok(run)
    }

    /// Runs the call and waits for all it puts out.
    ///
    /// # Errors
    /// As [`start`](Self::start), INVALID_ARGUMENT for a missing argument, and
    /// the status that the call ended with.
    pub async fn run(self) -> Result<Outputs, Status> {
        let (context, call) =
            self.prepare(|schema, arguments| Inputs::from_arguments(schema, arguments))?;
        let mut run = context.scope().start(call)?;
        let lease = context.slot().lend();
        let mut outputs = vec![Vec::new(); run.schema().outputs().len()];
        let status = loop {
            match run.next_event().await {
                Some(Event::Output(port, pieces)) => outputs[port].extend(pieces),
                Some(Event::Log(entry)) => context.log_entry(entry),
                Some(Event::Finished(status)) => break status,
                None => break Status::ok(),
            }
        };
        lease.end().await;
        if status.is_ok() {
            Ok(Outputs { schema: run.schema().clone(), ports: outputs })
        } else {
            Err(status)
        }
    }

    fn prepare(
        self,
        inputs: impl for<'a> FnOnce(
            &ActionSchema,
            Vec<(&'a str, &'a RawValue)>,
        ) -> Result<Inputs, super::InputError>,
    ) -> Result<(Context, Call), Status> {
        let Self { context, action, arguments, headers, timeout } = self;
        let entry = context.registry().runnable(&action)?;
        let mut values = Vec::with_capacity(arguments.len());
        for (port, value) in &arguments {
            match value {
                Ok(value) => values.push((port.as_str(), &**value)),
                Err(error) => {
                    return Err(Status::of(
                        Reason::InvalidInput,
                        format!("input {port:?} has no JSON form: {error}"),
                    ));
                }
            }
        }
        let inputs = inputs(entry.schema(), values)?;
        let own = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let deadline = match (own, context.deadline()) {
            (Some(own), Some(parent)) => Some(own.min(parent)),
            (own, parent) => own.or(parent),
        };
        let id = format!("{}_{}", context.id(), uuid::Uuid::new_v4().simple());
        Ok((context, Call { id, entry, inputs, headers, deadline }))
    }
}

/// What a nested call put out.
#[derive(Debug, Clone)]
pub struct Outputs {
    schema: ActionSchema,
    ports: Vec<Vec<Piece>>,
}

impl Outputs {
    /// What a run put out, by output port in the order of its schema.
    pub fn new(schema: ActionSchema, ports: Vec<Vec<Piece>>) -> Self {
        Self { schema, ports }
    }

    /// The pieces of a port, in order; empty for one there is not.
    pub fn pieces(&self, port: &str) -> &[Piece] {
        let index = self.schema.outputs().iter().position(|output| output.name() == port);
        index.map_or(&[], |index| &self.ports[index])
    }

    /// The one value of a port.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where there is no value, or it is no `T`; NOT_FOUND where it
    /// is a reference to another place.
    pub fn value<T: DeserializeOwned>(&self, port: &str) -> Result<T, Status> {
        match join(self.pieces(port))? {
            Some(chunk) => decode(port, &chunk),
            None => Err(Status::of(Reason::MissingInput, format!("{port:?} was not put out"))),
        }
    }

    /// The values of a stream port.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where one is no `T`; NOT_FOUND where one is a reference to
    /// another place.
    pub fn values<T: DeserializeOwned>(&self, port: &str) -> Result<Vec<T>, Status> {
        let pieces = self.pieces(port).iter().filter(|piece| !piece.is_null());
        pieces.map(|piece| decode(port, piece.value_chunk()?)).collect()
    }
}

//! A call of an action from a client.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::Instant;
use uuid::Uuid;

use super::peer::Client;
use crate::action::{ActionSchema, Call, Context, Entry, Event, Inputs, Outputs, Run, Scope};
use crate::session::driver::RemoteAction;
use crate::wire::pb::action_service_client::ActionServiceClient;
use crate::wire::{Headers, Reason, Status, headers, pb};

/// A call in the making.
#[must_use = "a call does nothing until it is started or run"]
pub struct ClientCall {
    client: Client,
    action: String,
    arguments: Vec<(String, Result<Box<RawValue>, String>)>,
    headers: Headers,
    timeout: Option<Duration>,
    depth: u32,
    end: Option<Instant>,
}

impl ClientCall {
    pub(super) fn new(client: Client, action: &str) -> Self {
        Self {
            client,
            action: action.to_owned(),
            arguments: vec![],
            headers: Headers::default(),
            timeout: None,
            depth: 0,
            end: None,
        }
    }

    /// Gives an argument, by port name; a stream port takes a list.
    pub fn argument<T: Serialize + ?Sized>(mut self, port: &str, value: &T) -> Self {
        let value = to_raw_value(value).map_err(|error| error.to_string());
        self.arguments.push((port.to_owned(), value));
        self
    }

    /// Makes it a part of a call that runs here: the headers that flow go along, how
    /// deep it is, and the time that is left.
    pub fn within(mut self, context: &Context) -> Self {
        let own = std::mem::replace(&mut self.headers, context.flowing_headers());
        self.headers.extend(own.iter().map(|(name, value)| (name, value.clone())));
        self.headers.remove(headers::DEADLINE);
        self.depth = context.depth();
        self.end = context.deadline();
        self
    }

    /// Sends a header along. With `x-a11-run`, an id that cannot be guessed, the
    /// call's ports can be reached through `NodeService`.
    pub fn header(mut self, name: &str, value: impl Into<Bytes>) -> Self {
        self.headers.set(name, value);
        self
    }

    /// Ends the call after this long. Without it the call has no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Starts the call with inputs that were not given left open: write them with
    /// [`Run::input`] and end them with [`Run::close_inputs`]. Dropping the run
    /// cancels the call.
    ///
    /// # Errors
    /// NOT_FOUND for an action that the service has not, INVALID_ARGUMENT for
    /// arguments that do not fit.
    pub async fn start(self) -> Result<Run, Status> {
        let schema = self.schema().await?;
        let inputs = Inputs::open(&schema, self.arguments()?)?;
        self.begin(schema, inputs)
    }

    /// Runs the call and waits for all it puts out.
    ///
    /// # Errors
    /// As [`start`](Self::start), INVALID_ARGUMENT for a missing argument, and
    /// the status that the call ended with.
    pub async fn run(self) -> Result<Outputs, Status> {
        let schema = self.schema().await?;
        let inputs = Inputs::from_arguments(&schema, self.arguments()?)?;
        let mut run = self.begin(schema, inputs)?;
        let mut outputs = vec![Vec::new(); run.schema().outputs().len()];
        while let Some(event) = run.next_event().await {
            match event {
                Event::Output(port, pieces) => outputs[port].extend(pieces),
                Event::Log(_) => {}
                Event::Finished(status) if status.is_ok() => {}
                Event::Finished(status) => return Err(status),
            }
        }
        Ok(Outputs::new(run.schema().clone(), outputs))
    }

    /// The action's schema, as the service has it now.
    async fn schema(&self) -> Result<ActionSchema, Status> {
        let request = pb::GetActionRequest { name: self.action.clone(), ..Default::default() };
        let mut client = ActionServiceClient::new(self.client.channel());
        let action = client.get_action(request).await?.into_inner().action;
        ActionSchema::try_from(action.unwrap_or_default())
            .map_err(|error| Status::of(Reason::InvalidRequest, error.to_string()))
    }

    fn arguments(&self) -> Result<Vec<(&str, &RawValue)>, Status> {
        let arguments = self.arguments.iter().map(|(port, value)| match value {
            Ok(value) => Ok((port.as_str(), &**value)),
            Err(error) => Err(Status::of(
                Reason::InvalidInput,
                format!("input {port:?} has no JSON form: {error}"),
            )),
        });
        arguments.collect()
    }

    fn begin(self, schema: ActionSchema, inputs: Inputs) -> Result<Run, Status> {
        let run_id = self.headers.value(headers::RUN).cloned();
        let action = RemoteAction::of(self.client.session()).reachable_as(run_id);
        let entry = Entry::new(schema, Arc::new(action));
        let own = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let deadline = own.into_iter().chain(self.end).min();
        let depth = self.depth.max(self.headers.depth()?);
        let id = format!("call_{}", Uuid::new_v4().simple());
        Scope::root(Arc::default()).at(depth).start(Call {
            id,
            entry,
            inputs,
            headers: self.headers,
            deadline,
        })
    }
}

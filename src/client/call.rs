//! A call of an action from a client.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use serde::Serialize;
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    peer::Client,
    schemas::{Schemas, Source},
};
use crate::action::inputs::Opening;
use crate::action::request::CallRequest;
use crate::action::{ActionSchema, Call, Context, Entry, Handler, Hosts, Inputs, Outputs, Run};
use crate::session::driver::RemoteAction;
use crate::wire::{Headers, Status, headers};

/// A call in the making.
#[must_use = "a call does nothing until it is started or run"]
pub struct ClientCall {
    client: Client,
    action: String,
    request: CallRequest,
    depth: u32,
    end: Option<Instant>,
}

impl ClientCall {
    pub(super) fn new(client: Client, action: &str) -> Self {
        let request = CallRequest::new(Headers::default());
        Self { client, action: action.to_owned(), request, depth: 0, end: None }
    }

    /// Gives an argument, by port name; a stream port takes a list.
    pub fn argument<T: Serialize + ?Sized>(mut self, port: &str, value: &T) -> Self {
        self.request.add_argument(port, value);
        self
    }

    /// Makes it a part of a call that runs here: the headers that flow go along, how
    /// deep it is, and the time that is left.
    pub fn within(mut self, context: &Context) -> Self {
        let own = std::mem::replace(&mut self.request.headers, context.flowing_headers());
        self.request.headers.extend(own.iter().map(|(name, value)| (name, value.clone())));
        self.request.headers.remove(headers::DEADLINE);
        self.depth = context.depth();
        self.end = context.deadline();
        self
    }

    /// Sends a header along. With `x-a11-run`, an id that cannot be guessed, the
    /// call's ports can be reached through `NodeService`.
    pub fn header(mut self, name: &str, value: impl Into<Bytes>) -> Self {
        self.request.set_header(name, value);
        self
    }

    /// Ends the call after this long. Without it the call has no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.request.set_timeout(timeout);
        self
    }

    /// How many bytes [`run`](Self::run) gathers at most, each piece with what it
    /// costs to keep; [`DEFAULT_MAX_OUTPUT_BYTES`] unless it is said.
    ///
    /// [`DEFAULT_MAX_OUTPUT_BYTES`]: crate::action::DEFAULT_MAX_OUTPUT_BYTES
    pub fn max_output_bytes(mut self, bytes: usize) -> Self {
        self.request.max_output_bytes = bytes;
        self
    }

    /// Starts the call with inputs that were not given left open: write them with
    /// [`Run::input`] and end them with [`Run::close_inputs`]. Dropping the run
    /// cancels the call.
    ///
    /// The action's schema is asked of the service once, and again when it is 30
    /// seconds old, when the arguments do not fit it, or when a call has failed for
    /// its inputs, its outputs, or for want of the action.
    ///
    /// # Errors
    /// NOT_FOUND for an action that the service has not, INVALID_ARGUMENT for
    /// arguments that do not fit.
    pub async fn start(self) -> Result<Run, Status> {
        let (schema, inputs) = self.inputs(Opening::Open).await?;
        self.begin(schema, inputs)
    }

    /// Runs the call and waits for all it puts out.
    ///
    /// # Errors
    /// As [`start`](Self::start), INVALID_ARGUMENT for a missing argument,
    /// RESOURCE_EXHAUSTED for a call that puts out more than
    /// [`max_output_bytes`](Self::max_output_bytes), and the status that the call
    /// ended with.
    pub async fn run(self) -> Result<Outputs, Status> {
        let (schema, inputs) = self.inputs(Opening::Whole).await?;
        let max_output_bytes = self.request.max_output_bytes;
        let mut run = self.begin(schema, inputs)?;
        Outputs::collect(&mut run, max_output_bytes, |_| {}).await
    }

    /// The arguments, as the service takes them now.
    async fn inputs(&self, opening: Opening) -> Result<(ActionSchema, Inputs), Status> {
        let (schemas, session) = (self.client.schemas(), self.client.session());
        let (schema, source) = schemas.get(session.id(), &self.action).await?;
        match (self.request.inputs(&schema, opening), source) {
            (Ok(inputs), _) => Ok((schema, inputs)),
            (Err(status), Source::Service) => Err(status),
            (Err(_), Source::Kept) => {
                let schema = schemas.fetch(session.id(), &self.action).await?;
                let inputs = self.request.inputs(&schema, opening)?;
                Ok((schema, inputs))
            }
        }
    }

    fn begin(self, schema: ActionSchema, inputs: Inputs) -> Result<Run, Status> {
        let Self { client, request, depth, end, .. } = self;
        let run_id = request.headers.value(headers::RUN).cloned();
        let action = RemoteAction::of(client.session()).reachable_as(run_id);
        let called = Called { action, schemas: client.schemas().clone() };
        let entry = Entry::new(schema, Arc::new(called));
        let deadline = request.deadline(end);
        let depth = depth.max(request.headers.depth()?);
        let id = format!("call_{}", Uuid::new_v4().simple());
        let headers = request.headers;
        let call = Call { id, entry, inputs, headers, deadline };
        client.scope().at(depth).start(call)
    }
}

/// An action of the service, whose schema is in doubt once a call of it has failed.
struct Called {
    action: RemoteAction,
    /// Not the client: whoever drops that ends its calls.
    schemas: Arc<Schemas>,
}

impl Handler for Called {
    fn run(&self, context: Context) -> BoxFuture<'static, Result<(), Status>> {
        let (schemas, name) = (self.schemas.clone(), context.action().clone());
        let run = self.action.run(context);
        async move {
            let ended = run.await;
            if let Err(status) = &ended {
                schemas.ended(name.as_str(), status);
            }
            ended
        }
        .boxed()
    }

    fn hosts(&self) -> Hosts {
        self.action.hosts()
    }
}

//! A call that a handler makes: another action under the same root, with the
//! deadline and the flowing headers of the call that makes it.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::{
    context::Context, inputs::Opening, outputs::Outputs, request::CallRequest, run::Run,
    scope::Call,
};
use crate::wire::{Status, name::MAX_NAME_LEN};

/// A nested call in the making.
#[must_use = "a call does nothing until it is run"]
pub struct NestedCall {
    context: Context,
    action: String,
    request: CallRequest,
}

impl NestedCall {
    pub(super) fn new(context: Context, action: &str) -> Self {
        let request = CallRequest::new(context.flowing_headers());
        Self { context, action: action.to_owned(), request }
    }

    /// Gives an argument, by port name; a stream port takes a list.
    pub fn argument<T: Serialize + ?Sized>(mut self, port: &str, value: &T) -> Self {
        self.request.add_argument(port, value);
        self
    }

    /// Sends a header along.
    pub fn header(mut self, name: &str, value: impl Into<Bytes>) -> Self {
        self.request.set_header(name, value);
        self
    }

    /// Ends the call after this long, and never later than the calling one.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.request.set_timeout(timeout);
        self
    }

    /// How many bytes [`run`](Self::run) gathers at most, each piece with what it
    /// costs to keep; [`DEFAULT_MAX_OUTPUT_BYTES`](super::DEFAULT_MAX_OUTPUT_BYTES)
    /// unless it is said.
    pub fn max_output_bytes(mut self, bytes: usize) -> Self {
        self.request.max_output_bytes = bytes;
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
        let (context, call, _) = self.prepare(Opening::Open)?;
        let mut run = context.scope().start(call)?;
        run.lease = Some(context.slot().lend());
        Ok(run)
    }

    /// Runs the call and waits for all it puts out.
    ///
    /// # Errors
    /// As [`start`](Self::start), INVALID_ARGUMENT for a missing argument,
    /// RESOURCE_EXHAUSTED for a call that puts out more than
    /// [`max_output_bytes`](Self::max_output_bytes), and the status that the call
    /// ended with.
    pub async fn run(self) -> Result<Outputs, Status> {
        let (context, call, max_output_bytes) = self.prepare(Opening::Whole)?;
        let mut run = context.scope().start(call)?;
        let lease = context.slot().lend();
        let narrate = |entry| context.log_entry(entry);
        let outputs = Outputs::collect(&mut run, max_output_bytes, narrate).await;
        lease.end().await;
        outputs
    }

    fn prepare(self, opening: Opening) -> Result<(Context, Call, usize), Status> {
        let Self { context, action, request } = self;
        let entry = context.registry().runnable(&action)?;
        let inputs = request.inputs(entry.schema(), opening)?;
        let deadline = request.deadline(context.deadline());
        let id = nested_id(context.id());
        let CallRequest { headers, max_output_bytes, .. } = request;
        Ok((context, Call { id, entry, inputs, headers, deadline }, max_output_bytes))
    }
}

/// An id of a call within another one, no longer than a session takes.
fn nested_id(outer: &str) -> String {
    const OWN_CHARS: usize = 33;
    let outer: String = outer.chars().take(MAX_NAME_LEN - OWN_CHARS).collect();
    format!("{outer}_{}", uuid::Uuid::new_v4().simple())
}

//! One run of an action: a task for the handler, the nodes it writes, and what
//! happens as a sequence of events.

use std::{
    future::{Future as _, poll_fn},
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context as Poller, Poll},
};

use futures::FutureExt as _;
use tokio::{
    task::JoinHandle,
    time::{Instant, Sleep, sleep_until, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    context::{Context, ContextParts},
    inputs::Inputs,
    log::Log,
    port::Cardinality,
    registry::Handler,
    schema::ActionSchema,
    scope::{Call, Handlers, Lease, Scope, Slot, arriving_headers},
};
use crate::node::{DEFAULT_CAPACITY, Node, Piece, Reader, WhenRead, WhenUnread, Writer};
use crate::wire::pb::LogEntry;
use crate::wire::{Name, Reason, Status};

/// Something that happened in a run.
#[derive(Debug)]
pub enum Event {
    /// The output port at this place of the schema put out pieces, in order.
    Output(usize, Vec<Piece>),
    /// The action narrated.
    Log(LogEntry),
    /// The action ended; everything it put out came before. The last event.
    Finished(Status),
}

/// A running action. Dropping it cancels the action.
pub struct Run {
    id: String,
    schema: ActionSchema,
    inputs: Inputs,
    outputs: Vec<Node>,
    /// By output port; `None` once it has ended, or was taken.
    readers: Vec<Option<Reader>>,
    log: Log,
    cancelled: CancellationToken,
    deadline: Option<Pin<Box<Sleep>>>,
    task: Option<JoinHandle<Status>>,
    status: Option<Status>,
    finished: bool,
    handlers: Arc<Handlers>,
    pub(super) lease: Option<Lease>,
}

impl Run {
    pub(super) fn start(scope: Scope, call: Call, handler: Arc<dyn Handler>) -> Self {
        let Call { id, entry, inputs, headers, deadline } = call;
        let schema = entry.schema().clone();
        let headers = arriving_headers(&entry, headers, deadline);
        let outputs: Vec<Node> = schema
            .outputs()
            .iter()
            .map(|port| {
                let node = Node::new(DEFAULT_CAPACITY, port.media_type(), WhenUnread::Discard);
                node.set_when_read(WhenRead::LetGo);
                node
            })
            .collect();
        let readers = outputs.iter().map(|node| Some(node.reader())).collect();
        let log = Log::default();
        let cancelled = CancellationToken::new();
        let handlers = scope.root.handlers.clone();
        let slot = Arc::new(Slot::new(scope.root.slots.clone()));
        let context = Context::new(ContextParts {
            id: id.clone(),
            schema: schema.clone(),
            inputs: inputs.clone(),
            outputs: outputs.clone(),
            headers,
            deadline,
            cancelled: cancelled.clone(),
            log: log.clone(),
            scope: scope.nested(),
            slot: slot.clone(),
        });
        let task =
            tokio::spawn(run_handler(handler, context, slot, outputs.clone(), handlers.clone()));
        Self {
            id,
            schema,
            inputs,
            outputs,
            readers,
            log,
            cancelled,
            deadline: deadline.map(|deadline| Box::pin(sleep_until(deadline))),
            task: Some(task),
            status: None,
            finished: false,
            handlers,
            lease: None,
        }
    }

    /// The call's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The action's schema.
    pub fn schema(&self) -> &ActionSchema {
        &self.schema
    }

    /// What happens next; `None` after [`Event::Finished`].
    ///
    /// Cancel safe.
    pub async fn next_event(&mut self) -> Option<Event> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    /// Waits for the end and lets go of everything put out that was not taken.
    pub async fn finished(&mut self) -> Status {
        loop {
            match self.next_event().await {
                Some(Event::Finished(status)) => return status,
                Some(_) => {}
                None => return self.status.clone().unwrap_or_else(Status::ok),
            }
        }
    }

    /// Takes an output to read apart from the events, which then leave it out.
    pub fn take_output(&mut self, port: &str) -> Option<Reader> {
        let index = self.schema.outputs().iter().position(|output| output.name() == port)?;
        self.readers[index].take()
    }

    /// A handle to write an input that was left open.
    pub fn input(&self, port: &str) -> Option<Writer> {
        let index = self.schema.inputs().iter().position(|input| input.name() == port)?;
        Some(self.inputs.node(index).writer())
    }

    /// The inputs that a caller may write, by port name.
    pub fn input_nodes(&self) -> impl Iterator<Item = (&str, Node)> {
        let ports = self.schema.inputs().iter().enumerate();
        let writable = ports.filter(|(_, port)| !port.is_autofilled());
        writable.map(|(index, port)| (port.name(), self.inputs.node(index).clone()))
    }

    /// The outputs, by port name. They hold what nobody has read yet; to be read from
    /// their beginning they are told to [keep](WhenRead::Keep) what was read before
    /// the first event is taken.
    pub fn output_nodes(&self) -> impl Iterator<Item = (&str, Node)> {
        let names = self.schema.outputs().iter().map(|port| port.name());
        names.zip(self.outputs.iter().cloned())
    }

    /// Ends all inputs that are still open.
    pub fn close_inputs(&self) {
        self.inputs.close();
    }

    /// Ends the run with a status, at once. Nothing that the handler does later
    /// has an effect on it. A run that has failed keeps its first status.
    pub fn stop(&mut self, status: Status) {
        if self.finished || self.status.as_ref().is_some_and(|status| !status.is_ok()) {
            return;
        }
        self.cancelled.cancel();
        for node in &self.outputs {
            node.fail(status.clone());
        }
        self.inputs.close();
        self.log.close();
        self.status = Some(status);
        if let Some(task) = self.task.take() {
            task.abort();
            report_if_abandoned(task, &self.schema, &self.id, &self.handlers);
        }
    }

    /// Polls for the next event.
    pub fn poll_event(&mut self, cx: &mut Poller<'_>) -> Poll<Option<Event>> {
        if self.finished {
            return Poll::Ready(None);
        }
        self.poll_task(cx);
        if let Poll::Ready(entry) = self.log.poll_next(cx) {
            return Poll::Ready(Some(Event::Log(entry)));
        }
        for index in 0..self.readers.len() {
            let Some(reader) = &mut self.readers[index] else { continue };
            let mut pieces = Vec::new();
            match reader.poll_batch(cx, &mut pieces) {
                Poll::Ready(Ok(true)) => return Poll::Ready(Some(Event::Output(index, pieces))),
                Poll::Ready(Ok(false)) => self.readers[index] = None,
                Poll::Ready(Err(status)) => {
                    self.readers[index] = None;
                    // An output that broke by itself fails the action.
                    self.stop(status);
                }
                Poll::Pending => {}
            }
        }
        match &self.status {
            Some(status) if self.readers.iter().all(Option::is_none) => {
                self.finished = true;
                Poll::Ready(Some(Event::Finished(status.clone())))
            }
            _ => Poll::Pending,
        }
    }

    /// Notes the end of the handler, or of its time.
    fn poll_task(&mut self, cx: &mut Poller<'_>) {
        let Some(task) = &mut self.task else { return };
        if let Poll::Ready(ended) = Pin::new(task).poll(cx) {
            self.task = None;
            let ended =
                ended.unwrap_or_else(|error| Status::of(Reason::Cancelled, error.to_string()));
            if !ended.is_ok() {
                for node in &self.outputs {
                    node.fail(ended.clone());
                }
            }
            self.log.close();
            self.inputs.close();
            self.status = Some(ended);
        } else if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            self.stop(out_of_time(self.schema.name()));
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop(Status::of(Reason::Cancelled, "the caller cancelled the call, or left"));
    }
}

/// The task of one call: waits for a slot, runs the handler, ends its outputs.
async fn run_handler(
    handler: Arc<dyn Handler>,
    context: Context,
    slot: Arc<Slot>,
    outputs: Vec<Node>,
    handlers: Arc<Handlers>,
) -> Status {
    let name = context.action().clone();
    let schema = context.schema().clone();
    let deadline = context.deadline();
    let late = name.clone();
    let run = async move {
        slot.take().await;
        // Nothing begins when its time is up, not even to its first await.
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Err(out_of_time(&late));
        }
        let _running = Running::begin(handlers);
        handler.run(context).await
    };
    // Kept here too, and not only by whoever follows the run: a follower that is
    // held up by a slow reader must not lend the handler time.
    let run = async {
        match deadline {
            Some(deadline) => {
                timeout_at(deadline, run).await.unwrap_or_else(|_| Err(out_of_time(&name)))
            }
            None => run.await,
        }
    };
    let status = match AssertUnwindSafe(run).catch_unwind().await {
        Ok(Ok(())) => missing_output(&schema, &outputs).unwrap_or_else(Status::ok),
        // A handler cannot fail with success.
        Ok(Err(status)) if status.is_ok() => Status::ok(),
        Ok(Err(status)) => status,
        Err(panic) => {
            let cause = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_default();
            tracing::error!(action = %name, cause, "a handler panicked");
            Status::of(Reason::HandlerPanicked, format!("{name:?} panicked: {cause}"))
        }
    };
    for node in &outputs {
        if status.is_ok() { node.close() } else { node.fail(status.clone()) }
    }
    status
}

/// What an action that left out a required output fails with. A stream of no values
/// is put out as well.
fn missing_output(schema: &ActionSchema, outputs: &[Node]) -> Option<Status> {
    let mut ports = schema.outputs().iter().zip(outputs);
    let (port, _) = ports.find(|(port, node)| {
        port.is_required() && port.cardinality() == Cardinality::Unary && !node.has_value()
    })?;
    let (action, port) = (schema.name(), port.name());
    let message = format!("{action:?} did not put out {port:?}, which it always does");
    Some(Status::of(Reason::InvalidOutput, message))
}

fn out_of_time(action: &Name) -> Status {
    Status::of(Reason::Deadline, format!("{action:?} did not end in time"))
}

/// Counts a handler for as long as it runs, however it ends.
struct Running(Arc<Handlers>);

impl Running {
    fn begin(handlers: Arc<Handlers>) -> Self {
        handlers.running.fetch_add(1, Ordering::AcqRel);
        Self(handlers)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Most handlers are gone once their task is polled again. One that blocks, or
/// never awaits, cannot be stopped from outside: it is given up and reported.
fn report_if_abandoned(
    mut task: JoinHandle<Status>,
    schema: &ActionSchema,
    id: &str,
    handlers: &Arc<Handlers>,
) {
    if (&mut task).now_or_never().is_some() {
        return;
    }
    // Outside a runtime there is nobody to wait.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let (schema, id, handlers) = (schema.clone(), id.to_owned(), handlers.clone());
    runtime.spawn(async move {
        if timeout(handlers.abandon_after, task).await.is_err() {
            handlers.abandoned.fetch_add(1, Ordering::AcqRel);
            tracing::warn!(
                action = %schema.name(),
                call = id,
                "a handler ignores that its call is over; it was abandoned"
            );
        }
    });
}

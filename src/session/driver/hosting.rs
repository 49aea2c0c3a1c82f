//! Calls that run here for the other side.

use std::panic::AssertUnwindSafe;

use futures::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};

use super::handle::Session;
use crate::action::{Call, Event, Inputs, Port, Run, Scope, scope::DEFAULT_CONCURRENT_CALLS};
use crate::session::core::Side;
use crate::session::run_nodes::{Reachable, RunNodes};
use crate::wire::name::is_name;
use crate::wire::time_limit::{self, deadline_after};
use crate::wire::{Headers, Reason, Status, pb};

/// Runs a call to its end, which is told whatever happens.
pub(super) async fn run(session: Session, frame: pb::CallFrame) {
    let call = frame.call;
    let running = async {
        match begin(&session, frame) {
            Ok(hosted) => hosted.follow(&session, call).await,
            Err(status) => status,
        }
    };
    // The panics of a handler end in its own task; one of ours must not leave the
    // caller waiting.
    let status = AssertUnwindSafe(running).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(call, "a call that runs here for a session panicked");
        Status::of(Reason::HandlerPanicked, "the call ended by a panic")
    });
    session.with(|state| {
        let fault = state.calls.remove(&call).and_then(|call| call.fault);
        let fault = fault.filter(|_| status.is_ok());
        state.core.finish(call, fault.unwrap_or(status));
    });
}

/// A call under way, with the nodes of its ports.
struct Hosted {
    run: Run,
    /// Port and node.
    inputs: Vec<(String, String)>,
    outputs: Vec<(String, String)>,
    /// After the run: what it holds counts from its end.
    reachable: Option<Reachable>,
}

fn begin(session: &Session, frame: pb::CallFrame) -> Result<Hosted, Status> {
    let pb::CallFrame { call, id, action, headers, timeout, inputs, outputs, only_listed_inputs } =
        frame;
    let parts = session.parts();
    let entry = parts.registry.runnable(&action)?;
    let schema = entry.schema();
    let writable = schema.inputs().iter().filter(|port| !port.is_autofilled());
    let unlisted = if only_listed_inputs { Unlisted::Ended } else { Unlisted::OwnName };
    let inputs = bind(writable, inputs, unlisted, Reason::UndeclaredInput)?;
    let outputs =
        bind(schema.outputs().iter(), outputs, Unlisted::OwnName, Reason::InvalidRequest)?;
    let ids = inputs.iter().map(|(_, node)| node.clone()).collect();
    let side = session.look(|state| {
        if let Some(call) = state.calls.get_mut(&call) {
            call.declare(ids, Reason::UndeclaredInput);
        }
        state.core.side()
    });
    let mut headers: Headers = headers.into_iter().collect();
    let end = match timeout {
        Some(timeout) => deadline_after(time_limit::read("timeout", timeout)?),
        None => None,
    };
    let deadline = end.into_iter().chain(headers.deadline()?).min();
    let id = if id.is_empty() { format!("call_{call}") } else { id };
    let scope =
        Scope::limited(parts.registry.clone(), DEFAULT_CONCURRENT_CALLS, parts.handlers.clone())
            .at(own_depth(side, headers.depth()?));
    let given = Inputs::open(schema, [])?;
    if only_listed_inputs {
        given.close_but(schema, |port| inputs.iter().any(|(written, _)| written == port))?;
    }
    let run_id = RunNodes::id_in(&mut headers)?;
    let reachable = match (run_id, &parts.runs) {
        (Some(id), Some(runs)) => Some(runs.reserve(id)?),
        _ => None,
    };
    let run = scope.start(Call { id, entry, inputs: given, headers, deadline })?;
    if let Some(reachable) = &reachable {
        reachable.open(&run);
    }
    Ok(Hosted { run, inputs, outputs, reachable })
}

impl Hosted {
    async fn follow(self, session: &Session, call: u64) -> Status {
        let Self { mut run, inputs, outputs, reachable: _reachable } = self;
        let mut receiving: FuturesUnordered<_> = inputs
            .iter()
            .filter_map(|(port, node)| Some(session.receive_node(call, node, run.input(port)?)))
            .collect();
        let mut sending: FuturesUnordered<_> = outputs
            .iter()
            .filter_map(|(port, node)| Some(session.send_node(call, node, run.take_output(port)?)))
            .collect();
        let over = session.call_ended(call);
        tokio::pin!(over);
        let mut asked_to_end = false;
        let status = loop {
            // `over` and the nodes are polled where they stand; `next_event` is
            // cancel safe.
            tokio::select! {
                event = run.next_event() => match event {
                    Some(Event::Log(entry)) => session.with(|state| state.core.log(call, entry)),
                    Some(Event::Finished(status)) => break status,
                    Some(Event::Output(..)) => {}
                    None => break Status::ok(),
                },
                status = &mut over, if !asked_to_end => {
                    asked_to_end = true;
                    run.stop(status);
                }
                Some(received) = receiving.next() => if let Err(status) = received {
                    run.stop(status);
                },
                Some(sent) = sending.next() => if let Err(status) = sent {
                    run.stop(status);
                },
            }
        };
        if !status.is_ok() {
            // What is there and has room goes; the end does not wait for more.
            while let Some(Some(_)) = sending.next().now_or_never() {}
            return status;
        }
        loop {
            tokio::select! {
                sent = sending.next() => match sent {
                    Some(Ok(())) => {}
                    Some(Err(status)) => return status,
                    None => return status,
                },
                status = &mut over, if !asked_to_end => return status,
            }
        }
    }
}

/// How deep a call is that comes with a depth. The acceptor counts the calls that it
/// hands on to an opener, see [`sent_depth`].
fn own_depth(side: Side, sent: u32) -> u32 {
    match side {
        Side::Acceptor => sent,
        Side::Opener => sent.saturating_sub(1),
    }
}

/// The depth that goes with a call which is made for a call, whose own calls are at
/// `depth`. An opener passes on what it got, and the acceptor adds one, so that a
/// chain of calls ends whoever the openers are.
pub(super) fn sent_depth(side: Side, depth: u32) -> u32 {
    own_depth(side, depth)
}

/// What becomes of a port that a caller does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unlisted {
    /// It has the node of its own name.
    OwnName,
    /// It has none.
    Ended,
}

/// Which node carries which port. `unknown` is what a binding to no port is.
fn bind<'a>(
    ports: impl Iterator<Item = &'a Port>,
    bindings: Vec<pb::PortBinding>,
    unlisted: Unlisted,
    unknown: Reason,
) -> Result<Vec<(String, String)>, Status> {
    let invalid = |message: String| Err(Status::of(Reason::InvalidRequest, message));
    let mut ports: Vec<(&str, Option<String>)> = ports.map(|port| (port.name(), None)).collect();
    for pb::PortBinding { name, id } in bindings {
        match ports.iter_mut().find(|(port, _)| *port == name) {
            Some(_) if !is_name(&id) => {
                return invalid(format!("the node bound to {name:?} has an id that is no name"));
            }
            // Else one frame could bind it a million times.
            Some((_, Some(_))) => return invalid(format!("port {name:?} is bound twice")),
            Some((_, node)) => *node = Some(id),
            None => {
                let message = format!("a node is bound to {name:.255?}, which is no port");
                return Err(Status::of(unknown, message));
            }
        }
    }
    let bound: Vec<(String, String)> = ports
        .into_iter()
        .filter_map(|(port, node)| match (node, unlisted) {
            (Some(node), _) => Some((port.to_owned(), node)),
            (None, Unlisted::OwnName) => Some((port.to_owned(), port.to_owned())),
            (None, Unlisted::Ended) => None,
        })
        .collect();
    for (at, (port, node)) in bound.iter().enumerate() {
        if let Some((other, _)) = bound[..at].iter().find(|(_, taken)| taken == node) {
            return invalid(format!("ports {other:?} and {port:?} have one node, {node:?}"));
        }
    }
    Ok(bound)
}

//! An action that a peer hosts, as a handler here.

use std::{collections::BTreeMap, iter, sync::Arc};

use bytes::Bytes;
use futures::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, try_join_all},
    stream::FuturesUnordered,
};
use parking_lot::Mutex;

use super::{handle::Session, hosting::sent_depth};
use crate::action::{self, Context, Handler, host::MAX_HOSTS};
use crate::node::Piece;
use crate::session::core::{NewCall, cost};
use crate::wire::pb::LogLevel;
use crate::wire::{Headers, Reason, Status, headers, pb};

/// An action and the sessions that host it, which serve it in turn.
#[derive(Debug, Clone, Default)]
pub struct RemoteAction(Arc<Mutex<Hosts>>);

#[derive(Debug, Default)]
struct Hosts {
    sessions: Vec<Session>,
    next: usize,
    /// The id under which a service lets the call be reached.
    run_id: Option<Bytes>,
}

impl RemoteAction {
    /// An action that one session hosts.
    pub fn of(session: Session) -> Self {
        let action = Self::default();
        action.add(session);
        action
    }

    /// The same, its call reachable under an id: see [`headers::RUN`].
    #[must_use]
    pub fn reachable_as(self, run_id: Option<Bytes>) -> Self {
        self.0.lock().run_id = run_id;
        self
    }

    /// Adds a host.
    pub fn add(&self, session: Session) {
        let mut hosts = self.0.lock();
        if !hosts.sessions.iter().any(|host| host.id() == session.id()) {
            hosts.sessions.push(session);
        }
    }

    /// Removes a host; calls that it runs go on.
    pub fn remove(&self, session: &str) {
        self.0.lock().sessions.retain(|host| host.id() != session);
    }

    /// Whether no session hosts it.
    pub fn is_unhosted(&self) -> bool {
        self.0.lock().sessions.is_empty()
    }

    /// The sessions that host it.
    pub fn sessions(&self) -> Vec<Session> {
        self.0.lock().sessions.clone()
    }

    /// The host whose turn it is, of those that are connected. There may be many, of
    /// which few are looked at.
    fn next_connected(&self) -> Option<Session> {
        let mut hosts = self.0.lock();
        let (next, count) = (hosts.next, hosts.sessions.len());
        let mut turn = (0..count).map(|at| (next + at) % count);
        let place = turn.find(|place| hosts.sessions[*place].is_connected())?;
        hosts.next = place + 1;
        Some(hosts.sessions[place].clone())
    }

    /// The hosts in the order to ask them where that one refuses: in turn, connected
    /// ones first.
    fn in_turn(&self) -> Vec<Session> {
        let hosts = self.0.lock();
        let (next, count) = (hosts.next, hosts.sessions.len());
        let turn = (0..count).map(|at| hosts.sessions[(next + at) % count].clone());
        let (connected, others): (Vec<_>, Vec<_>) = turn.partition(Session::is_connected);
        drop(hosts);
        connected.into_iter().chain(others).collect()
    }
}

impl Handler for RemoteAction {
    fn run(&self, context: Context) -> BoxFuture<'static, Result<(), Status>> {
        let run_id = self.0.lock().run_id.clone();
        run(self.clone(), context, run_id).boxed()
    }

    fn hosts(&self) -> action::Hosts {
        let hosts = self.0.lock();
        let listed = hosts.sessions.iter().take(MAX_HOSTS).map(Session::as_host).collect();
        action::Hosts { listed, others: hosts.sessions.len().saturating_sub(MAX_HOSTS) }
    }
}

async fn run(action: RemoteAction, context: Context, run_id: Option<Bytes>) -> Result<(), Status> {
    let name = context.action().clone();
    let mut refusal = Status::of(Reason::PeerLost, format!("no peer hosts {name:?} any more"));
    let first = action.next_connected();
    let asked = first.as_ref().map(|host| host.id().to_owned());
    let others = iter::once_with(|| action.in_turn()).flatten();
    let others = others.filter(|host| Some(host.id()) != asked.as_deref());
    for session in first.into_iter().chain(others) {
        match begin(&session, &context, run_id.clone()) {
            Ok(call) => return call.follow(&context).await,
            // Another one may have room.
            Err(status) => refusal = status,
        }
    }
    Err(refusal)
}

/// A call that runs at a peer; dropped before its end it is cancelled there.
struct RemoteCall {
    session: Session,
    call: u64,
}

impl Drop for RemoteCall {
    fn drop(&mut self) {
        self.session.forget(self.call);
    }
}

fn begin(
    session: &Session,
    context: &Context,
    run_id: Option<Bytes>,
) -> Result<RemoteCall, Status> {
    let schema = context.schema();
    let outputs = schema.outputs().iter().map(|port| port.name().to_owned());
    let inputs = schema.inputs().iter().map(|port| port.name().to_owned());
    let depth = sent_depth(session.look(|state| state.core.side()), context.depth());
    let call = NewCall {
        id: context.id().to_owned(),
        action: context.action().to_string(),
        headers: sent_headers(context.headers(), run_id, depth),
        timeout: context.time_left(),
        inputs: Some(inputs.collect()),
    };
    let call = session.start_call(call, Some(outputs.collect()))?;
    Ok(RemoteCall { session: session.clone(), call })
}

/// The deadline goes as the time left, which needs no common clock.
fn sent_headers(headers: &Headers, run_id: Option<Bytes>, depth: u32) -> BTreeMap<String, Bytes> {
    let others = headers.iter().filter(|(name, _)| *name != headers::DEADLINE);
    let others = others.map(|(name, value)| (name.to_owned(), value.clone()));
    let depth = (depth > 0).then(|| (headers::DEPTH.to_owned(), depth.to_string().into()));
    others.chain(run_id.map(|id| (headers::RUN.to_owned(), id))).chain(depth).collect()
}

impl RemoteCall {
    async fn follow(self, context: &Context) -> Result<(), Status> {
        let (session, call) = (&self.session, self.call);
        let schema = context.schema();
        let inputs = schema.inputs().iter().map(|port| port.name());
        let mut sending: FuturesUnordered<_> =
            inputs
                .map(|port| async move {
                    session.send_node(call, port, context.take_input(port)?).await
                })
                .collect();
        let outputs = schema.outputs().iter().map(|port| self.receive(context, port.name()));
        let receiving = try_join_all(outputs);
        let narrating = async {
            while let Some((entry, displaced)) = session.next_log(call).await {
                narrate(context, entry, displaced);
            }
        };
        let ended = session.call_ended(call);
        tokio::pin!(receiving, narrating, ended);
        let (mut received, mut narrated, mut status) = (false, false, None);
        loop {
            // Everything is polled where it stands.
            tokio::select! {
                Some(sent) = sending.next(), if status.is_none() => sent?,
                outputs = &mut receiving, if !received => {
                    received = true;
                    // Where the call failed too, its own status says more.
                    if let Err(failure) = outputs && status.as_ref().is_none_or(Status::is_ok) {
                        let ended = match status {
                            None => ended.as_mut().now_or_never(),
                            Some(_) => None,
                        };
                        return Err(ended.filter(|it| !it.is_ok()).unwrap_or(failure));
                    }
                }
                () = &mut narrating, if !narrated => narrated = true,
                end = &mut ended, if status.is_none() => status = Some(end),
            }
            if let Some(status) = status.as_ref().filter(|it| received && narrated || is_fault(it))
            {
                return if status.is_ok() { Ok(()) } else { Err(status.clone()) };
            }
        }
    }

    /// Writes what comes of an output to the one here, until it is closed or the call
    /// ends: what comes after the final piece is no less against the rules.
    async fn receive(&self, context: &Context, port: &str) -> Result<(), Status> {
        let mut output = context.output(port)?;
        loop {
            match self.session.read(self.call, port).await {
                Ok(fragments) => {
                    for fragment in fragments {
                        let cost = cost(&fragment);
                        let (seq, piece) = Piece::from_checked(fragment);
                        output.write_checked(seq, piece).await?;
                        self.session.consume(self.call, port, cost);
                    }
                }
                Err(status) if status.is_ok() => return Ok(()),
                Err(status) => return Err(status),
            }
        }
    }
}

/// Whether the peer broke its schema, and the call may still run there.
fn is_fault(status: &Status) -> bool {
    status.reason == Reason::InvalidOutput
}

fn narrate(context: &Context, entry: pb::LogEntry, displaced: u32) {
    if displaced > 0 {
        let text = format!("[{displaced} earlier log entries were dropped]\n");
        context
            .log_entry(pb::LogEntry { level: LogLevel::Warn as i32, ..pb::LogEntry::info(text) });
    }
    context.log_entry(entry);
}

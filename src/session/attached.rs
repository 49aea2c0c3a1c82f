//! The sessions of a directory, and which of them serve which name: its state, under
//! its one lock.

use std::collections::HashMap;

use bytes::Bytes;

use super::{
    core::limits::MAX_PUBLISHED,
    driver::{RemoteAction, Session},
};
use crate::action::schema::{Ports, Runnable};
use crate::action::{ActionSchema, Registry};
use crate::wire::{Name, Reason, Status};

/// The most text of all schemas that a session publishes, in bytes. Compiled they
/// take several times as much.
pub(super) const MAX_PUBLISHED_BYTES: usize = 4 << 20;

/// See the module.
#[derive(Default)]
pub(super) struct State {
    pub(super) sessions: HashMap<String, Attachment>,
    /// Resume token → session.
    pub(super) tokens: HashMap<Bytes, String>,
    /// What is in the registry because of a session.
    served: HashMap<Name, Served>,
    /// The sessions that publish a name which another one holds, longest first.
    waiting: HashMap<Name, Vec<String>>,
    /// The text of all that the sessions publish, in bytes, and its bound.
    pub(super) text_bytes: usize,
    most_text_bytes: usize,
}

/// A session, and what it publishes.
pub(super) struct Attachment {
    pub(super) session: Session,
    pub(super) token: Bytes,
    /// All it publishes, those that are refused for their names included.
    pub(super) actions: HashMap<Name, ActionSchema>,
    /// The text of these, in bytes.
    pub(super) text_bytes: usize,
}

/// What a name stands for.
pub(super) struct Served {
    schema: ActionSchema,
    action: RemoteAction,
}

impl State {
    /// No sessions, which publish at most that many bytes of schemas together.
    pub(super) fn new(most_text_bytes: usize) -> Self {
        Self { most_text_bytes, ..Self::default() }
    }

    /// Serves an action of a session, beside or instead of others.
    pub(super) fn publish(
        &mut self,
        registry: &Registry,
        session: &Session,
        schema: ActionSchema,
    ) -> Result<(), Status> {
        let name = schema.name().clone();
        if name.is_reserved() {
            return Err(Status::of(Reason::InvalidRequest, format!("{name:?} is a reserved name")));
        }
        let attached = self
            .sessions
            .get_mut(session.id())
            .ok_or_else(|| Status::of(Reason::PeerLost, "the session is over"))?;
        if attached.actions.len() >= MAX_PUBLISHED && !attached.actions.contains_key(&name) {
            return Err(too_much(name.as_str()));
        }
        // Kept, not summed up: this is done for each action, and all sessions wait.
        let replaced = attached.actions.get(&name).map_or(0, ActionSchema::text_bytes);
        let text_bytes = attached.text_bytes - replaced + schema.text_bytes();
        if text_bytes > MAX_PUBLISHED_BYTES {
            return Err(too_much(name.as_str()));
        }
        let of_all = self.text_bytes - attached.text_bytes + text_bytes;
        if of_all > self.most_text_bytes {
            return Err(too_much_of_all(name.as_str(), self.most_text_bytes));
        }
        (attached.text_bytes, self.text_bytes) = (text_bytes, of_all);
        // Reached by the session's id even where the name is taken.
        attached.actions.insert(name.clone(), schema.clone());
        self.serve(registry, session, name, schema)
    }

    fn serve(
        &mut self,
        registry: &Registry,
        session: &Session,
        name: Name,
        schema: ActionSchema,
    ) -> Result<(), Status> {
        let taken = |by: String| {
            Status::of(Reason::NameTaken, format!("an action {name:?} is served by {by}"))
        };
        let register = |action: RemoteAction| {
            let registered = registry.register(Ok(schema.clone()), action);
            registered.map_err(|_| taken("the service itself".to_owned()))
        };
        self.wait_no_longer(session.id(), name.as_str());
        let Some(served) = self.served.get(&name) else {
            let action = RemoteAction::of(session.clone());
            register(action.clone())?;
            self.served.insert(name, Served { schema, action });
            return Ok(());
        };
        if is_same(&served.schema, &schema) {
            served.action.add(session.clone());
            return Ok(());
        }
        // It may be a host itself, of what it published before.
        served.action.remove(session.id());
        let holders = served.action.sessions();
        if let Some(holder) = holders.iter().find(|holder| holder.is_connected()) {
            let refusal = taken(described(holder, holders.len() - 1));
            self.waiting.entry(name).or_default().push(session.id().to_owned());
            return Err(refusal);
        }
        let action = RemoteAction::of(session.clone());
        registry.remove(name.as_str());
        register(action.clone())?;
        let replaced = holders.iter().map(|holder| holder.id().to_owned());
        self.waiting.entry(name.clone()).or_default().extend(replaced);
        self.served.insert(name, Served { schema, action });
        Ok(())
    }

    /// Whether there was such an action.
    pub(super) fn withdraw(&mut self, registry: &Registry, session: &str, name: &str) -> bool {
        let attached = self.sessions.get_mut(session);
        let Some(attached) = attached else { return false };
        let Some(schema) = attached.actions.remove(name) else { return false };
        attached.text_bytes -= schema.text_bytes();
        self.text_bytes -= schema.text_bytes();
        self.unserve(registry, session, name);
        true
    }

    /// A program that was started anew while its old connection still seemed to
    /// stand has waited for the names of its old session.
    pub(super) fn succeed(
        &mut self,
        registry: &Registry,
        broken: &Session,
    ) -> Vec<(Session, String)> {
        let attached = self.sessions.get(broken.id()).filter(|_| !broken.peer().is_empty());
        let Some(attached) = attached else { return vec![] };
        let mut successors = vec![];
        for name in attached.actions.keys() {
            let of_same_peer = |id: &String| {
                let waiting = &self.sessions.get(id)?.session;
                let succeeds = waiting.is_connected() && waiting.peer() == broken.peer();
                succeeds.then(|| waiting.clone())
            };
            let waiting = self.waiting.get(name).into_iter().flatten();
            if let Some(successor) = waiting.filter_map(of_same_peer).next_back() {
                successors.push((successor, name.clone()));
            }
        }
        let mut succeeded = vec![];
        for (successor, name) in successors {
            let attached = self.sessions.get(successor.id());
            let Some(schema) = attached.and_then(|it| it.actions.get(&name)).cloned() else {
                continue;
            };
            let shown = name.to_string();
            if self.serve(registry, &successor, name, schema).is_ok() {
                succeeded.push((successor, shown));
            }
        }
        succeeded
    }

    /// A session publishes a name no longer. Where it was the last that served it,
    /// those that wait are next.
    pub(super) fn unserve(&mut self, registry: &Registry, session: &str, name: &str) {
        self.wait_no_longer(session, name);
        let Some(served) = self.served.get(name) else { return };
        served.action.remove(session);
        if !served.action.is_unhosted() {
            return;
        }
        self.served.remove(name);
        registry.remove(name);
        for next in self.waiting.remove(name).unwrap_or_default() {
            let Some(attached) = self.sessions.get(&next) else { continue };
            let Some(schema) = attached.actions.get(name).cloned() else { continue };
            // Refused again, it waits again.
            let session = attached.session.clone();
            let _ = self.serve(registry, &session, schema.name().clone(), schema);
        }
    }

    fn wait_no_longer(&mut self, session: &str, name: &str) {
        if let Some(waiting) = self.waiting.get_mut(name) {
            waiting.retain(|id| id != session);
            if waiting.is_empty() {
                self.waiting.remove(name);
            }
        }
    }
}

pub(super) fn too_much(action: &str) -> Status {
    let message = format!(
        "{action:?}: a session publishes at most {MAX_PUBLISHED} actions, whose schemas have \
         {MAX_PUBLISHED_BYTES} bytes in all"
    );
    Status::of(Reason::SessionLimit, message)
}

fn too_much_of_all(action: &str, most: usize) -> Status {
    let message =
        format!("{action:?}: the schemas of all sessions have at most {most} bytes in all");
    Status::of(Reason::SessionLimit, message)
}

/// Who serves a name, for a peer that wants it too.
fn described(holder: &Session, others: usize) -> String {
    let mut by = match holder.peer() {
        "" => "a peer without a name".to_owned(),
        peer => format!("peer {peer:?}"),
    };
    if others > 0 {
        by.push_str(&format!(" and {others} more"));
    }
    by + ", with another schema; it is served here once they have left"
}

fn is_same(one: &ActionSchema, other: &ActionSchema) -> bool {
    let message = |schema: &ActionSchema| schema.to_message(Runnable::Yes, Ports::All);
    message(one) == message(other)
}

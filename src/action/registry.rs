//! The registry: which actions there are, and what runs them.

use std::{
    collections::BTreeMap,
    future::Future,
    ops::Bound,
    sync::{Arc, OnceLock, Weak},
};

use futures::future::{BoxFuture, FutureExt as _};
use parking_lot::RwLock;
use thiserror::Error;
use tokio::sync::watch;

use super::{
    context::Context,
    host::Hosts,
    schema::{ActionSchema, Runnable, SchemaError},
    tool_name::tool_name,
};
use crate::wire::{Name, Reason, Status, pb};

/// What runs an action.
pub trait Handler: Send + Sync + 'static {
    /// Runs one call. The outputs are ended when it returns, with the status
    /// where it failed. When the call is cancelled or its time is up the future
    /// is dropped at its next await.
    fn run(&self, context: Context) -> BoxFuture<'static, Result<(), Status>>;

    /// The programs that run it, as they are now; none where this one does.
    fn hosts(&self) -> Hosts {
        Hosts::default()
    }
}

impl<F, R> Handler for F
where
    F: Fn(Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), Status>> + Send + 'static,
{
    fn run(&self, context: Context) -> BoxFuture<'static, Result<(), Status>> {
        self(context).boxed()
    }
}

/// A handler out of an asynchronous closure; helps the compiler to its type.
pub fn handler<F, R>(run: F) -> F
where
    F: Fn(Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), Status>> + Send + 'static,
{
    run
}

/// One registered action. Cheap to clone.
#[derive(Clone)]
pub struct Entry {
    schema: ActionSchema,
    handler: Option<Arc<dyn Handler>>,
}

impl Entry {
    /// An action that is in no registry: it runs elsewhere, at a named peer.
    pub fn new(schema: ActionSchema, handler: Arc<dyn Handler>) -> Self {
        Self { schema, handler: Some(handler) }
    }

    /// Its schema.
    pub fn schema(&self) -> &ActionSchema {
        &self.schema
    }

    /// What runs it; `None` where it is only declared.
    pub fn handler(&self) -> Option<&Arc<dyn Handler>> {
        self.handler.as_ref()
    }

    /// The programs that run it, as they are now; none where this one does.
    pub fn hosts(&self) -> Hosts {
        self.handler.as_ref().map(|handler| handler.hosts()).unwrap_or_default()
    }

    /// Whether there is a handler.
    pub fn runnable(&self) -> Runnable {
        if self.handler.is_some() { Runnable::Yes } else { Runnable::No }
    }
}

/// Why an action was not registered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegisterError {
    /// The schema is broken.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Another action has the name.
    #[error("an action named {0:?} is registered already")]
    NameTaken(Name),
    /// Another action's tool name is the same.
    #[error("action {name:?} would have the tool name {tool:?}, which is that of {holder:?}")]
    ToolNameTaken {
        /// The action.
        name: Name,
        /// Its [tool name](tool_name).
        tool: String,
        /// The action that has it.
        holder: Name,
    },
    /// The name is one of the protocol's own.
    #[error("{0:?} is a reserved name: it begins with `__`")]
    Reserved(Name),
}

impl From<RegisterError> for Status {
    fn from(error: RegisterError) -> Self {
        let reason = match &error {
            RegisterError::Schema(_) | RegisterError::Reserved(_) => Reason::InvalidRequest,
            RegisterError::NameTaken(_) | RegisterError::ToolNameTaken { .. } => Reason::NameTaken,
        };
        Status::of(reason, error.to_string())
    }
}

/// The programs that are attached to this one, asked for the actions that they
/// host themselves.
pub trait Peers: Send + Sync {
    /// An action of the peer attached as `session`.
    ///
    /// # Errors
    /// UNAVAILABLE (UNKNOWN_SESSION) where no such session is attached,
    /// NOT_FOUND (UNKNOWN_ACTION) where it does not host the action.
    fn entry(&self, session: &str, action: &str) -> Result<Entry, Status>;
}

/// Reaches the servers that a peer's address names, asked for the actions that
/// they have.
pub trait Dial: Send + Sync {
    /// An action of a server, within a time that the dialler bounds.
    ///
    /// # Errors
    /// PERMISSION_DENIED (PEER_NOT_PERMITTED) for a server that may not be
    /// dialled, UNIMPLEMENTED for a kind that it does not know, UNAVAILABLE for
    /// one that cannot be reached, NOT_FOUND (UNKNOWN_ACTION) where it has no such
    /// action.
    fn entry<'a>(
        &'a self,
        peer: &'a pb::Peer,
        action: &'a str,
    ) -> BoxFuture<'a, Result<Entry, Status>>;
}

#[derive(Default)]
struct Entries {
    by_name: BTreeMap<Name, Entry>,
    /// Actions whose tool name is not their own, by tool name.
    renamed: BTreeMap<String, Name>,
}

/// The actions of a program, by name.
#[derive(Default)]
pub struct Registry {
    entries: RwLock<Entries>,
    changes: watch::Sender<u64>,
    peers: OnceLock<Weak<dyn Peers>>,
    dialler: OnceLock<Arc<dyn Dial>>,
}

impl Registry {
    /// A registry without actions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers an action and what runs it.
    ///
    /// # Errors
    /// A broken schema (which hides no other action), a reserved name, or one
    /// that is taken.
    pub fn register(
        &self,
        schema: Result<ActionSchema, SchemaError>,
        handler: impl Handler,
    ) -> Result<(), RegisterError> {
        self.add(Entry { schema: schema?, handler: Some(Arc::new(handler)) })
    }

    /// Declares an action that runs elsewhere.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn declare(&self, schema: Result<ActionSchema, SchemaError>) -> Result<(), RegisterError> {
        self.add(Entry { schema: schema?, handler: None })
    }

    fn add(&self, entry: Entry) -> Result<(), RegisterError> {
        let name = entry.schema.name().clone();
        if name.is_reserved() {
            return Err(RegisterError::Reserved(name));
        }
        let mut entries = self.entries.write();
        if entries.by_name.contains_key(&name) {
            return Err(RegisterError::NameTaken(name));
        }
        let tool = tool_name(name.as_str()).into_owned();
        let is_own = tool == name.as_str();
        let renamed = entries.renamed.get(&tool);
        let holder =
            renamed.or_else(|| entries.by_name.get(tool.as_str()).map(|e| e.schema.name()));
        if let Some(holder) = holder.cloned() {
            return Err(RegisterError::ToolNameTaken { name, tool, holder });
        }
        if !is_own {
            entries.renamed.insert(tool, name.clone());
        }
        entries.by_name.insert(name, entry);
        drop(entries);
        self.changes.send_modify(|generation| *generation += 1);
        Ok(())
    }

    /// Removes an action; runs that have begun go on.
    pub fn remove(&self, name: &str) -> Option<Entry> {
        let removed = {
            let mut entries = self.entries.write();
            let removed = entries.by_name.remove(name);
            if removed.is_some() {
                let tool = tool_name(name);
                if tool != name {
                    entries.renamed.remove(tool.as_ref());
                }
            }
            removed
        };
        if removed.is_some() {
            self.changes.send_modify(|generation| *generation += 1);
        }
        removed
    }

    /// The action of a name.
    pub fn entry(&self, name: &str) -> Option<Entry> {
        self.entries.read().by_name.get(name).cloned()
    }

    /// The action of a [tool name](tool_name).
    pub fn entry_of_tool(&self, tool: &str) -> Option<Entry> {
        let entries = self.entries.read();
        let name = entries.renamed.get(tool).map_or(tool, Name::as_str);
        entries
            .by_name
            .get(name)
            .filter(|entry| tool_name(entry.schema.name().as_str()) == tool)
            .cloned()
    }

    /// The action of a name, if it can be run.
    ///
    /// # Errors
    /// NOT_FOUND: UNKNOWN_ACTION, or NO_HANDLER where it is only declared.
    pub fn runnable(&self, name: &str) -> Result<Entry, Status> {
        match self.entry(name) {
            Some(entry) if entry.handler.is_some() => Ok(entry),
            Some(_) => Err(Status::of(
                Reason::NoHandler,
                format!("action {name:?} is declared here, but nothing here runs it"),
            )),
            None => Err(Status::of(
                Reason::UnknownAction,
                format!("there is no action {:?}", name.chars().take(255).collect::<String>()),
            )),
        }
    }

    /// Says who knows the attached programs. Only the first time counts.
    pub fn set_peers(&self, peers: Weak<dyn Peers>) {
        // A program has one directory of sessions for as long as it lives.
        let _ = self.peers.set(peers);
    }

    /// An action of the peer attached as `session`, whatever its name here.
    ///
    /// # Errors
    /// As [`Peers::entry`].
    pub fn entry_at(&self, session: &str, action: &str) -> Result<Entry, Status> {
        match self.peers.get().and_then(Weak::upgrade) {
            Some(peers) => peers.entry(session, action),
            None => Err(unattached(session)),
        }
    }

    /// Says who dials servers; without this nothing is dialled. Only the first time
    /// counts.
    pub fn set_dialler(&self, dialler: Arc<dyn Dial>) {
        let _ = self.dialler.set(dialler);
    }

    /// An action of a server that has to be dialled.
    ///
    /// # Errors
    /// As [`Dial::entry`].
    pub async fn entry_dialled(&self, peer: &pb::Peer, action: &str) -> Result<Entry, Status> {
        match self.dialler.get() {
            Some(dialler) => dialler.entry(peer, action).await,
            None => Err(undiallable(peer)),
        }
    }

    /// All actions by name, after `after` where it is given.
    pub fn entries(&self, after: Option<&str>) -> Vec<Entry> {
        let entries = self.entries.read();
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        entries
            .by_name
            .range::<str, _>((start, Bound::Unbounded))
            .map(|(_, entry)| entry.clone())
            .collect()
    }

    /// Changes with every registration and removal.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

/// The status of a call to a peer of a kind that is not dialled.
pub fn undiallable(peer: &pb::Peer) -> Status {
    let peer: String = peer.to_string().chars().take(255).collect();
    Status::of(Reason::UnsupportedPeer, format!("this service cannot dial {peer}"))
}

/// The status of a call to a session that is not attached.
pub fn unattached(session: &str) -> Status {
    let session: String = session.chars().take(255).collect();
    Status::of(Reason::UnknownSession, format!("session {session:?} is not attached"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_actions_never_share_a_tool_name() {
        let registry = Registry::new();
        let declare = |name: &str| registry.declare(ActionSchema::builder(name).build());
        let short = tool_name("a#b").into_owned();
        declare("a#b").expect("free");
        let refused = declare(&short).expect_err("taken").to_string();
        assert!(refused.contains("which is that of \"a#b\""), "{refused}");
        assert_eq!(registry.entry_of_tool(&short).expect("found").schema().name().as_str(), "a#b");
        assert!(registry.entry_of_tool("a#b").is_none());
        registry.remove("a#b").expect("there");
        declare(&short).expect("free again");
        assert!(declare("a#b").is_err());
    }
}

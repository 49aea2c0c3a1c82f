//! The sessions of a service: by id, by resume token, and by what they publish.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message as _;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

use super::{
    core::{Core, Limits, Side, limits::DEFAULT_GRACE, limits::MAX_PUBLISHED},
    driver::{Publications, RemoteAction, Session, SessionParts},
    notices,
    run_nodes::RunNodes,
};
use crate::action::registry::unattached;
use crate::action::schema::{Ports, Runnable};
use crate::action::{ActionSchema, Entry, Handlers, Peers, Registry};
use crate::wire::{Name, Reason, Status, name::shown, pb};

/// How many sessions a service keeps, unless it says otherwise.
pub const DEFAULT_MAX_SESSIONS: usize = 16_384;

/// The most text of all schemas that a session publishes, in bytes. Compiled they
/// take several times as much.
const MAX_PUBLISHED_BYTES: usize = 4 << 20;

/// The most that all sessions of a service publish, unless it says otherwise: an
/// opener costs nothing, and could be many.
pub const DEFAULT_MAX_PUBLISHED_BYTES: usize = 256 << 20;

/// The most that the nodes of all sessions hold which belong to no call, in bytes,
/// unless the service says otherwise.
pub const DEFAULT_MAX_NODE_BYTES: usize = 256 << 20;

/// How a service keeps its sessions.
#[derive(Debug, Clone)]
pub struct Config {
    /// What each session's other side may send.
    pub limits: Limits,
    /// How long a session is kept without a connection.
    pub grace: Duration,
    /// How many sessions there are at most, those without a connection included.
    pub max_sessions: usize,
    /// How much text the schemas have that all sessions publish together, in bytes.
    pub max_published_bytes: usize,
    /// How many bytes the nodes hold that belong to sessions and to no call.
    pub max_node_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            grace: DEFAULT_GRACE,
            max_sessions: DEFAULT_MAX_SESSIONS,
            max_published_bytes: DEFAULT_MAX_PUBLISHED_BYTES,
            max_node_bytes: DEFAULT_MAX_NODE_BYTES,
        }
    }
}

/// The sessions of a service, whose actions it adds to a registry.
pub struct Directory {
    registry: Arc<Registry>,
    handlers: Arc<Handlers>,
    config: Config,
    tasks: TaskTracker,
    stop: CancellationToken,
    runs: RunNodes,
    state: Mutex<State>,
    /// Handed to the sessions, which must not keep the directory alive.
    own: Weak<Directory>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<String, Attachment>,
    /// Resume token → session.
    tokens: HashMap<Bytes, String>,
    /// What is in the registry because of a session.
    served: HashMap<Name, Served>,
    /// The sessions that publish a name which another one holds, longest first.
    waiting: HashMap<Name, Vec<String>>,
    /// The text of all that the sessions publish, in bytes, and its bound.
    text_bytes: usize,
    most_text_bytes: usize,
}

struct Attachment {
    session: Session,
    token: Bytes,
    /// All it publishes, those that are refused for their names included.
    actions: HashMap<Name, ActionSchema>,
    /// The text of these, in bytes.
    text_bytes: usize,
}

struct Served {
    schema: ActionSchema,
    action: RemoteAction,
}

impl Directory {
    /// A directory whose sessions call the actions of `registry` and add their
    /// own to it. The registry asks it for sessions from now on.
    pub fn new(registry: Arc<Registry>, handlers: Arc<Handlers>, config: Config) -> Arc<Self> {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let most_text_bytes = config.max_published_bytes;
        let state = Mutex::new(State { most_text_bytes, ..State::default() });
        let directory = Arc::new_cyclic(|own| Self {
            registry,
            handlers,
            config,
            runs: RunNodes::new(tasks.clone(), stop.clone()),
            tasks,
            stop,
            state,
            own: own.clone(),
        });
        let peers: Weak<dyn Peers> = directory.own.clone();
        directory.registry.set_peers(peers);
        directory
    }

    /// How the sessions are kept.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where the tasks of the sessions run.
    pub fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Cancelled when the service stops.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// The runs whose ports can be reached.
    pub fn runs(&self) -> &RunNodes {
        &self.runs
    }

    /// Whether nothing runs in a session that has a connection, and the end of what ran
    /// has been sent.
    pub fn is_idle(&self) -> bool {
        self.sessions().iter().all(|session| !session.is_connected() || !session.has_calls())
    }

    /// Ends all sessions and waits for their tasks.
    pub async fn shut_down(&self) {
        self.stop.cancel();
        let status = Status::of(Reason::ShuttingDown, "the service is shutting down");
        for session in self.sessions() {
            session.end(status.clone());
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// The sessions that there are.
    pub fn sessions(&self) -> Vec<Session> {
        self.state.lock().sessions.values().map(|it| it.session.clone()).collect()
    }

    /// The session of an id.
    ///
    /// # Errors
    /// UNAVAILABLE (UNKNOWN_SESSION) where it is not attached.
    pub fn session(&self, id: &str) -> Result<Session, Status> {
        let state = self.state.lock();
        state.sessions.get(id).map(|it| it.session.clone()).ok_or_else(|| unattached(id))
    }

    /// Opens a session, with its resume token.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for limits out of range, RESOURCE_EXHAUSTED where there
    /// are too many sessions, UNAVAILABLE where the service stops.
    pub fn open(
        &self,
        peer: String,
        limits: Option<pb::SessionLimits>,
    ) -> Result<(Session, Bytes), Status> {
        if self.stop.is_cancelled() {
            return Err(Status::of(Reason::ShuttingDown, "the service is shutting down"));
        }
        let peer_limits = Limits::try_from(limits)?;
        let mut state = self.state.lock();
        if state.sessions.len() >= self.config.max_sessions {
            return Err(Status::of(
                Reason::SessionLimit,
                format!("the service has {} sessions, the most it takes", state.sessions.len()),
            ));
        }
        let now = Instant::now();
        let limits = self.config.limits;
        let core = Core::new(Side::Acceptor, limits, peer_limits, self.config.grace, now);
        let id = Uuid::new_v4().to_string();
        let session = Session::new(
            core,
            SessionParts {
                id: id.clone(),
                peer: shown(&peer).to_owned(),
                registry: self.registry.clone(),
                handlers: self.handlers.clone(),
                publications: self.own.clone(),
                tasks: self.tasks.clone(),
                runs: Some(self.runs.clone()),
            },
        );
        let token: Bytes =
            [Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()].concat().into();
        state.tokens.insert(token.clone(), id.clone());
        let attachment = Attachment {
            session: session.clone(),
            token: token.clone(),
            actions: HashMap::new(),
            text_bytes: 0,
        };
        state.sessions.insert(id, attachment);
        Ok((session, token))
    }

    /// The connection of a session is gone, and the session kept for its grace
    /// period. Names that a newer session of the same peer waits for go to that
    /// one at once; calls of the old one run on.
    pub(super) fn disconnected(&self, session: &Session) {
        notices::disconnected(session, self.config.grace);
        let succeeded = self.state.lock().succeed(&self.registry, session);
        for (successor, name) in succeeded {
            notices::published(&successor, &[name]);
        }
    }

    /// The session of a resume token.
    ///
    /// # Errors
    /// UNAVAILABLE (UNKNOWN_SESSION) where it is not kept any more.
    pub fn resume(&self, token: &[u8]) -> Result<Session, Status> {
        let state = self.state.lock();
        let session = state.tokens.get(token).and_then(|id| state.sessions.get(id));
        session.map(|it| it.session.clone()).ok_or_else(|| {
            Status::of(Reason::UnknownSession, "the session to resume is not kept any more")
        })
    }
}

impl Peers for Directory {
    fn entry(&self, session: &str, action: &str) -> Result<Entry, Status> {
        let state = self.state.lock();
        let attached = state.sessions.get(session).ok_or_else(|| unattached(session))?;
        match attached.actions.get(action) {
            Some(schema) => {
                let action = RemoteAction::of(attached.session.clone());
                Ok(Entry::new(schema.clone(), Arc::new(action)))
            }
            None => Err(Status::of(
                Reason::UnknownAction,
                format!("session {session:?} has no action {:?}", shown(action)),
            )),
        }
    }
}

impl Publications for Directory {
    fn publish(&self, session: &Session, actions: Vec<pb::ActionSchema>) -> Vec<pb::RefusedAction> {
        // Compiled before the lock, which every session shares.
        let mut bytes = 0;
        let compiled = actions.into_iter().enumerate().map(|(before, message)| {
            let name = shown(&message.name).to_owned();
            bytes += message.encoded_len();
            let schema = if before >= MAX_PUBLISHED || bytes > MAX_PUBLISHED_BYTES {
                Err(too_much(&name))
            } else {
                ActionSchema::try_from(message)
                    .map_err(|error| Status::of(Reason::InvalidRequest, error.to_string()))
            };
            (name, schema)
        });
        let compiled: Vec<_> = compiled.collect();
        let (mut published, mut refused) = (vec![], vec![]);
        {
            let mut state = self.state.lock();
            for (name, schema) in compiled {
                match schema.and_then(|it| state.publish(&self.registry, session, it)) {
                    Ok(()) => published.push(name),
                    Err(status) => {
                        refused.push(pb::RefusedAction { name, status: Some(status.into()) });
                    }
                }
            }
        }
        notices::published(session, &published);
        notices::refused(session, &refused);
        refused
    }

    fn withdraw(&self, session: &Session, mut names: Vec<String>) {
        {
            let mut state = self.state.lock();
            names.retain(|name| state.withdraw(&self.registry, session.id(), name));
        }
        notices::withdrawn(session, &names);
    }

    fn ended(&self, session: &Session, status: &Status) {
        let actions = {
            let mut state = self.state.lock();
            let Some(ended) = state.sessions.remove(session.id()) else { return };
            state.tokens.remove(&ended.token);
            state.text_bytes -= ended.text_bytes;
            for name in ended.actions.keys() {
                state.unserve(&self.registry, session.id(), name.as_str());
            }
            ended.actions.len()
        };
        notices::left(session, actions, status);
    }
}

impl State {
    /// Serves an action of a session, beside or instead of others.
    fn publish(
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
    fn withdraw(&mut self, registry: &Registry, session: &str, name: &str) -> bool {
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
    fn succeed(&mut self, registry: &Registry, broken: &Session) -> Vec<(Session, String)> {
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
    fn unserve(&mut self, registry: &Registry, session: &str, name: &str) {
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

fn too_much(action: &str) -> Status {
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

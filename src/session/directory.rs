//! The sessions of a service: opened, resumed and ended, and what they publish taken
//! into its registry.

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
    attached::{Attachment, MAX_PUBLISHED_BYTES, State, too_much},
    core::{Core, Limits, Side, limits::DEFAULT_GRACE, limits::MAX_PUBLISHED},
    driver::{Publications, RemoteAction, Session, SessionParts},
    notices,
    run_nodes::RunNodes,
};
use crate::action::registry::unattached;
use crate::action::{ActionSchema, Entry, Handlers, Peers, Registry};
use crate::wire::{Reason, Status, name::shown, pb};

/// How many sessions a service keeps, unless it says otherwise.
pub const DEFAULT_MAX_SESSIONS: usize = 16_384;

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

impl Directory {
    /// A directory whose sessions call the actions of `registry` and add their
    /// own to it. The registry asks it for sessions from now on.
    pub fn new(registry: Arc<Registry>, handlers: Arc<Handlers>, config: Config) -> Arc<Self> {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let state = Mutex::new(State::new(config.max_published_bytes));
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

//! A client of a service, and how one is made.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::transport::Channel;

use super::{call::ClientCall, keeper::Keeper, schemas::Schemas};
use crate::action::{Registry, Scope};
use crate::session::Session;
use crate::wire::{Status, pb};

/// A program that attaches to a service, in the making.
#[derive(Clone)]
pub struct Peer {
    registry: Arc<Registry>,
    name: String,
}

impl Peer {
    /// A program that hosts the runnable actions of `registry`, those that are
    /// added later included.
    pub fn host(registry: Arc<Registry>) -> Self {
        Self { registry, name: String::new() }
    }

    /// Says who it is, for people and logs.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Attaches to the service at the other end of `channel`, and stays attached
    /// until the client, and all its clones, are dropped: a connection that
    /// breaks is resumed, a session that was lost is opened anew.
    ///
    /// # Errors
    /// What the service refuses the session with; UNAVAILABLE where it cannot be
    /// reached. Actions that it refuses are no error, see
    /// [`refused`](Client::refused).
    pub async fn connect(self, channel: Channel) -> Result<Client, Status> {
        let Self { registry, name } = self;
        let tasks = TaskTracker::new();
        let keeper = Keeper::new(channel.clone(), registry, name, tasks.clone());
        let (attached, opened) = keeper.open().await?;
        let (sender, current) = watch::channel(attached);
        let stop = CancellationToken::new();
        tasks.spawn(keeper.keep(opened, sender, stop.clone()));
        tasks.close();
        let schemas = Arc::new(Schemas::new(channel.clone()));
        let scope = Scope::limited(Arc::default(), Semaphore::MAX_PERMITS, Arc::default());
        Ok(Client(Arc::new(Inner { channel, schemas, current, stop, tasks, scope })))
    }
}

/// A session, and what the service does not serve of it.
#[derive(Clone)]
pub(super) struct Attached {
    pub(super) session: Session,
    pub(super) refused: Arc<[pb::RefusedAction]>,
}

/// A program attached to a service. Cheap to clone; when the last clone is
/// dropped the session ends, and its calls with it.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    channel: Channel,
    schemas: Arc<Schemas>,
    current: watch::Receiver<Attached>,
    stop: CancellationToken,
    tasks: TaskTracker,
    /// Where its calls run, however many at once: the service counts them.
    scope: Scope,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Client {
    /// Attaches to a service without hosting anything.
    ///
    /// # Errors
    /// As [`Peer::connect`].
    pub async fn connect(channel: Channel) -> Result<Self, Status> {
        Peer::host(Arc::default()).connect(channel).await
    }

    /// A call of an action of the service, or of another program attached to it.
    pub fn call(&self, action: &str) -> ClientCall {
        ClientCall::new(self.clone(), action)
    }

    /// The session, as it is now. Its id goes into `x-a11-session` metadata and
    /// `a11://SESSION` addresses.
    pub fn session(&self) -> Session {
        self.0.current.borrow().session.clone()
    }

    /// The actions that the service refused when they were last published to it,
    /// and why. One whose name another session held (NAME_TAKEN) is served once
    /// that session leaves; the service does not tell when.
    pub fn refused(&self) -> Arc<[pb::RefusedAction]> {
        self.0.current.borrow().refused.clone()
    }

    /// Ends the session and waits until the service has been told.
    pub async fn close(self) {
        self.0.stop.cancel();
        self.0.tasks.wait().await;
    }

    pub(super) fn channel(&self) -> Channel {
        self.0.channel.clone()
    }

    pub(super) fn scope(&self) -> Scope {
        self.0.scope.clone()
    }

    pub(super) fn schemas(&self) -> &Arc<Schemas> {
        &self.0.schemas
    }
}

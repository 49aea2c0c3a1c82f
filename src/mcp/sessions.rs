//! The sessions of HTTP clients that speak a protocol version with sessions:
//! the SDK's own, with a bound on how many there are, and on how long one stays
//! that its client opens and never uses.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::Stream;
use parking_lot::Mutex;
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::{
        common::server_side_http::SessionId,
        streamable_http_server::session::{
            ServerSseMessage, SessionManager,
            local::{LocalSessionManager, LocalSessionManagerError, SessionConfig},
        },
    },
};
use thiserror::Error;
use tokio::task::AbortHandle;

/// Why a session could not be used.
#[derive(Debug, Error)]
pub(super) enum SessionsError {
    /// There are as many as there may be.
    #[error("there are {0} sessions already")]
    Full(usize),
    /// The session itself failed.
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

/// At most so many sessions, in memory.
pub(super) struct Sessions {
    local: LocalSessionManager,
    most: usize,
    /// How long after its opening a session has to hear of its client again.
    initialization: Duration,
    /// What ends those that have not yet.
    unused: Mutex<HashMap<SessionId, AbortHandle>>,
    own: Weak<Sessions>,
}

impl Sessions {
    pub(super) fn new(config: SessionConfig, most: usize, initialization: Duration) -> Arc<Self> {
        Arc::new_cyclic(|own| {
            let mut local = LocalSessionManager::default();
            local.session_config = config;
            Self { local, most, initialization, unused: Mutex::default(), own: own.clone() }
        })
    }

    /// Ends a session unless its client says more in time: the SDK itself waits for
    /// the first message alone.
    fn await_use(&self, id: &SessionId) {
        let (sessions, opened) = (self.own.clone(), id.clone());
        let end = tokio::time::sleep(self.initialization);
        let mut unused = self.unused.lock();
        let ending = tokio::spawn(async move {
            end.await;
            if let Some(sessions) = sessions.upgrade() {
                sessions.unused.lock().remove(&opened);
                // One that is over by now needs no end.
                let _ = sessions.local.close_session(&opened).await;
            }
        });
        unused.insert(id.clone(), ending.abort_handle());
    }

    fn used(&self, id: &SessionId) {
        if let Some(ending) = self.unused.lock().remove(id) {
            ending.abort();
        }
    }

    /// How many there are.
    pub(super) async fn len(&self) -> usize {
        self.local.sessions.read().await.len()
    }

    /// Whether there are as many as there may be.
    pub(super) async fn is_full(&self) -> bool {
        self.len().await >= self.most
    }
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionsError> {
        if self.is_full().await {
            return Err(SessionsError::Full(self.most));
        }
        Ok(self.local.create_session().await?)
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionsError> {
        let answer = self.local.initialize_session(id, message).await?;
        self.await_use(id);
        Ok(answer)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionsError> {
        Ok(self.local.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionsError> {
        self.used(id);
        Ok(self.local.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        self.used(id);
        Ok(self.local.create_stream(id, message).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionsError> {
        self.used(id);
        Ok(self.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.local.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.local.resume(id, last_event_id).await?)
    }
}

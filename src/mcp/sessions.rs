//! The sessions of HTTP clients that speak a protocol version with sessions:
//! the SDK's own, with a bound on how many there are, and on how long one stays
//! that its client opens and never uses; and with request ids that are each in use
//! once, since the SDK lets a second request take the place of the first, whose
//! caller then waits for ever.

use std::{
    cell::RefCell,
    collections::HashMap,
    future::{Future, ready},
    sync::{Arc, Weak},
    time::Duration,
};

use futures::{Stream, StreamExt as _, future::Either, stream};
use parking_lot::Mutex;
use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage},
    transport::{
        Transport,
        common::server_side_http::SessionId,
        streamable_http_server::session::{
            ServerSseMessage, SessionManager,
            local::{LocalSessionManager, LocalSessionManagerError, SessionConfig},
        },
    },
};
use thiserror::Error;
use tokio::task::AbortHandle;

use super::{
    refusal::Refusal,
    request_ids::RequestIds,
    unanswered::{Unanswered, answered_by, progress_of},
};

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
    unanswered: BySession,
    /// How long after its opening a session has to hear of its client again.
    initialization: Duration,
    /// What ends those that have not yet.
    unused: Mutex<HashMap<SessionId, AbortHandle>>,
    own: Weak<Sessions>,
}

/// Session → its requests that are being worked on.
type BySession = Arc<Mutex<HashMap<SessionId, Unanswered>>>;

tokio::task_local! {
    /// Why the request of this task is refused. The SDK has no other answer for a
    /// request that a session does not take than an internal error.
    static REFUSAL: RefCell<Option<Refusal>>;
}

/// What `request` comes to, and why it was refused where it was.
pub(super) async fn with_refusal<T>(request: impl Future<Output = T>) -> (T, Option<Refusal>) {
    let with_refusal = async {
        let answer = request.await;
        (answer, REFUSAL.with(RefCell::take))
    };
    REFUSAL.scope(RefCell::default(), with_refusal).await
}

/// The service's end of a session.
pub(super) struct Watched {
    session: SessionId,
    transport: <LocalSessionManager as SessionManager>::Transport,
    unanswered: Unanswered,
    ids: RequestIds,
    all: BySession,
}

impl Transport<RoleServer> for Watched {
    type Error =
        <<LocalSessionManager as SessionManager>::Transport as Transport<RoleServer>>::Error;

    fn send(
        &mut self,
        mut message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let unanswered = self.unanswered.clone();
        let is_awaited = self.ids.let_out(&mut message);
        let answer = answered_by(&message).filter(|_| is_awaited);
        answer.iter().for_each(|id| unanswered.answering(id));
        let sent = is_awaited.then(|| self.transport.send(message));
        async move {
            let Some(sent) = sent else { return Ok(()) };
            let sent = sent.await;
            // Not before: the session finds the way of the answer by its id.
            answer.iter().for_each(|id| unanswered.remove(id));
            sent
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let mut message = self.transport.receive().await?;
        self.ids.take_in(&mut message);
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.all.lock().remove(&self.session);
    }
}

impl Sessions {
    pub(super) fn new(config: SessionConfig, most: usize, initialization: Duration) -> Arc<Self> {
        Arc::new_cyclic(|own| {
            let mut local = LocalSessionManager::default();
            local.session_config = config;
            Self {
                local,
                most,
                unanswered: BySession::default(),
                initialization,
                unused: Mutex::default(),
                own: own.clone(),
            }
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
    type Transport = Watched;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionsError> {
        if self.is_full().await {
            return Err(SessionsError::Full(self.most));
        }
        let (session, transport) = self.local.create_session().await?;
        let (unanswered, all) = (Unanswered::default(), self.unanswered.clone());
        all.lock().insert(session.clone(), unanswered.clone());
        let ids = RequestIds::default();
        Ok((session.clone(), Watched { session, transport, unanswered, ids, all }))
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
        let unanswered = self.unanswered.lock().get(id).cloned();
        if let (JsonRpcMessage::Request(request), Some(unanswered)) = (&message, unanswered) {
            if let Err(refusal) = unanswered.add_after_answer(request).await {
                let _ = REFUSAL.try_with(|place| place.replace(Some(refusal)));
                return Ok(Either::Left(stream::empty()));
            }
            let request = request.id.clone();
            let created = self.local.create_stream(id, message).await;
            return Ok(Either::Right(created.inspect_err(|_| unanswered.remove(&request))?));
        }
        Ok(Either::Right(self.local.create_stream(id, message).await?))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionsError> {
        self.used(id);
        if let JsonRpcMessage::Notification(told) = &message
            && let Some(unanswered) = self.unanswered.lock().get(id)
        {
            unanswered.note_told(&told.notification);
        }
        Ok(self.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        let stream = self.local.create_standalone_stream(id).await?;
        Ok(stream.filter(|event| ready(!is_progress(event))))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        // The SDK writes `INDEX/REQUEST` for the stream of a request.
        let is_standalone = !last_event_id.contains('/');
        let stream = self.local.resume(id, last_event_id).await?;
        Ok(stream.filter(move |event| ready(!(is_standalone && is_progress(event)))))
    }
}

/// Whether an event has no place on a session's own stream. The SDK tells there what
/// it has no other for: the progress of a request that was cancelled meanwhile.
fn is_progress(event: &ServerSseMessage) -> bool {
    event.message.as_ref().is_some_and(|message| progress_of(message).is_some())
}

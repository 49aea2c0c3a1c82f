//! The requests of one client that are being worked on. Answers find their
//! request by its id, so no two of them have one.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use parking_lot::Mutex;
use rmcp::model::{
    ClientNotification, ClientRequest, GetMeta as _, JsonRpcMessage, JsonRpcRequest, ProgressToken,
    RequestId, ServerJsonRpcMessage, ServerNotification,
};
use tokio::sync::Notify;

use super::refusal::Refusal;

/// How many requests may be unanswered at once; past it they are refused.
const MAX_UNANSWERED: usize = 4096;

/// Requests that were accepted and not answered.
#[derive(Clone, Default)]
pub(super) struct Unanswered(Arc<(Mutex<HashMap<RequestId, Asked>>, Notify)>);

struct Asked {
    phase: Phase,
    /// What its progress is told under, where that is wanted.
    token: Option<ProgressToken>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Its answer is on its way, and may be there before it is noted.
    Answering,
}

impl Unanswered {
    /// Notes a request; refuses one whose id is that of an unanswered one, or
    /// that is one too many.
    pub(super) fn add(&self, request: &JsonRpcRequest<ClientRequest>) -> Result<(), Refusal> {
        let id = &request.id;
        let mut requests = self.0.0.lock();
        let count = requests.len();
        match requests.entry(id.clone()) {
            Entry::Occupied(_) => Err(Refusal::IdInUse(id.clone())),
            Entry::Vacant(_) if count >= MAX_UNANSWERED => Err(Refusal::TooMany(id.clone())),
            Entry::Vacant(free) => {
                let token = request.request.get_meta().get_progress_token();
                free.insert(Asked { phase: Phase::Running, token });
                Ok(())
            }
        }
    }

    /// The same, for an id that is used again as soon as its answer has come.
    pub(super) async fn add_after_answer(
        &self,
        request: &JsonRpcRequest<ClientRequest>,
    ) -> Result<(), Refusal> {
        loop {
            let changed = self.0.1.notified();
            let phase = self.0.0.lock().get(&request.id).map(|asked| asked.phase);
            if phase != Some(Phase::Answering) {
                return self.add(request);
            }
            changed.await;
        }
    }

    /// Notes that a request's answer is on its way.
    pub(super) fn answering(&self, id: &RequestId) {
        if let Some(asked) = self.0.0.lock().get_mut(id) {
            asked.phase = Phase::Answering;
        }
    }

    pub(super) fn remove(&self, id: &RequestId) {
        self.0.0.lock().remove(id);
        self.0.1.notify_waiters();
    }

    /// Notes what the client told: no answer comes to a request that it cancelled.
    pub(super) fn note_told(&self, notification: &ClientNotification) {
        if let ClientNotification::CancelledNotification(cancelled) = notification {
            cancelled.params.request_id.iter().for_each(|id| self.remove(id));
        }
    }

    /// Sends a message if it is still wanted: progress is that of a request that was
    /// neither answered nor cancelled. Nothing is noted between the look and the
    /// sending.
    pub(super) fn if_wanted(&self, message: &ServerJsonRpcMessage, send: impl FnOnce()) {
        let requests = self.0.0.lock();
        let is_wanted = progress_of(message)
            .is_none_or(|token| requests.values().any(|it| it.token.as_ref() == Some(token)));
        if is_wanted {
            send();
        }
    }

    /// Waits until there are none.
    pub(super) async fn none(&self) {
        loop {
            let changed = self.0.1.notified();
            if self.0.0.lock().is_empty() {
                return;
            }
            changed.await;
        }
    }
}

/// The request that a message answers, if it does.
pub(super) fn answered_by(message: &ServerJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(response.id.clone()),
        JsonRpcMessage::Error(error) => error.id.clone(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

/// The token of a message that tells of progress.
pub(super) fn progress_of(message: &ServerJsonRpcMessage) -> Option<&ProgressToken> {
    match message {
        JsonRpcMessage::Notification(told) => match &told.notification {
            ServerNotification::ProgressNotification(told) => Some(&told.params.progress_token),
            _ => None,
        },
        _ => None,
    }
}

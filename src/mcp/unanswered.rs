//! The requests of one client that are being worked on. Answers find their
//! request by its id, so no two of them have one.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use parking_lot::Mutex;
use rmcp::model::{ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use tokio::sync::Notify;

use super::refusal::Refusal;

/// How many requests may be unanswered at once; past it they are refused.
const MAX_UNANSWERED: usize = 4096;

/// Requests that were accepted and not answered.
#[derive(Clone, Default)]
pub(super) struct Unanswered(Arc<(Mutex<HashMap<RequestId, Phase>>, Notify)>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Its answer is on its way, and may be there before it is noted.
    Answering,
}

impl Unanswered {
    /// Notes a request; refuses one whose id is that of an unanswered one, or
    /// that is one too many.
    pub(super) fn add(&self, id: &RequestId) -> Result<(), Refusal> {
        let mut requests = self.0.0.lock();
        let count = requests.len();
        match requests.entry(id.clone()) {
            Entry::Occupied(_) => Err(Refusal::IdInUse(id.clone())),
            Entry::Vacant(_) if count >= MAX_UNANSWERED => Err(Refusal::TooMany(id.clone())),
            Entry::Vacant(free) => {
                free.insert(Phase::Running);
                Ok(())
            }
        }
    }

    /// The same, for an id that is used again as soon as its answer has come.
    pub(super) async fn add_after_answer(&self, id: &RequestId) -> Result<(), Refusal> {
        loop {
            let changed = self.0.1.notified();
            if self.0.0.lock().get(id) != Some(&Phase::Answering) {
                return self.add(id);
            }
            changed.await;
        }
    }

    /// Notes that a request's answer is on its way.
    pub(super) fn answering(&self, id: &RequestId) {
        if let Some(phase) = self.0.0.lock().get_mut(id) {
            *phase = Phase::Answering;
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

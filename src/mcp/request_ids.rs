//! The ids of one client's requests within the SDK: each is used once. A client
//! may use the id of a request that it cancelled again, and the SDK would take what
//! still comes of the first for the answer to the second. Pure.

use std::collections::HashMap;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};

/// The requests that are neither answered nor cancelled: id within → id without.
#[derive(Default)]
pub(super) struct RequestIds {
    outside: HashMap<RequestId, RequestId>,
    count: u64,
}

impl RequestIds {
    /// Gives a message from the client the ids that hold within.
    pub(super) fn take_in(&mut self, message: &mut ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => {
                let inside = match request.request {
                    // What is told on a subscription names the id of its request.
                    ClientRequest::SubscriptionsListenRequest(_) => request.id.clone(),
                    _ => self.unused(),
                };
                let outside = std::mem::replace(&mut request.id, inside.clone());
                self.outside.insert(inside, outside);
            }
            JsonRpcMessage::Notification(told) => {
                if let ClientNotification::CancelledNotification(cancelled) = &mut told.notification
                    && let Some(id) = &mut cancelled.params.request_id
                {
                    let found = self.outside.iter().find(|(_, outside)| *outside == id);
                    if let Some(inside) = found.map(|(inside, _)| inside.clone()) {
                        self.outside.remove(&inside);
                        *id = inside;
                    }
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// Gives a message to the client the ids that it knows; `false` for an answer
    /// that nobody waits for any more.
    pub(super) fn let_out(&mut self, message: &mut ServerJsonRpcMessage) -> bool {
        let id = match message {
            JsonRpcMessage::Response(response) => &mut response.id,
            JsonRpcMessage::Error(error) => match &mut error.id {
                Some(id) => id,
                None => return true,
            },
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => return true,
        };
        match self.outside.remove(id) {
            Some(outside) => {
                *id = outside;
                true
            }
            None => false,
        }
    }

    fn unused(&mut self) -> RequestId {
        loop {
            self.count += 1;
            let id = RequestId::String(format!("#{}", self.count).into());
            if !self.outside.contains_key(&id) {
                return id;
            }
        }
    }
}

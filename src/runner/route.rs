//! Where a call runs: here, or at the peer that the interaction's config names.

use crate::action::{Entry, Registry};
use crate::wire::{Headers, Reason, Status, pb};

/// Finds what runs the call of `action`.
///
/// # Errors
/// NOT_FOUND for an action that is not here; what [`peer_status`] says for a
/// config that leads elsewhere.
pub(super) fn entry(
    registry: &Registry,
    action: &str,
    config: Option<&pb::ActionConfig>,
    sender: Option<&str>,
) -> Result<Entry, Status> {
    match config {
        None => registry.runnable(action),
        Some(config) => {
            Err(peer_status(&config.peer.clone().unwrap_or_else(pb::Peer::sender), sender))
        }
    }
}

/// Sets the headers that a config adds.
pub(super) fn autofill(headers: &mut Headers, config: Option<&pb::ActionConfig>) {
    for (name, value) in config.iter().flat_map(|config| &config.header_autofills) {
        headers.set(name, value.clone());
    }
}

/// Why a peer cannot be reached: no session is attached to a service of one-shot
/// calls, and it dials no one.
fn peer_status(peer: &pb::Peer, sender: Option<&str>) -> Status {
    let session = match (peer.protocol.as_str(), peer.scheme.as_str()) {
        ("a11", "session" | "") if peer.identity == "$sender" => match sender {
            Some(session) => session,
            None => {
                return Status::of(
                    Reason::NoSender,
                    format!(
                        "{peer} is the caller's own session, but the request has no x-a11-session metadata"
                    ),
                );
            }
        },
        ("a11", "session" | "") => peer.identity.as_str(),
        _ => {
            return Status::of(Reason::UnsupportedPeer, format!("this service cannot dial {peer}"));
        }
    };
    Status::of(Reason::UnknownSession, format!("session {session:?} is not attached"))
}

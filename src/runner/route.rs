//! Where a call runs: here, or at the peer that the interaction's config names.

use crate::action::{Entry, Registry};
use crate::wire::{Headers, Reason, Status, pb};

/// Finds what runs the call of `action`.
///
/// # Errors
/// NOT_FOUND for an action that is not there; what [`session_of`] says for a
/// config that leads nowhere; UNAVAILABLE for a session that is not attached.
pub(super) fn entry(
    registry: &Registry,
    action: &str,
    config: Option<&pb::ActionConfig>,
    sender: Option<&str>,
) -> Result<Entry, Status> {
    match config {
        None => registry.runnable(action),
        Some(config) => {
            let peer = config.peer.clone().unwrap_or_else(pb::Peer::sender);
            registry.entry_at(session_of(&peer, sender)?, action)
        }
    }
}

/// Sets the headers that a config adds.
pub(super) fn autofill(headers: &mut Headers, config: Option<&pb::ActionConfig>) {
    for (name, value) in config.iter().flat_map(|config| &config.header_autofills) {
        headers.set(name, value.clone());
    }
}

/// The session that a peer's address means.
///
/// # Errors
/// FAILED_PRECONDITION for the caller's own session where it said none,
/// UNIMPLEMENTED for an address that would have to be dialled.
fn session_of<'a>(peer: &'a pb::Peer, sender: Option<&'a str>) -> Result<&'a str, Status> {
    match (peer.protocol.as_str(), peer.scheme.as_str()) {
        ("a11", "session" | "") if peer.identity == "$sender" => sender.ok_or_else(|| {
            Status::of(
                Reason::NoSender,
                format!(
                    "{peer} is the caller's own session, but the request has no x-a11-session metadata"
                ),
            )
        }),
        ("a11", "session" | "") => Ok(peer.identity.as_str()),
        _ => Err(Status::of(Reason::UnsupportedPeer, format!("this service cannot dial {peer}"))),
    }
}

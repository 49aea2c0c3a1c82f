//! Where a call runs: here, or at the peer that the interaction's config names.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use tokio::time::{Instant, timeout_at};

use crate::action::{Entry, Registry, registry::undiallable, tool_name};
use crate::wire::{Reason, Status, pb};

/// How many servers are asked at once for the actions of one turn.
const DIALLED_AT_ONCE: usize = 16;

/// Actions of servers that had to be dialled, or why they are not there.
pub(super) type Dialled = BTreeMap<String, Result<Entry, Status>>;

/// The server that a config leads to, where that has to be dialled.
pub(super) fn server_of(config: &pb::ActionConfig) -> Option<pb::Peer> {
    config.peer.clone().filter(|peer| peer.protocol == "mcp")
}

/// What models call actions by.
pub(super) struct Names<'a> {
    registry: &'a Registry,
    configs: &'a BTreeMap<String, pb::ActionConfig>,
    /// The configs' actions whose tool name is not their own, by tool name.
    renamed: HashMap<String, &'a str>,
}

impl<'a> Names<'a> {
    pub(super) fn new(
        registry: &'a Registry,
        configs: &'a BTreeMap<String, pb::ActionConfig>,
    ) -> Self {
        let names = configs.keys().map(|name| (tool_name(name), name.as_str()));
        let renamed = names.filter(|(tool, name)| tool != name);
        let renamed = renamed.map(|(tool, name)| (tool.into_owned(), name)).collect();
        Self { registry, configs, renamed }
    }

    /// The action that a model means: one that is really named so, in the configs
    /// or here, goes before one that has it as its tool name. A name that is
    /// neither is its own.
    pub(super) fn action(&self, name: &str) -> String {
        if self.configs.contains_key(name) || self.registry.entry(name).is_some() {
            return name.to_owned();
        }
        match self.renamed.get(name) {
            Some(action) => (*action).to_owned(),
            None => match self.registry.entry_of_tool(name) {
                Some(entry) => entry.schema().name().to_string(),
                None => name.to_owned(),
            },
        }
    }
}

/// Asks servers for actions, until `end`.
pub(super) async fn dial(
    registry: &Registry,
    wanted: BTreeMap<String, pb::Peer>,
    end: Option<Instant>,
) -> Dialled {
    let asked: Vec<_> =
        wanted.into_iter().map(|(action, peer)| ask(registry, action, peer, end)).collect();
    stream::iter(asked).buffer_unordered(DIALLED_AT_ONCE).collect().await
}

async fn ask(
    registry: &Registry,
    action: String,
    peer: pb::Peer,
    end: Option<Instant>,
) -> (String, Result<Entry, Status>) {
    let found = registry.entry_dialled(&peer, &action);
    let found = match end {
        None => found.await,
        Some(end) => timeout_at(end, found).await.unwrap_or_else(|_| {
            let fault = format!("{peer} was not reached before the deadline");
            Err(Status::of(Reason::Deadline, fault))
        }),
    };
    (action, found)
}

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
    dialled: &Dialled,
) -> Result<Entry, Status> {
    match config {
        None => registry.runnable(action),
        Some(_) if dialled.contains_key(action) => dialled[action].clone(),
        Some(config) => {
            let peer = config.peer.clone().unwrap_or_else(pb::Peer::sender);
            registry.entry_at(session_of(&peer, sender)?, action)
        }
    }
}

/// The headers that a config adds.
pub(super) fn autofills(
    config: Option<&pb::ActionConfig>,
) -> impl Iterator<Item = (&String, &Bytes)> {
    config.into_iter().flat_map(|config| &config.header_autofills)
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
        _ => Err(undiallable(peer)),
    }
}

//! Dialling: the MCP servers that `action_configs` names, each reached when it is
//! first asked for and kept for a while.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt as _};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout};
use url::Url;

use super::{
    permitted::{PermittedPeer, url_of},
    server_list::{McpSource, Reach},
    taking::{Standing, Taking},
};
use crate::action::{
    Context, Dial, Entry, Handler, Hosts, Registry, registry::undiallable, tool_name,
};
use crate::wire::{Reason, Status, peer::Peer};

/// How long a server may take until its tools are known.
const DIALLING: Duration = Duration::from_secs(10);
/// How many servers are kept; past it the one that was not asked for longest goes.
const MAX_KEPT: usize = 64;
/// How long a server is kept that nobody asks for and no call runs at.
const KEPT: Duration = Duration::from_secs(300);

/// Dials the servers that it may. None by default.
pub struct Dialler {
    permitted: Vec<PermittedPeer>,
    kept: Mutex<HashMap<Url, Arc<Kept>>>,
    own: Weak<Dialler>,
}

/// A server, and the actions that its tools are.
struct Kept {
    taking: Taking,
    registry: Arc<Registry>,
    /// When it was last asked for.
    used: Mutex<Instant>,
}

impl Dialler {
    /// A dialler of these servers and no other.
    pub fn new(permitted: Vec<PermittedPeer>) -> Arc<Self> {
        Arc::new_cyclic(|own| Self { permitted, kept: Mutex::default(), own: own.clone() })
    }

    /// How many servers are kept at the moment.
    pub fn kept(&self) -> usize {
        self.kept.lock().len()
    }

    fn permitted_url(&self, peer: &Peer) -> Result<Url, Status> {
        if peer.protocol != "mcp" || !matches!(peer.scheme.as_str(), "" | "http" | "https") {
            return Err(undiallable(peer));
        }
        let url = url_of(peer).map_err(|e| Status::of(Reason::InvalidRequest, e.to_string()))?;
        if self.permitted.iter().any(|permitted| permitted.permits(&url)) {
            return Ok(url);
        }
        let peer: String = peer.to_string().chars().take(255).collect();
        Err(Status::of(
            Reason::PeerNotPermitted,
            format!("{peer} is not among the MCP servers that this service may dial"),
        ))
    }

    /// The server at a URL, and whether it was there before.
    fn server(&self, url: &Url) -> (Arc<Kept>, Found) {
        let mut kept = self.kept.lock();
        if let Some(server) = kept.get(url) {
            *server.used.lock() = Instant::now();
            return (server.clone(), Found::Kept);
        }
        if kept.len() >= MAX_KEPT {
            let oldest = kept.iter().min_by_key(|(_, server)| *server.used.lock());
            if let Some(oldest) = oldest.map(|(url, _)| url.clone()) {
                kept.remove(&oldest);
            }
        }
        let registry = Arc::new(Registry::new());
        let source = McpSource {
            name: url.to_string(),
            prefix: String::new(),
            reach: Reach::Url { url: url.to_string(), headers: vec![] },
        };
        let taking = Taking::begin(source, registry.clone());
        let server = Arc::new(Kept { taking, registry, used: Mutex::new(Instant::now()) });
        kept.insert(url.clone(), server.clone());
        tokio::spawn(let_go(self.own.clone(), url.clone(), Arc::downgrade(&server)));
        (server, Found::New)
    }

    fn forget(&self, url: &Url, server: &Arc<Kept>) {
        let mut kept = self.kept.lock();
        if kept.get(url).is_some_and(|kept| Arc::ptr_eq(kept, server)) {
            kept.remove(url);
        }
    }

    /// The server once its tools are known.
    async fn reached(&self, url: &Url) -> Result<Arc<Kept>, Status> {
        loop {
            let (server, found) = self.server(url);
            let mut standing = server.taking.standing();
            let settled = standing.wait_for(|standing| *standing != Standing::Opening);
            let fault = match timeout(DIALLING, settled).await {
                Ok(Ok(standing)) => match &*standing {
                    Standing::Away(fault) => fault.clone(),
                    Standing::Open(_) | Standing::Opening => {
                        drop(standing);
                        return Ok(server);
                    }
                },
                Ok(Err(_)) => "the connection ended".to_owned(),
                Err(_) => format!("no answer within {} s", DIALLING.as_secs()),
            };
            self.forget(url, &server);
            // One that was lost since it was last asked for is dialled anew.
            if found == Found::New {
                let fault = format!("the MCP server at {url} cannot be reached: {fault}");
                return Err(Status::of(Reason::UnknownSession, fault));
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Kept,
    New,
}

/// Lets a server go once nobody asked for it for a while.
async fn let_go(dialler: Weak<Dialler>, url: Url, server: Weak<Kept>) {
    loop {
        let Some(end) = server.upgrade().map(|server| *server.used.lock() + KEPT) else { return };
        sleep_until(end).await;
        let (Some(dialler), Some(server)) = (dialler.upgrade(), server.upgrade()) else { return };
        // Looked at under the lock that it is asked for under.
        let mut kept = dialler.kept.lock();
        let is_due = *server.used.lock() + KEPT <= Instant::now();
        if is_due {
            if kept.get(&url).is_some_and(|kept| Arc::ptr_eq(kept, &server)) {
                kept.remove(&url);
            }
            return;
        }
    }
}

impl Dial for Dialler {
    fn entry<'a>(
        &'a self,
        peer: &'a Peer,
        action: &'a str,
    ) -> BoxFuture<'a, Result<Entry, Status>> {
        async move {
            let url = self.permitted_url(peer)?;
            let server = self.reached(&url).await?;
            let found = server.registry.entry(action);
            let found = found.or_else(|| server.registry.entry(&tool_name(action)));
            let Some((entry, handler)) = found.and_then(|e| e.handler().cloned().map(|h| (e, h)))
            else {
                let action: String = action.chars().take(255).collect();
                return Err(Status::of(
                    Reason::UnknownAction,
                    format!("the MCP server at {url} has no tool {action:?}"),
                ));
            };
            let schema = entry.schema().clone();
            Ok(Entry::new(schema, Arc::new(Held { handler, server })))
        }
        .boxed()
    }
}

/// What runs an action of a server, which is held while it runs.
struct Held {
    handler: Arc<dyn Handler>,
    server: Arc<Kept>,
}

impl Handler for Held {
    fn run(&self, context: Context) -> BoxFuture<'static, Result<(), Status>> {
        let server = self.server.clone();
        let run = self.handler.run(context);
        async move {
            let ended = run.await;
            *server.used.lock() = Instant::now();
            ended
        }
        .boxed()
    }

    fn hosts(&self) -> Hosts {
        self.handler.hosts()
    }
}

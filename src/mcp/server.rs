//! The server: what all its transports and clients share.

use std::sync::Arc;

use rmcp::model::Tool;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{catalog::Catalog, options::McpOptions};

/// A registry served over MCP. Cheap to clone; [`http`](super::http) and
/// [`stdio`](super::stdio) are its transports, and any number of both may run.
#[derive(Clone)]
pub struct McpServer(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) options: McpOptions,
    pub(super) catalog: Catalog,
    /// A place for each call that may run.
    pub(super) slots: Arc<Semaphore>,
    /// The calls that run.
    pub(super) calls: TaskTracker,
    /// Told once no more calls are taken.
    pub(super) closing: CancellationToken,
}

impl McpServer {
    /// A server that is reachable nowhere yet.
    pub fn new(options: McpOptions) -> Self {
        Self(Arc::new(Shared {
            catalog: Catalog::new(&options),
            slots: Arc::new(Semaphore::new(options.max_calls)),
            calls: TaskTracker::new(),
            closing: CancellationToken::new(),
            options,
        }))
    }

    /// What a client's `tools/list` is answered with at the moment.
    pub fn declarations(&self) -> Arc<[Tool]> {
        self.0.catalog.tools()
    }

    /// Takes no more calls, on any transport, and waits for those that run.
    pub async fn drain(&self) {
        self.0.closing.cancel();
        self.0.calls.close();
        self.0.calls.wait().await;
    }
}

//! What is served over MCP, and within which limits.

use std::{sync::Arc, time::Duration};

use super::{declaration::Describe, request_headers::Accepted, result::ResultLimits};
use crate::action::{Handlers, Registry, scope::DEFAULT_CONCURRENT_CALLS};
use crate::runner::{AllowList, DEFAULT_CALL_TIMEOUT};

/// How many calls run at once over all clients, unless the program says
/// otherwise.
pub const DEFAULT_MAX_CALLS: usize = 1024;

/// What an MCP server serves and how.
#[derive(Clone)]
pub struct McpOptions {
    /// The actions; those added or removed later included.
    pub registry: Arc<Registry>,
    /// Which actions are tools, by their real names; `None`, the default,
    /// for all that run.
    pub allow: Option<AllowList>,
    /// Which headers clients may set beside those an action declares. None
    /// by default.
    pub accept_headers: Accepted,
    /// How long a call may take. Default 300 s.
    pub deadline: Duration,
    /// What tools say of their actions. Their documents by default.
    pub describe: Describe,
    /// How large a result may be. Default 1 MiB of text and 8 MiB of pictures and
    /// sound.
    pub result_limits: ResultLimits,
    /// How many calls of one call's tree run at once. Default 64.
    pub concurrent_calls: usize,
    /// How many calls run at once over all clients; past it a call fails
    /// RESOURCE_EXHAUSTED. Default 1,024.
    pub max_calls: usize,
    /// Where running handlers are counted. By default a place of its own.
    pub handlers: Arc<Handlers>,
    /// The server's name for hosts. Default `a11-grpc`.
    pub name: String,
}

impl McpOptions {
    /// Serves all of a registry, everything else by default: 300 s a call.
    pub fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            allow: None,
            accept_headers: Accepted::default(),
            deadline: DEFAULT_CALL_TIMEOUT,
            describe: Describe::default(),
            result_limits: ResultLimits::default(),
            concurrent_calls: DEFAULT_CONCURRENT_CALLS,
            max_calls: DEFAULT_MAX_CALLS,
            handlers: Arc::default(),
            name: env!("CARGO_PKG_NAME").to_owned(),
        }
    }
}

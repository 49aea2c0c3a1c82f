//! MCP: the registry as tools, on stdio and Streamable HTTP.
//!
//! The mapping is pure: [`declaration`] (an action as a tool), [`request_headers`]
//! (`_meta` as headers), [`result`] (outputs as a tool result). [`McpServer`]
//! puts it behind the protocol, which is the official SDK's.

pub mod request_headers;
pub mod declaration;
mod cut;
pub mod result;
mod options;
mod catalog;
mod call;
mod tools;
mod server;
mod sessions;
pub mod http;
mod refusal;
mod lines;
pub mod stdio;

pub use options::{DEFAULT_MAX_CALLS, McpOptions};
pub use server::McpServer;

//! MCP in both directions: the registry as tools, on stdio and Streamable HTTP,
//! and other servers' tools as actions.
//!
//! The mapping is pure: [`declaration`] (an action as a tool), [`request_headers`]
//! (`_meta` as headers), [`result`] (outputs as a tool result). [`McpServer`]
//! puts it behind the protocol, which is the official SDK's.
//! The other way, [`taken_tool`] is a tool as an action, and [`taking`] keeps a
//! server's tools in a registry; [`Dialler`] does so for servers that a request
//! names, those that are [`permitted`].

pub mod request_headers;
pub mod declaration;
mod cut;
pub mod result;
mod options;
mod catalog;
mod call;
mod tools;
mod server;
mod refusal;
mod unanswered;
mod request_ids;
mod sessions;
mod request_body;
pub mod http;
mod http_listener;
mod lines;
pub mod stdio;
pub mod taken_tool;
mod taken_result;
mod taken_call;
pub mod variables;
pub mod server_list;
mod http_client;
mod pauses;
pub mod taking;
pub mod permitted;
mod dialler;

pub use dialler::Dialler;
pub use options::{DEFAULT_MAX_CALLS, McpOptions};
pub use permitted::PermittedPeer;
pub use server::McpServer;
pub use server_list::{McpSource, Reach};
pub use taking::Taking;

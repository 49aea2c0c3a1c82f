//! Turns functions in any language into tools a model can call.
//!
//! A Rust program can use the runtime without the server:
//!
//! - [`action`]: what an action is, the registry, and one run of one;
//! - [`runner`]: a model's turn full of tool calls in, the next user turn out;
//! - [`interaction`]: the durable record of a conversation and its JSON forms;
//! - [`mcp`]: the registry as tools of an MCP server.
//!
//! Modules stand in dependency order: each uses only those above it.

pub mod wire;
pub mod node;
pub mod action;
pub mod interaction;
pub mod runner;
pub mod session;
pub mod mcp;
pub mod builtin;
pub mod config;
pub mod client;
pub mod service;
pub mod serve;
pub mod cli;

/// The examples of the README, kept true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The examples of the MCP page, kept true.
#[cfg(doctest)]
#[doc = include_str!("../docs/mcp.md")]
struct McpPage;

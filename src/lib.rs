//! Turns functions in any language into tools a model can call.
//!
//! A Rust program can use the runtime without the server:
//!
//! - [`action`]: what an action is, the registry, and one run of one;
//! - [`runner`]: a model's turn full of tool calls in, the next user turn out;
//! - [`interaction`]: the durable record of a conversation and its JSON forms;
//! - [`mcp`]: the registry as tools of an MCP server;
//! - [`client`]: a program that attaches to a service, calls its actions and hosts
//!   its own.
//!
//! ```
//! use std::{error::Error, sync::Arc};
//!
//! use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
//! use a11_grpc::client::{Client, Peer, connect};
//! use a11_grpc::serve::{Options, Server};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn Error>> {
//!     // The service, commonly `a11-grpc serve` on another machine.
//!     let server = Server::bind(Options::new("127.0.0.1:0", Arc::default())).await?;
//!     let address = server.address().to_string();
//!     tokio::spawn(server.run(std::future::pending()));
//!
//!     // One program hosts an action …
//!     let registry = Registry::new();
//!     let schema = ActionSchema::builder("shout")
//!         .input(Port::text("words").required())
//!         .output(Port::text("shouted"));
//!     let shout = |context: Context| async move {
//!         let words: String = context.read("words").await?;
//!         context.write("shouted", &words.to_uppercase()).await
//!     };
//!     registry.register(schema.build(), handler(shout))?;
//!     let host = Peer::host(Arc::new(registry)).connect(connect(&address).await?).await?;
//!
//!     // … and another one calls it.
//!     let client = Client::connect(connect(&address).await?).await?;
//!     let outputs = client.call("shout").argument("words", "hello").run().await?;
//!     assert_eq!(outputs.value::<String>("shouted")?, "HELLO");
//!     host.close().await;
//!     Ok(())
//! }
//! ```
//!
//! Modules stand in dependency order: each uses only those above it.

pub mod wire;
pub mod node;
pub mod action;
pub mod interaction;
pub mod runner;
mod listen;
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

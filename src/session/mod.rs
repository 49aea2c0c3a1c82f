//! Sessions: programs attached over one stream, on which both sides call and
//! both sides host.
//!
//! [`core`] is the state machine of one session and knows no transport, clock or
//! task. [`driver`] gives it those: it moves frames over any connection, and runs
//! calls both ways. [`Directory`] has the sessions of a service and puts what
//! they publish into its registry; [`accept()`] serves a connection that
//! was made to it.

pub mod core;
mod run_nodes;
pub mod driver;
mod notices;
mod attached;
mod directory;
mod accept;
mod free_nodes;

pub use accept::{OPEN_TIMEOUT, accept, next_connection};
pub use directory::{
    Config, DEFAULT_MAX_NODE_BYTES, DEFAULT_MAX_PUBLISHED_BYTES, DEFAULT_MAX_SESSIONS, Directory,
};
pub use driver::Session;
pub use free_nodes::{FreeNodes, MAX_NODES, Reading, Writing};
pub use run_nodes::{KEPT, MAX_KEPT_BYTES, MAX_RUNS, Reachable, RunNodes};

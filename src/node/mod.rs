//! Nodes: ordered streams of chunks with one logical writer and any number of
//! readers.
//!
//! `Buffer` is the pure core: it puts fragments into order and knows
//! what may still be written. [`Node`] shares one between tasks: a [`Writer`]
//! waits while its readers are behind, a [`Reader`] waits for what is next.

pub mod piece;
mod error;
mod buffer;
mod stream;
mod reader;
mod writer;

pub use buffer::{DEFAULT_CAPACITY, Holds, MAX_EARLY_PIECES, WhenRead, in_order};
pub use error::NodeError;
pub use piece::{Elsewhere, Piece};
pub use reader::{Ending, MAX_VALUE_BYTES, Reader, join};
pub use stream::{Completeness, Node, WhenUnread};
pub use writer::Writer;

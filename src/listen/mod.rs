//! Connections, before anything is asked on them: accepted within bounds,
//! encrypted where that is wanted, HTTP spoken on them, and ended in order; and the
//! log of the calls on them. Every listener of the program is this one; what is
//! served on it stands elsewhere.

mod connection;
mod opening;
mod tls;
mod unread;
mod requests;
mod http;
mod access_log;

pub(crate) use access_log::{AccessLog, Line, Notes};
pub(crate) use connection::{accept, is_exposed};
pub(crate) use http::{Bounds, Http, Incoming};
pub use tls::{Identity, Tls, TlsError};

/// What may be on its way unread, in bytes: of one call, and of a connection. A
/// connection on which small messages wait unread is given up by HTTP/2 when they
/// cost more than half its window, of which each counts for 256 bytes; so that
/// thousands may wait, the windows do not begin small to grow with use.
pub const STREAM_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
/// See [`STREAM_WINDOW_BYTES`].
pub const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;

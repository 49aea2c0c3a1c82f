//! Serving: the listener and its limits, what is served on it, and the way it
//! ends; and the same services in process, for programs that need no socket.

mod in_process;
mod limits;
mod origin;
mod routes;
mod server;
mod web_text;
mod websocket;
pub mod signals;

pub use in_process::in_process;
pub use limits::Limits;
pub use origin::{Origin, OriginError};
pub use server::{BindError, Ending, Options, ServeError, Server};

pub use crate::listen::{Identity, Tls, TlsError};

//! What a session does with tasks and a clock: a shared handle over the core, the
//! loop that moves frames over a connection, calls that run here for the peer,
//! and calls that run at the peer.

mod state;
mod handle;
mod nodes;
mod connection;
mod hosting;
mod remote;

pub use connection::{FrameSink, WAITING_FRAMES, run};
pub use handle::{Publications, Session, SessionParts};
pub use remote::RemoteAction;

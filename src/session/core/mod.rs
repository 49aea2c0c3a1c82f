//! The pure core of a session: frames and calls go in with the time, frames and
//! events come out. Nothing here waits, locks, or asks what time it is.
//!
//! [`Core`] is one side of one session. Its parts: a link numbers frames and
//! keeps them until they are acknowledged; a call has its nodes with their
//! credit, and how it ends. The opening exchange is the
//! driver's: it attaches the core to a connection with what the other side says
//! it has received.

pub mod limits;
pub mod cost;
pub mod event;
mod link;
mod outgoing;
mod incoming;
mod narration;
mod call;
mod bounds;
mod session;
mod nodes;
mod receiving;
mod sending;
mod timing;

pub use cost::cost;
pub use event::Event;
pub use limits::Limits;
pub use nodes::Room;
pub(super) use session::duration_message;
pub use session::{Connection, Core, NewCall, Side};

#[cfg(test)]
mod tests;

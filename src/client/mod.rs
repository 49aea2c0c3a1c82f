//! The Rust client: a program that calls the actions of a service, and hosts its
//! own for others to call.
//!
//! [`Client`] calls; [`Peer::host`] makes one that hosts a registry too. Both
//! work over one session, which is resumed after a broken connection and opened
//! anew after a longer one.

mod peer;
mod dial;
mod keeper;
mod call;

pub use call::ClientCall;
pub use peer::{Client, Peer};

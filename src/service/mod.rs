//! The gRPC services: requests become what the rooms below understand, and what
//! they answer becomes responses. No logic of their own.

mod action_api;
mod actions;
mod caller;
mod one_call;
mod peer_api;
mod round;

pub use action_api::{ActionApi, Config};
pub use peer_api::PeerApi;

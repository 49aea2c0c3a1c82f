//! The gRPC services: requests become what the rooms below understand, and what
//! they answer becomes responses. No logic of their own.

mod action_api;
mod actions;
mod caller;
mod struct_json;
mod start;
mod node_api;
mod one_call;
mod peer_api;
mod round;
mod websocket;

pub use action_api::{ActionApi, Config};
pub use node_api::NodeApi;
pub use peer_api::PeerApi;
pub use websocket::{WEBSOCKET_PATH, upgrade};

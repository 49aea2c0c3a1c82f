//! The gRPC services: requests become what the rooms below understand, and what
//! they answer becomes responses. No rules of their own, but for how much one response
//! holds: pages, and what is kept of a conversation.

mod refusals;
mod caller;
mod actions;
mod struct_json;
mod start;
mod dialect;
mod tools;
mod history;
mod interaction_api;
mod one_call;
mod records;
mod round;
mod action_api;
mod node_api;
mod peer_api;
mod websocket_session;
mod websocket;

pub use action_api::{ActionApi, Config};
pub use interaction_api::InteractionApi;
pub use node_api::NodeApi;
pub use peer_api::PeerApi;
pub use refusals::AsPromised;
pub use websocket::{WEBSOCKET_PATH, upgrade};

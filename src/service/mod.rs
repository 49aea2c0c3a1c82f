//! The gRPC services: requests become what the rooms below understand, and what
//! they answer becomes responses. No logic of their own.

mod action_api;
mod actions;
mod caller;
mod history;
mod interaction_api;
mod struct_json;
mod start;
mod one_call;
mod records;
mod round;

pub use action_api::{ActionApi, Config};
pub use interaction_api::InteractionApi;

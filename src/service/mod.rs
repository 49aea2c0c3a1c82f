//! The gRPC services: thin, no logic of their own.

mod stub;

pub use stub::ActionApi;

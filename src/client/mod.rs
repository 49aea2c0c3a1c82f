//! The Rust client: the way to a server (a channel to a URL, or to a service in
//! this process), and a program that calls the actions of a service and hosts its
//! own for others to call.
//!
//! [`Client`] calls; [`Peer::host`] makes one that hosts a registry too. Both
//! work over one session, which is resumed after a broken connection and opened
//! anew after a longer one.

mod connect;
mod pipe;
mod peer;
mod dial;
mod keeper;
mod schemas;
mod call;
mod tools;

pub use call::ClientCall;
pub use connect::{CONNECT_TIMEOUT, ConnectError, RootsFault, UrlFault, connect};
pub use peer::{Client, Peer};
pub use pipe::pipe;

pub use crate::listen::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES};

use tonic::{codec::CompressionEncoding, transport::Channel};

use crate::wire::pb::{
    action_service_client::ActionServiceClient,
    interaction_service_client::InteractionServiceClient,
};

/// The largest message, in bytes and uncompressed, that is sent or taken.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// A client of the action service, with the message limits that servers here
/// have. Requests go uncompressed; answers may come compressed.
pub fn actions(channel: Channel) -> ActionServiceClient<Channel> {
    ActionServiceClient::new(channel)
        .accept_compressed(CompressionEncoding::Zstd)
        .accept_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// The same of the interaction service.
pub fn interactions(channel: Channel) -> InteractionServiceClient<Channel> {
    InteractionServiceClient::new(channel)
        .accept_compressed(CompressionEncoding::Zstd)
        .accept_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

//! What a server takes on at once.

use std::time::Duration;

use crate::client::MAX_MESSAGE_BYTES;

/// The bounds of a server, each with a default that suits one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The largest message in and out, in bytes, uncompressed. Default 64 MiB.
    pub message_bytes: usize,
    /// How many connections stand at once; more wait to be accepted. Default
    /// 1,024.
    pub connections: usize,
    /// How many calls one connection makes at once. Default 1,000.
    pub streams_per_connection: u32,
    /// How long after the signal to stop accepted calls may go on. Default 30 s.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: MAX_MESSAGE_BYTES,
            connections: 1024,
            streams_per_connection: 1000,
            shutdown: Duration::from_secs(30),
        }
    }
}

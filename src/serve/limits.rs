//! What a server takes on at once.

use std::time::Duration;

use crate::client::MAX_MESSAGE_BYTES;
use crate::session;

/// The bounds of a server, each with a default that suits one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The largest message in and out, in bytes, uncompressed. Default 64 MiB.
    pub message_bytes: usize,
    /// How many connections stand at once; more wait to be accepted. Default
    /// 1,024.
    pub connections: usize,
    /// How long a connection may take over its TLS handshake, then over its first
    /// bytes, and over the headers of a request of HTTP/1.1. Default 30 s.
    pub opening: Duration,
    /// How long a connection stands without a call or a session on it; its client is
    /// told, and connects anew when it needs to. One of HTTP/1.1 no longer than
    /// `opening`. Default 300 s.
    pub idle: Duration,
    /// How many calls one connection makes at once. Default 1,000.
    pub streams_per_connection: u32,
    /// How many sessions are kept at once, those without a connection included;
    /// further ones are refused. Default 16,384.
    pub sessions: usize,
    /// How long a session is kept without a connection. Default 60 s.
    pub session_grace: Duration,
    /// How long after the signal to stop accepted calls may go on. Default 30 s.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let sessions = session::Config::default();
        Self {
            message_bytes: MAX_MESSAGE_BYTES,
            connections: 1024,
            opening: Duration::from_secs(30),
            idle: Duration::from_secs(300),
            streams_per_connection: 1000,
            sessions: sessions.max_sessions,
            session_grace: sessions.grace,
            shutdown: Duration::from_secs(30),
        }
    }
}

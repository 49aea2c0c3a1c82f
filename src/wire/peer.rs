//! Addresses of peers, as text and as parts.

use std::{fmt, str::FromStr};

use thiserror::Error;

use super::pb;

pub use super::pb::Peer;

/// Why a text is not a peer's address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PeerError {
    /// There is no `://`.
    #[error("peer {0:?} has no `://`")]
    NoScheme(String),
    /// The protocol is neither `a11` nor `mcp`.
    #[error("peer {0:?} has a protocol other than a11 and mcp")]
    UnknownProtocol(String),
    /// The protocol is not reached that way.
    #[error("peer {0:?} has a scheme that its protocol does not know")]
    UnknownScheme(String),
    /// An MCP address has an identity before `@`.
    #[error("peer {0:?} names an identity, which an MCP server does not have")]
    IdentityOnMcp(String),
}

impl pb::Peer {
    /// The caller's own session: where a config without a peer leads.
    pub fn sender() -> Self {
        Self::session("$sender")
    }

    /// An attached session.
    pub fn session(identity: impl Into<String>) -> Self {
        Self {
            protocol: "a11".into(),
            scheme: "session".into(),
            identity: identity.into(),
            endpoint: String::new(),
        }
    }
}

impl FromStr for pb::Peer {
    type Err = PeerError;

    fn from_str(text: &str) -> Result<Self, PeerError> {
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| PeerError::NoScheme(text.to_owned()))?;
        let (protocol, scheme) = match scheme.split_once('+') {
            Some((protocol, scheme)) => (protocol, Some(scheme)),
            None => (scheme, None),
        };
        let scheme = match (protocol, scheme) {
            ("a11", None) => "session",
            (
                "a11",
                Some(
                    scheme @ ("session" | "ws" | "wss" | "rtc" | "http" | "https" | "grpc"
                    | "grpcs"),
                ),
            ) => scheme,
            ("mcp", None) => "http",
            ("mcp", Some(scheme @ ("http" | "https"))) => scheme,
            ("a11" | "mcp", Some(_)) => return Err(PeerError::UnknownScheme(text.to_owned())),
            _ => return Err(PeerError::UnknownProtocol(text.to_owned())),
        };
        let (identity, endpoint) = match (protocol, rest.split_once('@')) {
            ("mcp", Some(_)) => return Err(PeerError::IdentityOnMcp(text.to_owned())),
            ("mcp", None) => ("", rest),
            (_, Some((identity, endpoint))) => (identity, endpoint),
            (_, None) => (rest, ""),
        };
        Ok(Self {
            protocol: protocol.into(),
            scheme: scheme.into(),
            identity: identity.into(),
            endpoint: endpoint.into(),
        })
    }
}

impl fmt::Display for pb::Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.protocol)?;
        let default = match self.protocol.as_str() {
            "mcp" => "http",
            _ => "session",
        };
        if !self.scheme.is_empty() && self.scheme != default {
            write!(f, "+{}", self.scheme)?;
        }
        f.write_str("://")?;
        match (self.identity.is_empty(), self.endpoint.is_empty()) {
            (_, true) => f.write_str(&self.identity),
            (true, false) => f.write_str(&self.endpoint),
            (false, false) => write!(f, "{}@{}", self.identity, self.endpoint),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_back() {
        let check = |text: &str, parts: [&str; 4]| {
            let peer: pb::Peer = text.parse().expect(text);
            let [protocol, scheme, identity, endpoint] = parts.map(str::to_owned);
            assert_eq!(peer, pb::Peer { protocol, scheme, identity, endpoint }, "{text}");
            assert_eq!(peer.to_string(), text);
        };
        check("a11://$sender", ["a11", "session", "$sender", ""]);
        check("a11+ws://host:9000", ["a11", "ws", "host:9000", ""]);
        check("a11+rtc://demo@wss://signal/ice", ["a11", "rtc", "demo", "wss://signal/ice"]);
        check("mcp://tools.example:8013/mcp", ["mcp", "http", "", "tools.example:8013/mcp"]);
        check("mcp+https://tools.example/mcp", ["mcp", "https", "", "tools.example/mcp"]);
    }

    #[test]
    fn other_addresses_are_refused() {
        for text in ["mcp+ws://x", "mcp://user@host", "a11", "://x", "ftp://h", "+ws://h", ""] {
            assert!(text.parse::<pb::Peer>().is_err(), "{text}");
        }
    }
}

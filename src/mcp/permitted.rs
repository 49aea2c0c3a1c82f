//! Which MCP servers may be dialled because a request names them. Pure.
//!
//! A request comes from elsewhere, and what this program can reach, such as its
//! own network, is more than whoever sent it can: so none may, but those that
//! whoever runs this program named.

use std::str::FromStr;

use serde::Deserialize;
use thiserror::Error;
use url::Url;

use crate::wire::peer::{Peer, PeerError};

/// One server that may be dialled: `mcp://HOST[:PORT][/PATH]`, or `mcp+https://…`;
/// without a path every path there. Host, port, and path where there is one, are
/// compared as a whole, the host as it is resolved nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PermittedPeer {
    url: Url,
}

/// Why an address is not one of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddressError {
    /// It is no peer's address.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// It is another kind of peer.
    #[error("{0:?} is not the address of an MCP server: mcp://HOST[:PORT][/PATH], or mcp+https://")]
    Kind(String),
    /// It cannot be read as a URL.
    #[error("{0:?}: {1}")]
    Malformed(String, url::ParseError),
    /// A user name, a password or a fragment.
    #[error("{0:?} has more than a host, a port, a path and a query")]
    Surplus(String),
}

/// The URL that a peer's address means.
///
/// # Errors
/// Where it is not the address of an MCP server.
pub fn url_of(peer: &Peer) -> Result<Url, AddressError> {
    let shown = || peer.to_string().chars().take(255).collect::<String>();
    let scheme = match (peer.protocol.as_str(), peer.scheme.as_str(), peer.identity.as_str()) {
        ("mcp", "" | "http", "") => "http",
        ("mcp", "https", "") => "https",
        _ => return Err(AddressError::Kind(shown())),
    };
    let url = Url::parse(&format!("{scheme}://{}", peer.endpoint))
        .map_err(|error| AddressError::Malformed(shown(), error))?;
    let is_plain =
        url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    // `url` takes a backslash, a tab or an `@` for what a reader may not.
    let is_odd = |c: char| matches!(c, '\\' | '@') || c.is_control() || c.is_whitespace();
    if !is_plain || peer.endpoint.contains(is_odd) || peer.endpoint.starts_with('/') {
        return Err(AddressError::Surplus(shown()));
    }
    Ok(url)
}

impl FromStr for PermittedPeer {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Ok(Self { url: url_of(&text.parse()?)? })
    }
}

impl TryFrom<String> for PermittedPeer {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl PermittedPeer {
    /// Whether a URL is of this server.
    pub fn permits(&self, url: &Url) -> bool {
        let own = &self.url;
        let is_path = own.path() == "/" && own.query().is_none()
            || (own.path(), own.query()) == (url.path(), url.query());
        own.scheme() == url.scheme()
            && own.host() == url.host()
            && own.port_or_known_default() == url.port_or_known_default()
            && is_path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_server_is_permitted() {
        let check = |permitted: &str, asked: &str, expected: bool| {
            let permitted: PermittedPeer = permitted.parse().expect(permitted);
            let url = url_of(&asked.parse().expect(asked)).expect(asked);
            assert_eq!(permitted.permits(&url), expected, "{permitted:?} {asked}");
        };
        let exact = "mcp://tools.example:8013/mcp";
        check(exact, exact, true);
        check(exact, "mcp://TOOLS.example:8013/x/../mcp", true);
        check(exact, "mcp://tools.example:8013/mcp/", false);
        check(exact, "mcp://tools.example:8013/mcp?x=1", false);
        check(exact, "mcp://tools.example/mcp", false);
        check(exact, "mcp+https://tools.example:8013/mcp", false);
        check(exact, "mcp://tools.example.evil:8013/mcp", false);
        let host = "mcp+https://tools.example";
        check(host, "mcp+https://tools.example:443/any?x=1", true);
        check(host, "mcp+https://tools.example:444/any", false);
        check(host, "mcp+https://x.tools.example/any", false);
        check("mcp://127.0.0.1:80", "mcp://2130706433/mcp", true);
        check("mcp://localhost", "mcp://127.0.0.1/mcp", false);
        check("mcp://[::1]:9", "mcp://[0:0::1]:9/mcp", true);
    }

    #[test]
    fn other_addresses_are_none() {
        let check = |peer: Peer| assert!(url_of(&peer).is_err(), "{peer:?}");
        let mcp = |endpoint: &str| Peer {
            protocol: "mcp".into(),
            scheme: "http".into(),
            identity: String::new(),
            endpoint: endpoint.into(),
        };
        let odd =
            ["", "/mcp", "//x/mcp", "a@b/mcp", "a:b@c", "a\\@b", "a b", "a#b", "a:99999", "a\tb"];
        for endpoint in odd {
            check(mcp(endpoint));
        }
        check(Peer { identity: "x".into(), ..mcp("host") });
        check(Peer { scheme: "ws".into(), ..mcp("host") });
        check(Peer { protocol: "a11".into(), ..mcp("host") });
        assert!("a11://$sender".parse::<PermittedPeer>().is_err());
    }
}

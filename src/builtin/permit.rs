//! What `http_fetch` may reach though it is not on the public internet. Pure.

use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use ipnet::IpNet;
use serde::Deserialize;
use thiserror::Error;

use super::address::AddressClass;

/// Exceptions from "public addresses only". None by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Permits(Vec<Permit>);

/// One exception: a network (`10.0.0.0/8`, `::1`), an address with a port
/// (`127.0.0.1:8080`, `[::1]:80`), a host (`localhost`), or one with a port.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Permit {
    /// All ports of a network.
    Network(IpNet),
    /// One port of an address.
    Address(SocketAddr),
    /// Whatever addresses a host name has; without a port, all ports.
    Host(String, Option<u16>),
}

/// A text that is none of the forms of [`Permit`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not a CIDR, an address, a host, or one of the latter two with a port")]
pub struct PermitError(String);

impl FromStr for Permit {
    type Err = PermitError;

    fn from_str(text: &str) -> Result<Self, PermitError> {
        if let Ok(network) = text.parse() {
            return Ok(Self::Network(network));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Network(address.into()));
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let refused = || PermitError(text.to_owned());
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| refused())?)),
            None => (text, None),
        };
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if host.is_empty() || !host.bytes().all(plain) {
            return Err(refused());
        }
        Ok(Self::Host(host, port))
    }
}

impl TryFrom<String> for Permit {
    type Error = PermitError;

    fn try_from(text: String) -> Result<Self, PermitError> {
        text.parse()
    }
}

impl FromIterator<Permit> for Permits {
    fn from_iter<I: IntoIterator<Item = Permit>>(permits: I) -> Self {
        Self(permits.into_iter().collect())
    }
}

impl Permits {
    /// Whether `address` may be reached, which the URL calls `host`.
    ///
    /// # Errors
    /// The class of an address that may not.
    pub fn check(&self, host: &str, address: SocketAddr) -> Result<(), AddressClass> {
        let class = AddressClass::of(address.ip());
        let host = host.trim_end_matches('.');
        let permitted = |permit: &Permit| match permit {
            Permit::Network(network) => {
                network.contains(&address.ip()) || network.contains(&address.ip().to_canonical())
            }
            Permit::Address(permitted) => {
                permitted.ip() == address.ip() && permitted.port() == address.port()
            }
            Permit::Host(name, port) => {
                name == host && port.is_none_or(|port| port == address.port())
            }
        };
        match class {
            AddressClass::Public => Ok(()),
            _ if self.0.iter().any(permitted) => Ok(()),
            class => Err(class),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_public_needs_a_permit() {
        let check = |permits: &[&str], host: &str, address: &str, expected: bool| {
            let permits: Permits = permits.iter().map(|p| p.parse().expect(p)).collect();
            let checked = permits.check(host, address.parse().expect(address));
            assert_eq!(checked.is_ok(), expected, "{permits:?} {host} {address}");
        };
        check(&[], "example.com", "93.184.216.34:80", true);
        check(&[], "example.com", "10.0.0.1:80", false);
        check(&["10.0.0.0/8"], "example.com", "10.0.0.1:80", true);
        check(&["10.0.0.0/8"], "example.com", "[::ffff:10.0.0.1]:80", true);
        check(&["10.0.0.0/8"], "example.com", "127.0.0.1:80", false);
        check(&["127.0.0.1"], "127.0.0.1", "127.0.0.1:8080", true);
        check(&["127.0.0.1:80"], "127.0.0.1", "127.0.0.1:8080", false);
        check(&["[::1]:80"], "[::1]", "[::1]:80", true);
        check(&["localhost"], "localhost.", "127.0.0.1:9", true);
        check(&["LocalHost:8080"], "localhost", "127.0.0.1:8080", true);
        check(&["localhost:8080"], "localhost", "127.0.0.1:80", false);
        check(&["localhost"], "other", "127.0.0.1:80", false);
    }

    #[test]
    fn other_texts_are_refused() {
        let check = |text: &str| assert!(text.parse::<Permit>().is_err(), "{text}");
        check("");
        check("10.0.0.0/33");
        check("http://localhost");
        check("localhost:99999");
        check("a b");
    }
}

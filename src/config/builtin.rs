//! `[builtin]`: which of the actions that come with the binary are there.

use std::fmt;

use serde::Deserialize;

use crate::builtin::{
    Permits,
    declaration::{ByteLimit, TimeLimit},
};

/// `[builtin]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Builtin {
    pub(super) http_fetch: Option<HttpFetch>,
    #[serde(default)]
    pub(super) shell_execute: bool,
}

#[derive(Debug)]
pub(super) enum HttpFetch {
    Switch(bool),
    Options(HttpFetchOptions),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpFetchOptions {
    /// What may be reached though it is not public: CIDRs, addresses, hosts, each
    /// of the latter two also with a port.
    #[serde(default)]
    pub(super) allow_private: Permits,
    pub(super) max_bytes: Option<ByteLimit>,
    pub(super) timeout: Option<TimeLimit>,
}

// By hand, since an untagged enum would hide which key is wrong.
impl<'de> Deserialize<'de> for HttpFetch {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = HttpFetch;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, or a table of options")
            }

            fn visit_bool<E>(self, on: bool) -> Result<HttpFetch, E> {
                Ok(HttpFetch::Switch(on))
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                map: A,
            ) -> Result<HttpFetch, A::Error> {
                let map = serde::de::value::MapAccessDeserializer::new(map);
                HttpFetchOptions::deserialize(map).map(HttpFetch::Options)
            }
        }
        from.deserialize_any(Visitor)
    }
}

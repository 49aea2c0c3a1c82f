//! The values of the portable JSON that are more than text and numbers: what
//! they look like, and what they are read as.

use std::{fmt, marker::PhantomData};

use bytes::Bytes;
use pbjson_types::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

use crate::{
    interaction::timestamp,
    wire::{
        Reason, base64,
        pb::{self, Role},
    },
};

/// A JSON object with the fields of `T`: derived readers would take an array of
/// the values too.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_map(Fields(PhantomData)).map(Object)
    }
}

/// Milliseconds: a whole number, or one in decimal text.
pub(super) struct Millis(pub(super) i64);

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;

        impl Visitor<'_> for NumberOrText {
            type Value = Millis;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of milliseconds below 2^63")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Millis, E> {
                Ok(Millis(number))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Millis, E> {
                i64::try_from(number).map(Millis).map_err(E::custom)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Millis, E> {
                text.parse().map(Millis).map_err(E::custom)
            }
        }

        deserializer.deserialize_any(NumberOrText)
    }
}

/// Bytes as standard base64, decoded out of the document without a copy between.
pub(super) struct Base64(pub(super) Bytes);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Base64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("base64 text")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Base64, E> {
                let bytes = base64::decode_standard(text)
                    .map_err(|error| E::custom(format_args!("not base64: {error}")))?;
                Ok(Base64(bytes.into()))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Moment(pub(super) Timestamp);

impl TryFrom<String> for Moment {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        timestamp::read(&text)
            .map(Self)
            .ok_or_else(|| format!("not an RFC 3339 timestamp in years 1 to 9999: {text:?}"))
    }
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
pub(super) struct JsonRole(pub(super) Role);

impl TryFrom<String> for JsonRole {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "user" => Ok(Self(Role::User)),
            "model" => Ok(Self(Role::Model)),
            "system" => Ok(Self(Role::System)),
            _ => Err(format!("unknown role {text:?}, expected user, model or system")),
        }
    }
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
pub(super) struct JsonReason(pub(super) Reason);

impl TryFrom<String> for JsonReason {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Reason::from_str_name(&format!("REASON_{text}"))
            .map(Self)
            .ok_or_else(|| format!("unknown reason {text:?}"))
    }
}

#[derive(Deserialize)]
struct PeerFields {
    protocol: Option<String>,
    scheme: Option<String>,
    identity: Option<String>,
    endpoint: Option<String>,
}

/// A peer, as text or by its parts.
pub(super) struct JsonPeer(pub(super) pb::Peer);

impl<'de> Deserialize<'de> for JsonPeer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EitherForm;

        impl<'de> Visitor<'de> for EitherForm {
            type Value = JsonPeer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a peer, as a string or an object")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<JsonPeer, E> {
                text.parse().map(JsonPeer).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<JsonPeer, A::Error> {
                let fields = PeerFields::deserialize(MapAccessDeserializer::new(map))?;
                Ok(JsonPeer(pb::Peer {
                    protocol: fields.protocol.unwrap_or_default(),
                    scheme: fields.scheme.unwrap_or_default(),
                    identity: fields.identity.unwrap_or_default(),
                    endpoint: fields.endpoint.unwrap_or_default(),
                }))
            }
        }

        deserializer.deserialize_any(EitherForm)
    }
}

//! One value of a port as a chunk, and back.

use std::fmt::Display;

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use super::port::Port;
use crate::node::Elsewhere;
use crate::wire::chunk::Kind;
use crate::wire::{Chunk, Reason, Status, json_weight};

/// What a value is of, and whose fault it is where it does not fit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of<'a> {
    Input(&'a str),
    Output(&'a str),
}

impl Of<'_> {
    pub(super) fn unfit(self, what: impl Display) -> Status {
        match self {
            Self::Input(port) => {
                Status::of(Reason::InvalidInput, format!("input {port:?}: {what}"))
            }
            Self::Output(port) => {
                Status::of(Reason::InvalidOutput, format!("output {port:?}: {what}"))
            }
        }
    }
}

/// A value as a chunk of the port's media type.
pub(super) fn encode<T: Serialize + ?Sized>(port: &Port, value: &T) -> Result<Chunk, Status> {
    let of = Of::Output(port.name());
    let json = serde_json::to_vec(value).map_err(|error| of.unfit(error))?;
    let data = match port.kind() {
        Kind::Json => Bytes::from(json),
        Kind::Text => match serde_json::from_slice::<String>(&json) {
            Ok(text) => Bytes::from(text),
            Err(_) => return Err(of.unfit("the value is not a string")),
        },
        Kind::Image | Kind::Audio | Kind::Bytes => {
            return Err(of.unfit(format_args!("{} is written as a chunk", port.media_type())));
        }
    };
    Ok(Chunk::new(port.media_type(), data))
}

/// A chunk as a value: JSON as what it says, text as a string.
pub(super) fn decode<T: DeserializeOwned>(of: Of<'_>, chunk: &Chunk) -> Result<T, Status> {
    if let Some(place) = chunk.reference() {
        return Err(Elsewhere::Place(place.to_owned()).into());
    }
    match Kind::of(chunk.media_type()) {
        Kind::Json => {
            json_weight::check(chunk.data())?;
            serde_json::from_slice(chunk.data()).map_err(|error| of.unfit(error))
        }
        Kind::Text => {
            let text = std::str::from_utf8(chunk.data()).map_err(|error| of.unfit(error))?;
            let text = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(text);
            T::deserialize(text).map_err(|error| of.unfit(error))
        }
        Kind::Image | Kind::Audio | Kind::Bytes => {
            Err(of.unfit(format_args!("{} is read as a chunk", chunk.media_type())))
        }
    }
}

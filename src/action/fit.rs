//! One value on one port: arguments and fragments become what the port wants, and
//! are checked against its schema.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    input_error::InputError,
    port::{Cardinality, Port},
};
use crate::node::{Piece, join};
use crate::wire::chunk::{JSON, Kind, TEXT};
use crate::wire::pb::node_fragment::Payload;
use crate::wire::{Chunk, base64, json_weight};

/// The most values that a list holds which is given to a stream port as an argument:
/// each takes some hundred bytes as a piece. A caller with more sends fragments.
pub(super) const MAX_ARGUMENT_ITEMS: usize = 1 << 18;

/// Chunks as the pieces of a complete node.
pub(super) fn pieces_of(chunks: Vec<Chunk>) -> Vec<Piece> {
    let last = chunks.len().saturating_sub(1);
    let mut pieces: Vec<Piece> = chunks
        .into_iter()
        .enumerate()
        .map(|(at, chunk)| if at == last { Piece::last(chunk) } else { Piece::more(chunk) })
        .collect();
    if pieces.is_empty() {
        pieces.push(Piece::end());
    }
    pieces
}

/// What an argument is on a port; `None` where it is as good as absent.
pub(super) fn argument_pieces(
    port: &Port,
    value: &RawValue,
) -> Result<Option<Vec<Piece>>, InputError> {
    let text = value.get();
    let unfit = |fault: String| InputError::Unfit { input: port.name().to_owned(), fault };
    if text == "null" && !port.is_required() {
        let wanted = port.cardinality() == Cardinality::Unary
            && port.kind() == Kind::Json
            && port.value_schema().is_none_or(|schema| schema.accepts_null());
        if !wanted {
            return Ok(None);
        }
    }
    match port.cardinality() {
        Cardinality::Unary => {
            Ok(Some(vec![Piece::last(argument_chunk(port, text).map_err(unfit)?)]))
        }
        Cardinality::Stream => {
            // Models send arrays as JSON text now and then; an array's schema
            // takes no string, so there is no doubt about it.
            let unwrapped: String;
            let array = if text.starts_with('"') {
                unwrapped = serde_json::from_str(text).map_err(|e| unfit(e.to_string()))?;
                unwrapped.as_str()
            } else {
                text
            };
            let too_many = || InputError::TooMany(port.name().to_owned());
            json_weight::check(array.as_bytes()).map_err(|_| too_many())?;
            let items: Vec<&RawValue> = serde_json::from_str(array)
                .map_err(|_| unfit(format!("{} is not an array", excerpt(text))))?;
            if items.len() > MAX_ARGUMENT_ITEMS {
                return Err(too_many());
            }
            let chunks = items
                .iter()
                .enumerate()
                .map(|(at, item)| {
                    argument_chunk(port, item.get())
                        .map_err(|fault| unfit(format!("[{at}]: {fault}")))
                })
                .collect::<Result<Vec<_>, _>>()?;
            Ok(Some(pieces_of(chunks)))
        }
    }
}

/// One JSON value as a chunk of a port's media type.
fn argument_chunk(port: &Port, json: &str) -> Result<Chunk, String> {
    let string = || -> Result<String, String> {
        if !json.starts_with('"') {
            return Err(format!("{} is not a string", excerpt(json)));
        }
        serde_json::from_str(json).map_err(|error| error.to_string())
    };
    let chunk = match port.kind() {
        Kind::Text => Chunk::new(port.media_type(), string()?),
        Kind::Json if json.starts_with('"') => {
            Chunk::new(port.media_type(), json_of_string(port, json)?)
        }
        Kind::Json => Chunk::new(port.media_type(), Bytes::copy_from_slice(json.as_bytes())),
        Kind::Image | Kind::Audio | Kind::Bytes => {
            let text = string()?;
            let (media_type, encoded) =
                match text.strip_prefix("data:").and_then(|t| t.split_once(";base64,")) {
                    Some((media_type, encoded)) => (media_type, encoded),
                    None => (port.media_type(), text.as_str()),
                };
            let data = base64::decode(encoded).map_err(|error| format!("not base64: {error}"))?;
            Chunk::new(media_type, data)
        }
    };
    chunk.check().map_err(|error| error.to_string())?;
    fit(port, &chunk)?;
    Ok(chunk)
}

/// JSON for a JSON port out of a JSON string: what the string says, where the
/// port takes no strings, else the string.
fn json_of_string(port: &Port, json: &str) -> Result<Bytes, String> {
    let text: String = serde_json::from_str(json).map_err(|error| error.to_string())?;
    Ok(match structure_in(port, &text) {
        true => Bytes::from(text),
        false => Bytes::copy_from_slice(json.as_bytes()),
    })
}

/// Whether a text is to be read as the JSON it holds. A port without a schema
/// is offered to models as an object, so objects and arrays are read there.
fn structure_in(port: &Port, text: &str) -> bool {
    let reads = || serde_json::from_str::<&RawValue>(text).is_ok();
    match port.value_schema() {
        Some(schema) => !schema.accepts_strings() && reads(),
        None => text.trim_start().starts_with(['{', '[']) && reads(),
    }
}

/// Fits the fragments written to a port: one value is put together for a unary
/// port, text becomes JSON where the port is JSON, and every value is checked.
pub(super) fn fit_pieces(port: &Port, pieces: Vec<Piece>) -> Result<Vec<Piece>, InputError> {
    let input = || port.name().to_owned();
    let unfit = |fault| InputError::Unfit { input: input(), fault };
    for piece in &pieces {
        piece
            .check_here()
            .map_err(|elsewhere| InputError::Elsewhere { input: input(), elsewhere })?;
    }
    let complete = pieces.last().is_some_and(|piece| !piece.continued);
    match port.cardinality() {
        Cardinality::Unary if complete => {
            let Ok(Some(chunk)) = join(&pieces) else { return Ok(vec![Piece::end()]) };
            Ok(vec![Piece::last(convert(port, chunk).map_err(unfit)?)])
        }
        Cardinality::Unary => Ok(pieces),
        Cardinality::Stream => pieces
            .into_iter()
            .map(|piece| match piece.payload {
                Payload::Chunk(chunk) if !chunk.is_null() => {
                    let chunk = convert(port, chunk).map_err(unfit)?;
                    Ok(Piece { payload: Payload::Chunk(chunk), continued: piece.continued })
                }
                payload => Ok(Piece { payload, continued: piece.continued }),
            })
            .collect(),
    }
}

/// Fits one value that was written to an open port, as [`fit_pieces`] does.
pub(super) fn fit_value(port: &Port, chunk: Chunk) -> Result<Chunk, InputError> {
    convert(port, chunk).map_err(|fault| InputError::Unfit { input: port.name().to_owned(), fault })
}

/// A chunk as the port wants it.
fn convert(port: &Port, mut chunk: Chunk) -> Result<Chunk, String> {
    let text = |chunk: &Chunk| -> Result<String, String> {
        let text = std::str::from_utf8(chunk.data()).map_err(|_| "not UTF-8".to_owned())?;
        Ok(text.to_owned())
    };
    match (port.kind(), Kind::of(chunk.media_type())) {
        (Kind::Json, Kind::Json) if chunk.data().first() == Some(&b'"') => {
            let json = json_of_string(port, &text(&chunk)?)?;
            chunk = Chunk::new(chunk.media_type(), json);
        }
        (Kind::Json, Kind::Text) => {
            let text = text(&chunk)?;
            let json = match structure_in(port, &text) {
                true => text,
                false => serde_json::to_string(&text).map_err(|error| error.to_string())?,
            };
            chunk = Chunk::new(JSON, json);
        }
        (Kind::Text, Kind::Json) => {
            let text: String = serde_json::from_slice(chunk.data())
                .map_err(|_| format!("expected {TEXT}, got JSON that is not a string"))?;
            chunk = Chunk::new(port.media_type(), text);
        }
        (Kind::Json | Kind::Text, Kind::Image | Kind::Audio | Kind::Bytes) => {
            return Err(format!("expected {}, got {}", port.media_type(), chunk.media_type()));
        }
        _ => {}
    }
    fit(port, &chunk)?;
    Ok(chunk)
}

/// Checks one value against the port's schema.
fn fit(port: &Port, chunk: &Chunk) -> Result<(), String> {
    let fault = match port.kind() {
        Kind::Text => {
            let text = std::str::from_utf8(chunk.data()).map_err(|_| "not UTF-8".to_owned())?;
            port.value_schema().and_then(|schema| schema.fault_of_text(text))
        }
        Kind::Json => match port.value_schema() {
            Some(schema) => schema.fault_of_json(chunk.data()),
            None => serde_json::from_slice::<&RawValue>(chunk.data())
                .err()
                .map(|error| format!("not JSON: {error}")),
        },
        Kind::Image | Kind::Audio | Kind::Bytes => None,
    };
    fault.map_or(Ok(()), |fault| Err(excerpt_of(&fault, 1024)))
}

/// The start of a text, for an error message.
fn excerpt(text: &str) -> String {
    excerpt_of(text, 80)
}

fn excerpt_of(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

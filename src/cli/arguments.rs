//! Arguments of an action from the command line: `--arg PORT=VALUE` and
//! `--args JSON`, as its ports want them.

use std::{collections::BTreeMap, str::FromStr};

use bytes::Bytes;
use serde_json::value::{RawValue, to_raw_value};
use thiserror::Error;

use super::input::{InputError, Source};
use crate::wire::{
    Chunk, NodeFragment,
    chunk::{Kind, OCTETS},
    pb,
};

/// One `--arg`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assignment {
    port: String,
    value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Text(String),
    Read(Source),
}

/// Why the arguments are unusable.
#[derive(Debug, Error)]
pub enum ArgumentError {
    /// An `--arg` without a `=`.
    #[error("write PORT=VALUE")]
    NoValue,
    /// `--args` is no JSON object.
    #[error("--args is not a JSON object: {0}")]
    NotAnObject(serde_json::Error),
    /// The action has no such input.
    #[error("{action} has no input {port:?}; it takes: {known}")]
    Undeclared {
        /// The action.
        action: String,
        /// As given.
        port: String,
        /// What it takes.
        known: String,
    },
    /// More than one value for a port that takes one.
    #[error("{0} takes one value, and was given more")]
    Repeated(String),
    /// A port in `--arg` and in `--args`.
    #[error("{0} is given by both --arg and --args")]
    GivenTwice(String),
    /// Two arguments from standard input.
    #[error("only one argument can be read from standard input")]
    StdinTwice,
    /// A file for a text port that holds no text.
    #[error("{port} takes text: {source}")]
    NotText {
        /// The port.
        port: String,
        /// Which file it was.
        source: InputError,
    },
    /// A value cannot be read.
    #[error("{port}: {source}")]
    Read {
        /// The port.
        port: String,
        /// Why.
        source: InputError,
    },
}

impl FromStr for Assignment {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, ArgumentError> {
        let (port, value) = text.split_once('=').ok_or(ArgumentError::NoValue)?;
        let value = match value.strip_prefix('@') {
            _ if value == "-" => Value::Read(Source::Stdin),
            // `@@` is a text that begins with `@`.
            Some(literal) if literal.starts_with('@') => Value::Text(literal.to_owned()),
            Some(path) => Value::Read(Source::File(path.into())),
            None => Value::Text(value.to_owned()),
        };
        Ok(Self { port: port.to_owned(), value })
    }
}

/// What is sent: JSON for ports of text and JSON, fragments for all others.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) json: String,
    pub(super) fragments: Vec<NodeFragment>,
}

/// The most bytes of one fragment.
const FRAGMENT_BYTES: usize = 1024 * 1024;

/// Makes the arguments for an action.
pub(super) async fn arguments(
    action: &pb::ActionSchema,
    assignments: &[Assignment],
    object: Option<&str>,
) -> Result<Arguments, ArgumentError> {
    let mut values: BTreeMap<String, Box<RawValue>> = match object {
        Some(json) => serde_json::from_str(json).map_err(ArgumentError::NotAnObject)?,
        None => BTreeMap::new(),
    };
    let from_stdin = |assignment: &&Assignment| assignment.value == Value::Read(Source::Stdin);
    if assignments.iter().filter(from_stdin).count() > 1 {
        return Err(ArgumentError::StdinTwice);
    }

    // By port in the order they were first named; the values of one port together.
    let mut by_port: Vec<(&pb::PortSchema, Vec<&Value>)> = Vec::new();
    for Assignment { port, value } in assignments {
        let declared = action.inputs.iter().find(|input| input.name == *port);
        let declared = declared.ok_or_else(|| undeclared(action, port))?;
        if values.contains_key(port) {
            return Err(ArgumentError::GivenTwice(port.clone()));
        }
        match by_port.iter_mut().find(|(known, _)| known.name == *port) {
            Some(_) if declared.unary => return Err(ArgumentError::Repeated(port.clone())),
            Some((_, values)) => values.push(value),
            None => by_port.push((declared, vec![value])),
        }
    }

    let mut fragments = Vec::new();
    for (port, given) in by_port {
        match Kind::of(&port.media_type) {
            Kind::Text | Kind::Json => {
                let mut items = Vec::with_capacity(given.len());
                for value in given {
                    items.push(json_value(port, read_text(port, value).await?));
                }
                let value = match items.pop() {
                    Some(only) if port.unary => only,
                    last => {
                        items.extend(last);
                        raw(&items)
                    }
                };
                values.insert(port.name.clone(), value);
            }
            Kind::Image | Kind::Audio | Kind::Bytes => {
                let last = given.len().saturating_sub(1);
                for (at, value) in given.into_iter().enumerate() {
                    let (bytes, source) = read_bytes(port, value).await?;
                    let media_type = media_type(port, &bytes, source);
                    let ends = at == last;
                    fragments.extend(pieces(port, &media_type, bytes, ends));
                }
            }
        }
    }
    Ok(Arguments { json: raw(&values).get().to_owned(), fragments })
}

fn undeclared(action: &pb::ActionSchema, port: &str) -> ArgumentError {
    let known: Vec<&str> = action.inputs.iter().map(|input| input.name.as_str()).collect();
    ArgumentError::Undeclared {
        action: action.name.clone(),
        port: port.to_owned(),
        known: if known.is_empty() { "nothing".to_owned() } else { known.join(", ") },
    }
}

async fn read_text(port: &pb::PortSchema, value: &Value) -> Result<String, ArgumentError> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        Value::Read(source) => source.read_text().await.map_err(|source| match source {
            InputError::NotText { .. } => {
                ArgumentError::NotText { port: port.name.clone(), source }
            }
            InputError::Read { .. } | InputError::TooLarge { .. } | InputError::Empty { .. } => {
                ArgumentError::Read { port: port.name.clone(), source }
            }
        }),
    }
}

async fn read_bytes<'v>(
    port: &pb::PortSchema,
    value: &'v Value,
) -> Result<(Bytes, Option<&'v Source>), ArgumentError> {
    match value {
        Value::Text(text) => Ok((Bytes::copy_from_slice(text.as_bytes()), None)),
        Value::Read(source) => match source.read().await {
            Ok(bytes) => Ok((bytes, Some(source))),
            Err(error) => Err(ArgumentError::Read { port: port.name.clone(), source: error }),
        },
    }
}

/// A text as the port's JSON: the string it is, or for a JSON port what it says.
/// What is no JSON, or goes to a port that takes strings alone, is a string.
fn json_value(port: &pb::PortSchema, text: String) -> Box<RawValue> {
    if Kind::of(&port.media_type) == Kind::Json
        && !takes_only_strings(port)
        && let Ok(value) = serde_json::from_str::<Box<RawValue>>(&text)
    {
        return value;
    }
    raw(&text)
}

fn takes_only_strings(port: &pb::PortSchema) -> bool {
    serde_json::from_str::<serde_json::Value>(&port.json_schema)
        .is_ok_and(|schema| schema.get("type").and_then(|kind| kind.as_str()) == Some("string"))
}

/// Strings, and JSON that was read: there is nothing to fail on.
fn raw(value: &(impl serde::Serialize + ?Sized)) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The port's media type, or for one such as `image/*` what the bytes look like.
fn media_type(port: &pb::PortSchema, bytes: &[u8], source: Option<&Source>) -> String {
    if !port.media_type.contains('*') {
        return port.media_type.clone();
    }
    let by_content = match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => Some("audio/wav"),
        [b'I', b'D', b'3', ..] => Some("audio/mpeg"),
        [b'O', b'g', b'g', b'S', ..] => Some("audio/ogg"),
        [b'f', b'L', b'a', b'C', ..] => Some("audio/flac"),
        _ => None,
    };
    let by_name = || match source {
        Some(Source::File(path)) => match path.extension()?.to_str()? {
            "svg" => Some("image/svg+xml"),
            "mp3" => Some("audio/mpeg"),
            _ => None,
        },
        _ => None,
    };
    by_content.or_else(by_name).unwrap_or(OCTETS).to_owned()
}

/// One value of a port in fragments. A stream's value is always one fragment.
fn pieces(
    port: &pb::PortSchema,
    media_type: &str,
    mut bytes: Bytes,
    ends: bool,
) -> Vec<NodeFragment> {
    let mut pieces = Vec::new();
    while port.unary && bytes.len() > FRAGMENT_BYTES {
        let piece = bytes.split_to(FRAGMENT_BYTES);
        pieces.push(NodeFragment::more(&port.name, Chunk::new(media_type, piece)));
    }
    let last = Chunk::new(media_type, bytes);
    pieces.push(match ends {
        true => NodeFragment::last(&port.name, last),
        false => NodeFragment::more(&port.name, last),
    });
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action() -> pb::ActionSchema {
        let port = |name: &str, media_type: &str, unary, schema: &str| pb::PortSchema {
            name: name.to_owned(),
            media_type: media_type.to_owned(),
            unary,
            json_schema: schema.to_owned(),
            ..Default::default()
        };
        pb::ActionSchema {
            name: "act".to_owned(),
            inputs: vec![
                port("text", "text/plain", true, ""),
                port("n", "application/json", true, r#"{"type":"integer"}"#),
                port("code", "application/json", true, r#"{"type":"string"}"#),
                port("tags", "application/json", false, ""),
                port("picture", "image/*", true, ""),
            ],
            ..Default::default()
        }
    }

    async fn read(args: &[&str], object: Option<&str>) -> Result<Arguments, ArgumentError> {
        let assignments =
            args.iter().map(|arg| arg.parse()).collect::<Result<Vec<Assignment>, _>>()?;
        arguments(&action(), &assignments, object).await
    }

    #[tokio::test]
    async fn values_become_what_their_port_takes() {
        let check = async |args: &[&str], object, expected: &str| {
            assert_eq!(read(args, object).await.unwrap().json, expected);
        };
        check(&[], None, "{}").await;
        check(&["text=5"], None, r#"{"text":"5"}"#).await;
        check(&["text=a=b"], None, r#"{"text":"a=b"}"#).await;
        check(&["text=@@me"], None, r#"{"text":"@me"}"#).await;
        check(&["n=12345678901234567890"], None, r#"{"n":12345678901234567890}"#).await;
        check(&["n=many"], None, r#"{"n":"many"}"#).await;
        check(&["code=5"], None, r#"{"code":"5"}"#).await;
        check(&["tags=1"], None, r#"{"tags":[1]}"#).await;
        check(&["tags=1", "tags=two", "tags=[3]"], None, r#"{"tags":[1,"two",[3]]}"#).await;
        check(&["text=x"], Some(r#"{"n": 1.10}"#), r#"{"n":1.10,"text":"x"}"#).await;
    }

    #[tokio::test]
    async fn what_is_wrong_is_named() {
        let check = async |args: &[&str], object, expected: &str| {
            let error = read(args, object).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&["text"], None, "PORT=VALUE").await;
        check(&["txt=1"], None, r#"no input "txt"; it takes: text, n, code"#).await;
        check(&["text=1", "text=2"], None, "text takes one value").await;
        check(&["text=1"], Some(r#"{"text":""}"#), "both --arg and --args").await;
        check(&["text=-", "n=-"], None, "standard input").await;
        check(&[], Some("[]"), "not a JSON object").await;
        check(&["text=@/nowhere/at/all"], None, "/nowhere/at/all").await;
    }

    #[tokio::test]
    async fn bytes_go_as_fragments_with_the_type_they_look_like() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("picture");
        let mut bytes = b"\x89PNG".to_vec();
        bytes.resize(FRAGMENT_BYTES + 1, 0);
        std::fs::write(&path, &bytes).unwrap();
        let given = read(&[&format!("picture=@{}", path.display())], None).await.unwrap();
        let [first, last] = given.fragments.as_slice() else {
            panic!("{:?}", given.fragments.len())
        };
        assert_eq!(first.chunk().unwrap().media_type(), "image/png");
        assert!(first.continued && !last.continued);
        assert_eq!(last.payload_len(), 1);
    }
}

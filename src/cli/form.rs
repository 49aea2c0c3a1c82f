//! The forms in which a file holds interactions.

use bytes::Bytes;
use clap::ValueEnum;

use crate::interaction::{
    Interaction, InteractionError,
    document::{self, Document, PROTOBUF, read_document},
    store::{RecordError, lines},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// The portable A11 JSON.
    Portable,
    /// proto3 JSON.
    ProtoJson,
    /// The protobuf message a11.v1.Interaction.
    Protobuf,
}

pub(super) fn name_of(form: Form) -> &'static str {
    match form {
        Form::Portable => "portable",
        Form::ProtoJson => "proto-json",
        Form::Protobuf => "protobuf",
    }
}

/// The interaction that bytes hold, and in which form; `None` for JSON of
/// another kind.
pub(super) fn read(bytes: &Bytes) -> Result<Option<(Interaction, Form)>, InteractionError> {
    if !begins_as_json(bytes) && !bytes.is_empty() {
        match document::decode_turn(bytes.clone(), PROTOBUF) {
            // Text that is neither is rather bad JSON than bad protobuf.
            Err(InteractionError::NotProtobuf(_)) if std::str::from_utf8(bytes).is_ok() => {}
            decoded => return decoded.map(|interaction| Some((interaction, Form::Protobuf))),
        }
    }
    Ok(match read_document(bytes)? {
        Document::Portable(interaction) => Some((interaction, Form::Portable)),
        Document::ProtoJson(interaction) => Some((interaction, Form::ProtoJson)),
        Document::Other(_) => None,
    })
}

fn begins_as_json(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes.trim_ascii_start().starts_with(b"{")
}

/// The interactions of JSON lines, as an export writes them; `None` where the
/// bytes are something else.
pub(super) fn read_lines(bytes: &Bytes) -> Option<Result<Vec<Interaction>, RecordError>> {
    #[derive(serde::Deserialize)]
    struct Line {
        #[serde(default)]
        a11_record: Option<serde::de::IgnoredAny>,
    }
    let lines = || {
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        lines.map(|line| bytes.slice_ref(line))
    };
    let first: Line = serde_json::from_slice(&lines().next()?).ok()?;
    if first.a11_record.is_none() && lines().nth(1).is_none() {
        return None;
    }
    let read = |line| lines::read(line).map(|record| record.interaction().clone());
    Some(lines().map(read).collect())
}

//! JSON lines: a conversation as text, an interaction a line. A line is the
//! portable JSON with a field [`FIELD`] beside, by which the record is restored
//! byte for byte; other readers ignore it.

use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures::Stream;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        document::{self, Document, Form, read_document},
        error::InteractionError,
        portable,
    },
    Store,
    conversations::{After, Existed},
    error::{RecordError, StoreError},
    name::ConversationName,
    record::{Record, Stored},
};
use crate::wire::Status;

/// The field of a line that holds what only the store knows.
pub const FIELD: &str = "a11_record";

/// What a line says of the record.
#[derive(Debug, Serialize, Deserialize)]
struct Beside {
    media_type: String,
    appended_at_millis: i64,
    position: u64,
    /// The record's bytes, in base64; absent where writing the line's interaction
    /// in that media type gives them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<String>,
}

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    a11_record: Option<Beside>,
}

/// Writes a record as one line, without its line feed.
///
/// # Errors
/// Where the record cannot be read.
pub fn write(stored: &Stored) -> Result<String, StoreError> {
    let broken = |error: InteractionError| StoreError::Broken { id: stored.id.clone(), error };
    let interaction = stored.interaction()?;
    let mut line = portable::turn_to_json(&interaction).map_err(broken)?;
    let follows = Form::of(&stored.media_type)
        .and_then(|form| document::encode_turn(&interaction, form).ok())
        .is_some_and(|bytes| bytes == stored.bytes);
    let beside = Beside {
        media_type: stored.media_type.clone(),
        appended_at_millis: stored.appended_at_millis,
        position: stored.position,
        data: (!follows).then(|| BASE64_STANDARD.encode(&stored.bytes)),
    };
    let beside = serde_json::to_string(&beside)
        .map_err(|error| broken(InteractionError::NotJson(error.to_string())))?;
    // The portable JSON is always one object.
    line.truncate(line.rfind('}').unwrap_or_default());
    let comma = if line.ends_with('{') { "" } else { "," };
    line.push_str(&format!("{comma}\"{FIELD}\":{beside}}}"));
    Ok(line)
}

/// Reads a line: one of [`write()`], or an interaction in either JSON form.
///
/// # Errors
/// Where it is none, or cannot be kept.
pub fn read(line: Bytes) -> Result<Record, RecordError> {
    let not_json = |error: serde_json::Error| InteractionError::NotJson(error.to_string());
    let Line { a11_record } = serde_json::from_slice(&line).map_err(not_json)?;
    match a11_record {
        None => match read_document(&line)? {
            Document::ProtoJson(interaction) => Record::from_interaction(&interaction),
            // What has no field to tell by is read as what it most likely is.
            Document::Portable(_) | Document::Other(_) => {
                Record::from_bytes(line, document::PORTABLE_JSON)
            }
        },
        Some(Beside { media_type, data: Some(data), .. }) => {
            let bytes =
                BASE64_STANDARD.decode(data).map_err(|error| InteractionError::Malformed {
                    field: format!("{FIELD}.data"),
                    message: error.to_string(),
                })?;
            Record::from_bytes(bytes.into(), &media_type)
        }
        Some(Beside { media_type, data: None, .. }) => {
            let form = Form::of(&media_type)
                .ok_or_else(|| InteractionError::UnknownMediaType(media_type.clone()))?;
            let interaction = portable::turn_from_json(&line)?;
            Record::from_bytes(document::encode_turn(&interaction, form)?, &media_type)
        }
    }
}

/// A conversation as lines, each with its line feed; several at a time, about
/// `BATCH_BYTES`.
pub fn export(
    store: Arc<dyn Store>,
    conversation: ConversationName,
    after: u64,
) -> impl Stream<Item = Result<Bytes, StoreError>> + Send {
    async_stream::try_stream! {
        let mut position = after;
        loop {
            let page = store.list(&conversation, After::position(position)).await?;
            let Some(last) = page.last() else { break };
            position = last.position;
            let mut lines = Vec::new();
            for stored in &page {
                lines.extend_from_slice(write(stored)?.as_bytes());
                lines.push(b'\n');
                if lines.len() >= BATCH_BYTES {
                    yield Bytes::from(std::mem::take(&mut lines));
                }
            }
            if !lines.is_empty() {
                yield Bytes::from(lines);
            }
        }
    }
}

/// How large what [`export`] hands out grows before it is handed out.
const BATCH_BYTES: usize = 1 << 20;

/// Appends lines, and counts them.
#[derive(Debug, Default)]
pub struct Import {
    /// How many were appended.
    pub appended: u64,
    /// How many were there already.
    pub existed: u64,
    /// How many lines were read, empty ones included.
    pub lines: u64,
}

impl Import {
    /// Appends whole lines; the last line feed can be left off.
    ///
    /// # Errors
    /// What is wrong with a line, which is named. Those before it are kept.
    pub async fn append(
        &mut self,
        store: &dyn Store,
        conversation: &ConversationName,
        lines: Bytes,
    ) -> Result<(), Status> {
        let mut begin = 0;
        while begin < lines.len() {
            let rest = &lines[begin..];
            let len = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            let line = lines.slice(begin..begin + len);
            begin += len + 1;
            self.lines += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let record = read(line).map_err(|error| self.named(error.into()))?;
            let appended = store.append(conversation, record).await;
            match appended.map_err(|error| self.named(error.into()))?.existed {
                Existed::Yes => self.existed += 1,
                Existed::No => self.appended += 1,
            }
        }
        Ok(())
    }

    fn named(&self, mut status: Status) -> Status {
        status.message = format!("line {}: {}", self.lines, status.message);
        status
    }
}

//! JSON lines: a conversation as text, an interaction a line. A line is the
//! portable JSON with a field [`FIELD`] beside, by which the record is restored
//! byte for byte; other readers ignore it.

use std::{mem, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::{Buf as _, Bytes};
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
use crate::wire::{Reason, Status};

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
/// `BATCH_BYTES`, and one that is longer than `PIECE_BYTES` in pieces.
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
                    for piece in pieces(mem::take(&mut lines).into()) {
                        yield piece;
                    }
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

/// The largest piece of a text, in bytes: one that a message has room for.
const PIECE_BYTES: usize = 16 << 20;

/// The longest line, in bytes. The largest record as text, with its bytes beside,
/// has 107 MiB.
const MAX_LINE_BYTES: usize = 160 << 20;

/// A text in pieces that fit a message.
pub fn pieces(mut text: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || {
        let len = text.len().min(PIECE_BYTES);
        (len > 0).then(|| text.split_to(len))
    })
}

/// Appends lines, and counts them.
#[derive(Debug, Default)]
pub struct Import {
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    /// How many were appended.
    pub appended: u64,
    /// How many were there already.
    pub existed: u64,
    /// How many lines were read, empty ones included.
    pub lines: u64,
}

impl Import {
    /// Appends the lines of the next piece of a text; the last one may go on in the
    /// piece after it.
    ///
    /// # Errors
    /// What is wrong with a line, which is named. Those before it are kept.
    pub async fn append(
        &mut self,
        store: &dyn Store,
        conversation: &ConversationName,
        mut piece: Bytes,
    ) -> Result<(), Status> {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            let mut line = piece.split_to(end);
            piece.advance(1);
            if !self.begun.is_empty() {
                self.hold(&line)?;
                line = mem::take(&mut self.begun).into();
            }
            self.append_line(store, conversation, line).await?;
        }
        self.hold(&piece)
    }

    /// Appends the last line, where it has no line feed.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub async fn finish(
        &mut self,
        store: &dyn Store,
        conversation: &ConversationName,
    ) -> Result<(), Status> {
        let line = mem::take(&mut self.begun);
        if line.is_empty() {
            Ok(())
        } else {
            self.append_line(store, conversation, line.into()).await
        }
    }

    /// Keeps the beginning of a line.
    fn hold(&mut self, part: &[u8]) -> Result<(), Status> {
        if self.begun.len() + part.len() > MAX_LINE_BYTES {
            self.lines += 1;
            let message = format!("longer than {MAX_LINE_BYTES} bytes");
            return Err(self.named(Status::of(Reason::InvalidRequest, message)));
        }
        self.begun.extend_from_slice(part);
        Ok(())
    }

    async fn append_line(
        &mut self,
        store: &dyn Store,
        conversation: &ConversationName,
        line: Bytes,
    ) -> Result<(), Status> {
        self.lines += 1;
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let record = read(line).map_err(|error| self.named(error.into()))?;
        let appended = store.append(conversation, record).await;
        match appended.map_err(|error| self.named(error.into()))?.existed {
            Existed::Yes => self.existed += 1,
            Existed::No => self.appended += 1,
        }
        Ok(())
    }

    fn named(&self, mut status: Status) -> Status {
        status.message = format!("line {}: {}", self.lines, status.message);
        status
    }
}

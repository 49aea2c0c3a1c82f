//! Chunks and fragments: what they hold, and how one is made.

use std::borrow::Cow;

use bytes::Bytes;

use super::pb::{self, chunk::Body, node_fragment::Payload};

/// The media type of plain text.
pub const TEXT: &str = "text/plain";
/// The media type of JSON.
pub const JSON: &str = "application/json";
/// The media type of bytes that nothing more is known about.
pub const OCTETS: &str = "application/octet-stream";

pub use super::pb::{Chunk, NodeFragment, NodeRef};

impl Chunk {
    /// Bytes of a media type.
    pub fn new(media_type: impl Into<String>, data: impl Into<Bytes>) -> Self {
        Self {
            metadata: Some(pb::ChunkMetadata {
                media_type: media_type.into(),
                ..Default::default()
            }),
            body: Some(Body::Data(data.into())),
        }
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(TEXT, text.into().into_bytes())
    }

    /// A value as JSON.
    ///
    /// # Errors
    /// Where the value has no JSON form (a map with keys that are no strings).
    pub fn json(value: &impl serde::Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self::new(JSON, serde_json::to_vec(value)?))
    }

    /// The chunk that carries no value.
    pub fn null() -> Self {
        Self::new(OCTETS, Bytes::new())
    }

    /// The media type, empty where the chunk says none (it then has its
    /// predecessor's).
    pub fn media_type(&self) -> &str {
        self.metadata.as_ref().map_or("", |metadata| metadata.media_type.as_str())
    }

    /// Says what the bytes are.
    pub fn set_media_type(&mut self, media_type: &str) {
        self.metadata.get_or_insert_default().media_type = media_type.to_owned();
    }

    /// The bytes; empty for a reference.
    pub fn data(&self) -> &Bytes {
        static EMPTY: Bytes = Bytes::new();
        match &self.body {
            Some(Body::Data(data)) => data,
            Some(Body::Ref(_)) | None => &EMPTY,
        }
    }

    /// Where the bytes are, for a reference.
    pub fn reference(&self) -> Option<&str> {
        match &self.body {
            Some(Body::Ref(reference)) => Some(reference),
            Some(Body::Data(_)) | None => None,
        }
    }

    /// Whether it carries no value: `application/octet-stream` without bytes.
    pub fn is_null(&self) -> bool {
        self.media_type() == OCTETS && self.reference().is_none() && self.data().is_empty()
    }
}

impl NodeFragment {
    /// A chunk of the node or port `id`, with more to follow, its place left to
    /// the node.
    pub fn more(id: impl Into<String>, chunk: Chunk) -> Self {
        Self { id: id.into(), payload: Some(Payload::Chunk(chunk)), seq: None, continued: true }
    }

    /// The final chunk of the node or port `id`.
    pub fn last(id: impl Into<String>, chunk: Chunk) -> Self {
        Self { continued: false, ..Self::more(id, chunk) }
    }

    /// The fragment that ends a node and carries no value.
    pub fn end(id: impl Into<String>) -> Self {
        Self::last(id, Chunk::null())
    }

    /// The chunk, where the payload is one.
    pub fn chunk(&self) -> Option<&Chunk> {
        match &self.payload {
            Some(Payload::Chunk(chunk)) => Some(chunk),
            Some(Payload::NodeRef(_)) | None => None,
        }
    }

    /// How many payload bytes it holds.
    pub fn payload_len(&self) -> usize {
        self.chunk().map_or(0, |chunk| chunk.data().len())
    }
}

/// A media type's essence: lower case, parameters left off.
pub fn essence(media_type: &str) -> Cow<'_, str> {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    if essence.bytes().any(|byte| byte.is_ascii_uppercase()) {
        essence.to_ascii_lowercase().into()
    } else {
        essence.into()
    }
}

/// How the bytes of a media type are shown in a JSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `text/*`: a string.
    Text,
    /// `application/json` and `*+json`: the value itself.
    Json,
    /// `image/*`: never in a document; handed over beside it.
    Image,
    /// `audio/*`: bytes, but limited with the images.
    Audio,
    /// Anything else: padded base64url.
    Bytes,
}

impl Kind {
    /// The kind of a media type.
    pub fn of(media_type: &str) -> Self {
        let essence = essence(media_type);
        match essence.split_once('/') {
            Some(("text", _)) => Self::Text,
            Some(("image", _)) => Self::Image,
            Some(("audio", _)) => Self::Audio,
            Some((_, subtype)) if subtype == "json" || subtype.ends_with("+json") => Self::Json,
            _ => Self::Bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_octets_without_bytes_are_null() {
        assert!(Chunk::null().is_null());
        assert!(!Chunk::text("").is_null());
        assert!(!Chunk::new(OCTETS, "x").is_null());
        assert!(!Chunk::default().is_null());
    }

    #[test]
    fn media_types_have_a_kind() {
        let check = |media_type, kind| assert_eq!(Kind::of(media_type), kind, "{media_type}");
        check("text/plain; charset=utf-8", Kind::Text);
        check("Application/JSON", Kind::Json);
        check("application/problem+json", Kind::Json);
        check("image/png", Kind::Image);
        check("audio/wav", Kind::Audio);
        check("application/pdf", Kind::Bytes);
        check("", Kind::Bytes);
    }
}

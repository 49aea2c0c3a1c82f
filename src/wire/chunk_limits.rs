//! What a chunk and a fragment may hold beside their bytes, and the check of it.

use thiserror::Error;

use super::chunk::Chunk;
use super::name::{Name, NameError, is_name};
use super::pb::{self, chunk::Body, node_fragment::Payload};
use super::status::{Reason, Status};

/// The longest media type, in characters.
pub const MAX_MEDIA_TYPE_LEN: usize = 255;
/// The longest reference to where bytes are, in characters.
pub const MAX_REF_LEN: usize = 2048;
/// How many attributes a chunk has at most.
pub const MAX_ATTRIBUTES: usize = 64;
/// How many bytes the names and values of a chunk's attributes have in all.
pub const MAX_ATTRIBUTE_BYTES: usize = 64 * 1024;

/// What a chunk or fragment may not have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// The media type is too long; how long, in characters.
    #[error("metadata.media_type: has {0} characters, and may have {MAX_MEDIA_TYPE_LEN}")]
    MediaType(usize),
    /// It has too many attributes; how many.
    #[error("metadata.attributes: there are {0}, and may be {MAX_ATTRIBUTES}")]
    Attributes(usize),
    /// The attributes are too large together; how large, in bytes.
    #[error("metadata.attributes: have {0} bytes in all, and may have {MAX_ATTRIBUTE_BYTES}")]
    AttributeBytes(usize),
    /// The name of an attribute is no name.
    #[error("metadata.attributes: {0}")]
    AttributeName(NameError),
    /// The reference names no place.
    #[error("ref: a ref must not be empty")]
    EmptyRef,
    /// The reference is too long; how long, in characters.
    #[error("ref: has {0} characters, and may have {MAX_REF_LEN}")]
    Ref(usize),
    /// The node referred to has no valid id.
    #[error("node_ref.id: {0}")]
    NodeRefId(NameError),
}

impl Chunk {
    /// Checks what it holds beside its bytes against the limits of `chunk.proto`.
    ///
    /// # Errors
    /// [`ChunkError`] names the field.
    pub fn check(&self) -> Result<(), ChunkError> {
        let Self { metadata, body } = self;
        if let Some(pb::ChunkMetadata { media_type, timestamp: _, attributes }) = metadata {
            if let Some(len) = excess(media_type, MAX_MEDIA_TYPE_LEN) {
                return Err(ChunkError::MediaType(len));
            }
            if attributes.len() > MAX_ATTRIBUTES {
                return Err(ChunkError::Attributes(attributes.len()));
            }
            let bytes = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
            if bytes > MAX_ATTRIBUTE_BYTES {
                return Err(ChunkError::AttributeBytes(bytes));
            }
            let mut names = attributes.keys();
            names.try_for_each(|name| check_name(name)).map_err(ChunkError::AttributeName)?;
        }
        match body {
            Some(Body::Ref(reference)) if reference.is_empty() => Err(ChunkError::EmptyRef),
            Some(Body::Ref(reference)) => {
                excess(reference, MAX_REF_LEN).map_or(Ok(()), |len| Err(ChunkError::Ref(len)))
            }
            Some(Body::Data(_)) | None => Ok(()),
        }
    }

    /// Everything it holds, in bytes: data or reference, media type, attributes.
    pub fn held_len(&self) -> usize {
        let Self { metadata, body } = self;
        let beside = metadata.as_ref().map_or(0, |metadata| {
            let pb::ChunkMetadata { media_type, timestamp: _, attributes } = metadata;
            let attributes = attributes.iter();
            // A map's entry is not free either.
            media_type.len()
                + attributes.map(|(name, value)| 64 + name.len() + value.len()).sum::<usize>()
        });
        beside
            + match body {
                Some(Body::Data(data)) => data.len(),
                Some(Body::Ref(reference)) => reference.len(),
                None => 0,
            }
    }
}

impl Payload {
    /// Checks what a fragment holds against the limits of `chunk.proto`.
    ///
    /// # Errors
    /// [`ChunkError`] names the field.
    pub fn check(&self) -> Result<(), ChunkError> {
        match self {
            Self::Chunk(chunk) => chunk.check(),
            Self::NodeRef(node) => check_name(&node.id).map_err(ChunkError::NodeRefId),
        }
    }

    /// Everything it holds, in bytes.
    pub fn held_len(&self) -> usize {
        match self {
            Self::Chunk(chunk) => chunk.held_len(),
            Self::NodeRef(node) => node.id.len(),
        }
    }
}

impl From<ChunkError> for Status {
    fn from(error: ChunkError) -> Self {
        Self::of(Reason::InvalidRequest, error.to_string())
    }
}

fn check_name(text: &str) -> Result<(), NameError> {
    if is_name(text) { Ok(()) } else { Name::new(text).map(drop) }
}

/// The length of a text in characters, where that is more than `most`.
fn excess(text: &str, most: usize) -> Option<usize> {
    // A text has at least as many bytes as characters.
    let len = if text.len() > most { text.chars().count() } else { 0 };
    (len > most).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_chunk_holds_beside_its_bytes_is_bounded() {
        let check = |chunk: Chunk, expected: Result<(), &str>| match (
            Payload::Chunk(chunk).check(),
            expected,
        ) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(field)) => {
                assert!(error.to_string().starts_with(field), "{error}");
            }
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        };
        let typed = |len| Chunk::new("é".repeat(len), "");
        let at = |place: String| Chunk { metadata: None, body: Some(Body::Ref(place)) };
        let having = |count: usize, name: &str, value: usize| {
            let mut chunk = Chunk::text("x");
            let attributes = &mut chunk.metadata.get_or_insert_default().attributes;
            attributes.extend((0..count).map(|n| (format!("{name}{n}"), vec![0; value].into())));
            chunk
        };
        check(typed(255), Ok(()));
        check(typed(256), Err("metadata.media_type: has 256"));
        check(at("x".repeat(2048)), Ok(()));
        check(at("x".repeat(2049)), Err("ref: has 2049"));
        check(at(String::new()), Err("ref: "));
        check(having(64, "n", 1000), Ok(()));
        check(having(65, "n", 0), Err("metadata.attributes: there are 65"));
        check(having(1, "n", 64 * 1024 - 1), Err("metadata.attributes: have 65537 bytes"));
        check(having(1, "a b", 0), Err("metadata.attributes: "));
        check(having(1, &"n".repeat(255), 0), Err("metadata.attributes: a name has at most 255"));
    }
}

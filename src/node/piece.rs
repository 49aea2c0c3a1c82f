//! One piece of a node, without the address that it travels under.

use thiserror::Error;

use crate::wire::pb::node_fragment::Payload;
use crate::wire::{Chunk, ChunkError, NodeFragment, Reason, Status};

/// A value was wanted, and the piece says where it is instead. Nothing here goes
/// there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Elsewhere {
    /// In another node.
    #[error("the value is in node {0:?}, which is not held here")]
    Node(String),
    /// At the place that a chunk's `ref` names.
    #[error("the value is at {0:?}, which is not held here")]
    Place(String),
}

impl From<Elsewhere> for Status {
    fn from(elsewhere: Elsewhere) -> Self {
        Self::of(Reason::UnknownNode, elsewhere.to_string())
    }
}

/// What one fragment holds: a payload, and whether more follows. The node knows
/// its own id, and the order says the rest.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// A chunk, or a reference to a range of another node.
    pub payload: Payload,
    /// Whether more pieces follow. False is the logical end of the node.
    pub continued: bool,
}

impl Piece {
    /// A chunk with more to follow.
    pub fn more(chunk: Chunk) -> Self {
        Self { payload: Payload::Chunk(chunk), continued: true }
    }

    /// The final chunk.
    pub fn last(chunk: Chunk) -> Self {
        Self { payload: Payload::Chunk(chunk), continued: false }
    }

    /// The end of a node, without a value.
    pub fn end() -> Self {
        Self::last(Chunk::null())
    }

    /// The chunk, where the payload is one.
    pub fn chunk(&self) -> Option<&Chunk> {
        match &self.payload {
            Payload::Chunk(chunk) => Some(chunk),
            Payload::NodeRef(_) => None,
        }
    }

    /// The chunk that a reader of values gets: bytes, and not where they are.
    ///
    /// # Errors
    /// Where the piece is a reference to another node or place.
    pub fn value_chunk(&self) -> Result<&Chunk, Elsewhere> {
        match &self.payload {
            Payload::Chunk(chunk) => match chunk.reference() {
                None => Ok(chunk),
                Some(place) => Err(Elsewhere::Place(place.to_owned())),
            },
            Payload::NodeRef(node) => Err(Elsewhere::Node(node.id.clone())),
        }
    }

    /// Whether what it stands for is here, in the piece.
    ///
    /// # Errors
    /// As [`value_chunk`](Self::value_chunk).
    pub fn check_here(&self) -> Result<(), Elsewhere> {
        self.value_chunk().map(drop)
    }

    /// Takes the address off a fragment: its seq, and what it holds. Here is what
    /// came checked.
    ///
    /// # Errors
    /// Where it holds what no fragment may.
    pub fn from_fragment(fragment: NodeFragment) -> Result<(Option<u32>, Self), ChunkError> {
        let (seq, piece) = Self::from_checked(fragment);
        piece.payload.check()?;
        Ok((seq, piece))
    }

    /// The same for a fragment that was checked where it came in, as a session does.
    pub fn from_checked(fragment: NodeFragment) -> (Option<u32>, Self) {
        let NodeFragment { id: _, payload, seq, continued } = fragment;
        let payload = payload.unwrap_or_else(|| Payload::Chunk(Chunk::default()));
        (seq, Self { payload, continued })
    }

    /// Puts an address on: the fragment of node or port `id` at `seq`.
    pub fn into_fragment(self, id: impl Into<String>, seq: u32) -> NodeFragment {
        let Self { payload, continued } = self;
        NodeFragment { id: id.into(), payload: Some(payload), seq: Some(seq), continued }
    }

    /// Whether it carries no value.
    pub fn is_null(&self) -> bool {
        self.chunk().is_some_and(Chunk::is_null)
    }

    /// How many payload bytes it holds.
    pub fn payload_len(&self) -> usize {
        self.chunk().map_or(0, |chunk| chunk.data().len())
    }

    /// What it costs to keep, in bytes: everything it holds and a fixed share, so
    /// that empty pieces are bounded too.
    pub fn cost(&self) -> usize {
        const FIXED: usize = 64;
        FIXED + self.payload.held_len()
    }

    /// Whether `again` is the same piece sent once more. A media type left off
    /// is the same as the one that was resolved from its predecessor.
    pub(super) fn is_repeated_by(&self, again: &Self) -> bool {
        if self.continued != again.continued {
            return false;
        }
        match (&self.payload, &again.payload) {
            (Payload::Chunk(kept), Payload::Chunk(again)) if again.media_type().is_empty() => {
                kept.data() == again.data() && kept.reference() == again.reference()
            }
            (kept, again) => kept == again,
        }
    }
}

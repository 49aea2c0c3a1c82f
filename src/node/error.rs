//! Why a node took no piece, or gives none.

use thiserror::Error;

use super::piece::Elsewhere;
use crate::wire::{Reason, Status};

/// Why a node took no piece.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NodeError {
    /// Another payload has that place.
    #[error("two different fragments have seq {0}")]
    SeqConflict(u32),
    /// The place is past the final fragment, or a final one came before others.
    #[error("seq {seq} is past the final fragment, seq {last}")]
    PastFinal {
        /// The place written.
        seq: u32,
        /// The place of the final fragment.
        last: u32,
    },
    /// A piece before the end never came.
    #[error("the node was closed while seq {0} was missing")]
    Gap(u32),
    /// Too much came ahead of the piece that is next.
    #[error("too much arrived ahead of seq {0}")]
    Full(u32),
    /// The node takes nothing more.
    #[error("the node is closed")]
    Closed,
    /// That part is no longer kept.
    #[error("seq {wanted} is no longer kept; the oldest is {oldest}")]
    Trimmed {
        /// The place asked for.
        wanted: u32,
        /// The oldest place that is kept.
        oldest: u32,
    },
    /// The piece says where its value is, and the node takes values alone.
    #[error(transparent)]
    Elsewhere(#[from] Elsewhere),
    /// The node failed before; this is its status.
    #[error("{0}")]
    Failed(Status),
}

impl From<NodeError> for Status {
    fn from(error: NodeError) -> Self {
        let reason = match &error {
            NodeError::SeqConflict(_) => Reason::SeqConflict,
            NodeError::PastFinal { .. } => Reason::PastFinal,
            NodeError::Gap(_) => Reason::Gap,
            NodeError::Full(_) => Reason::NodeFull,
            NodeError::Closed => Reason::NodeClosed,
            NodeError::Trimmed { .. } => Reason::Trimmed,
            NodeError::Elsewhere(elsewhere) => return elsewhere.clone().into(),
            NodeError::Failed(status) => return status.clone(),
        };
        Status::of(reason, error.to_string())
    }
}

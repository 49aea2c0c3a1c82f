//! Why a store did not do what it was asked.

use std::{error::Error, sync::Arc};

use thiserror::Error;

use super::{super::error::InteractionError, record::MAX_RECORD_BYTES};
use crate::wire::{Reason, Status};

/// Why something cannot be kept, whatever the store holds.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordError {
    /// A name or an id is not one that can be kept.
    #[error("{field} {fault}")]
    BadName {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The media type is longer than 255 characters.
    #[error("media_type has more than 255 characters")]
    MediaTypeTooLong,
    /// It is larger than could be handed out again.
    #[error("the interaction has {0} bytes; at most {MAX_RECORD_BYTES} are kept")]
    TooLarge(usize),
    /// It is no interaction, or not a valid one.
    #[error(transparent)]
    Interaction(#[from] InteractionError),
}

impl From<RecordError> for Status {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Interaction(error) => error.into(),
            RecordError::BadName { .. }
            | RecordError::MediaTypeTooLong
            | RecordError::TooLarge(_) => Status::of(Reason::InvalidRequest, error.to_string()),
        }
    }
}

/// Why a store did not do what it was asked.
#[derive(Debug, Clone, Error)]
pub enum StoreError {
    /// There is no conversation of that name.
    #[error("there is no conversation {0:?}")]
    UnknownConversation(String),
    /// The conversation ends before the position that was followed: the one that
    /// was followed is gone, and this one was begun anew.
    #[error(
        "after_position: conversation {conversation:?} has no position {after}, it ends at \
         {length}; one that had it was deleted"
    )]
    EndsBefore {
        /// The conversation.
        conversation: String,
        /// The position that was followed.
        after: u64,
        /// How many interactions there are.
        length: u64,
    },
    /// The conversation has no interaction of that id.
    #[error("the conversation has no interaction {0:?}")]
    UnknownInteraction(String),
    /// The conversation has another interaction of that id.
    #[error("the conversation has another interaction with the id {0:?}")]
    Conflict(String),
    /// The interaction that is to be followed is not in the conversation.
    #[error("previous_interaction_id: the conversation has no interaction {0:?}")]
    MissingPrevious(String),
    /// The round is held by another, finished, or deleted.
    #[error("the calls of turn {0:?} are no longer run from here")]
    LeaseLost(String),
    /// A record cannot be read back.
    #[error("the record of interaction {id:?} cannot be read: {error}")]
    Broken {
        /// The interaction.
        id: String,
        /// Why.
        error: InteractionError,
    },
    /// What the journal holds of a round cannot be read back.
    #[error("the record of the calls of turn {0:?} cannot be read")]
    BrokenRound(String),
    /// The engine could not be reached, or failed.
    #[error("the store did not do it: {0}")]
    Unavailable(Arc<dyn Error + Send + Sync>),
}

impl StoreError {
    /// An engine's failure.
    pub(super) fn unavailable(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unavailable(error.into().into())
    }
}

impl From<StoreError> for Status {
    fn from(error: StoreError) -> Self {
        let reason = match &error {
            StoreError::UnknownConversation(_) | StoreError::EndsBefore { .. } => {
                Reason::UnknownConversation
            }
            StoreError::UnknownInteraction(_) => Reason::UnknownInteraction,
            StoreError::Conflict(_) => Reason::InteractionConflict,
            StoreError::MissingPrevious(_) => Reason::MissingPrevious,
            StoreError::LeaseLost(_) => Reason::LeaseLost,
            StoreError::Broken { .. } | StoreError::BrokenRound(_) => Reason::RecordBroken,
            StoreError::Unavailable(_) => Reason::StoreUnavailable,
        };
        Status::of(reason, error.to_string())
    }
}

//! Why inputs do not fit an action.

use thiserror::Error;

use super::fit::MAX_ARGUMENT_ITEMS;
use crate::node::{Elsewhere, NodeError};
use crate::wire::{ChunkError, Code, Reason, Status};

/// Why inputs do not fit an action.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InputError {
    /// No value for a required input.
    #[error("input {0:?} is required")]
    Missing(String),
    /// The action has no such input.
    #[error("there is no input {input:?}; the inputs are: {known}")]
    Undeclared {
        /// The input written.
        input: String,
        /// What there is.
        known: String,
    },
    /// Only the runtime fills that input.
    #[error("input {0:?} is filled by the runtime and cannot be given")]
    Autofilled(String),
    /// The value does not fit.
    #[error("input {input:?}: {fault}")]
    Unfit {
        /// The input.
        input: String,
        /// What does not fit.
        fault: String,
    },
    /// More values than an argument may hold.
    #[error("input {0:?}: a list of more than {MAX_ARGUMENT_ITEMS} values is sent as fragments")]
    TooMany(String),
    /// A fragment's id is one port's name and another port's node.
    #[error("fragment id {0:?} is one input's name and another input's node")]
    Ambiguous(String),
    /// The fragments of an input contradict each other.
    #[error("input {input:?}: {error}")]
    Node {
        /// The input.
        input: String,
        /// How.
        error: NodeError,
    },
    /// A fragment of an input holds what none may.
    #[error("input {input:?}: {error}")]
    Chunk {
        /// The input.
        input: String,
        /// What.
        error: ChunkError,
    },
    /// A fragment says where its value is, instead of having it.
    #[error("input {input:?}: {elsewhere}")]
    Elsewhere {
        /// The input.
        input: String,
        /// Where.
        elsewhere: Elsewhere,
    },
}

impl From<InputError> for Status {
    fn from(error: InputError) -> Self {
        let reason = match &error {
            InputError::TooMany(_) => {
                return Self {
                    code: Code::ResourceExhausted,
                    ..Self::of(Reason::Unspecified, error.to_string())
                };
            }
            InputError::Missing(_) => Reason::MissingInput,
            InputError::Undeclared { .. } => Reason::UndeclaredInput,
            InputError::Autofilled(_) => Reason::AutofilledInput,
            InputError::Unfit { .. } | InputError::Ambiguous(_) => Reason::InvalidInput,
            InputError::Node { error, .. } => Status::from(error.clone()).reason,
            InputError::Chunk { error, .. } => Status::from(error.clone()).reason,
            InputError::Elsewhere { elsewhere, .. } => Status::from(elsewhere.clone()).reason,
        };
        Status::of(reason, error.to_string())
    }
}

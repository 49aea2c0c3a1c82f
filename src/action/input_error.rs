//! Why inputs do not fit an action.

use thiserror::Error;

use crate::node::NodeError;
use crate::wire::{Reason, Status};

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
    /// A fragment refers to a node that is not held here.
    #[error("input {input:?} refers to node {node:?}, which is not held here")]
    UnknownNode {
        /// The input.
        input: String,
        /// The node.
        node: String,
    },
}

impl From<InputError> for Status {
    fn from(error: InputError) -> Self {
        let reason = match &error {
            InputError::Missing(_) => Reason::MissingInput,
            InputError::Undeclared { .. } => Reason::UndeclaredInput,
            InputError::Autofilled(_) => Reason::AutofilledInput,
            InputError::Unfit { .. } | InputError::Ambiguous(_) => Reason::InvalidInput,
            InputError::Node { error, .. } => Status::from(error.clone()).reason,
            InputError::UnknownNode { .. } => Reason::UnknownNode,
        };
        Status::of(reason, error.to_string())
    }
}

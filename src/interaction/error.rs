//! Why an interaction could not be read or written.

use prost::DecodeError;
use thiserror::Error;

use super::problem::Problem;
use crate::wire::{Reason, Status, json_weight::TooManyValues, weight::TooHeavy};

/// Why an interaction could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InteractionError {
    /// The text is not JSON, or nested too deep.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// The bytes are not the protobuf message.
    #[error("not an a11.v1.Interaction: {0}")]
    NotProtobuf(#[from] DecodeError),
    /// The text would take too much memory.
    #[error(transparent)]
    TooManyValues(#[from] TooManyValues),
    /// The message would take too much memory.
    #[error(transparent)]
    TooHeavy(#[from] TooHeavy),
    /// A field has the wrong shape.
    #[error("{field}: {message}")]
    Malformed {
        /// Where, from the top of the document: `content[2].data`.
        field: String,
        /// What is wrong there.
        message: String,
    },
    /// A field has a value that no interaction may have.
    #[error(transparent)]
    Refused(#[from] Problem),
    /// An interaction has no form of that media type.
    #[error("{0:?} is not a media type of an interaction")]
    UnknownMediaType(String),
}

impl InteractionError {
    /// A field that a reader found malformed, and why.
    pub(super) fn malformed(path: &serde_path_to_error::Path, message: String) -> Self {
        let field = match path.to_string() {
            path if path == "." => "interaction".to_owned(),
            path => path,
        };
        Self::Malformed { field, message }
    }

    /// The field at fault: `interaction` where the document is no object, empty
    /// where it could not be read that far.
    pub fn field(&self) -> &str {
        match self {
            Self::Malformed { field, .. } => field,
            Self::Refused(problem) => &problem.field,
            Self::NotJson(_)
            | Self::NotProtobuf(_)
            | Self::TooManyValues(_)
            | Self::TooHeavy(_)
            | Self::UnknownMediaType(_) => "",
        }
    }
}

impl From<InteractionError> for Status {
    fn from(error: InteractionError) -> Self {
        let reason = match &error {
            InteractionError::TooManyValues(error) => return Self::from(*error),
            InteractionError::TooHeavy(error) => return Self::from(*error),
            InteractionError::Refused(problem) => problem.reason(),
            InteractionError::NotJson(_)
            | InteractionError::NotProtobuf(_)
            | InteractionError::Malformed { .. }
            | InteractionError::UnknownMediaType(_) => Reason::InvalidRequest,
        };
        Self::of(reason, error.to_string())
    }
}

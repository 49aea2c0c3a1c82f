//! Why a schema was refused.

use thiserror::Error;

use super::{
    port::PortError,
    schema_builder::{MAX_PORTS, MAX_SCHEMA_TEXT},
};
use crate::wire::NameError;

/// Why a schema was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("action {action:?}: {fault}")]
pub struct SchemaError {
    /// The action's name as given.
    pub action: String,
    /// What is wrong.
    pub fault: SchemaFault,
}

/// What is wrong with a schema.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SchemaFault {
    /// Its name is not a name.
    #[error("{0}")]
    Name(#[from] NameError),
    /// One of its ports is not a port.
    #[error("{0}")]
    Port(#[from] PortError),
    /// Two inputs, or two outputs, of one name.
    #[error("two ports are named {0:?}")]
    DuplicatePort(String),
    /// More ports than a call can have nodes.
    #[error("it has {0} ports; at most {MAX_PORTS} are taken")]
    TooManyPorts(usize),
    /// More text than a list of actions can carry.
    #[error(
        "its names, descriptions and schemas have {0} bytes; at most {MAX_SCHEMA_TEXT} are taken"
    )]
    TooLarge(usize),
    /// An output that the runtime should fill.
    #[error("output {0:?} cannot be autofilled")]
    AutofilledOutput(String),
    /// A header without a name.
    #[error("header {0:?} is not a header name")]
    HeaderName(String),
    /// A mapping of a port that is not an output.
    #[error("output_to_json_field names {0:?}, which is not an output")]
    UnknownOutput(String),
    /// Two outputs on one field.
    #[error("two outputs are mapped to the field {0:?}")]
    DuplicateField(String),
    /// An output mapped to `$` beside others.
    #[error("an output mapped to `$` is the whole result; no other can be mapped beside it")]
    WholeBesideOthers,
    /// A field without a name.
    #[error("output {0:?} is mapped to a field without a name")]
    EmptyField(String),
}

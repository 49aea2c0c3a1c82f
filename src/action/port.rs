//! One port of an action: its name, media type, and the JSON Schema of a value.

use std::sync::Arc;

use thiserror::Error;

use super::value_schema::{MAX_SCHEMA_BYTES, ValueSchema};
use crate::wire::chunk::{JSON, Kind, TEXT};
use crate::wire::{Chunk, Name, NameError};

/// How many values pass through a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cardinality {
    /// Exactly one.
    Unary,
    /// Any number, as they come.
    Stream,
}

/// One port of an action. Made with [`Port::text`], [`Port::json`] or
/// [`Port::of`] and the methods that follow; checked when the schema is built.
#[derive(Debug, Clone)]
pub struct Port {
    pub(super) name: String,
    pub(super) media_type: String,
    pub(super) description: String,
    pub(super) required: bool,
    pub(super) cardinality: Cardinality,
    pub(super) value_schema: Option<Arc<ValueSchema>>,
    pub(super) raw_schema: Option<String>,
    pub(super) autofill: Option<Vec<Chunk>>,
}

impl Port {
    /// An optional unary port of a media type.
    pub fn of(name: impl Into<String>, media_type: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            media_type: media_type.into(),
            description: String::new(),
            required: false,
            cardinality: Cardinality::Unary,
            value_schema: None,
            raw_schema: None,
            autofill: None,
        }
    }

    /// An optional unary port of plain text.
    pub fn text(name: impl Into<String>) -> Self {
        Self::of(name, TEXT).schema(r#"{"type":"string"}"#)
    }

    /// An optional unary port of JSON values of any kind.
    pub fn json(name: impl Into<String>) -> Self {
        Self::of(name, JSON)
    }

    /// Must be given, or is always written.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Carries any number of values.
    #[must_use]
    pub fn stream(mut self) -> Self {
        self.cardinality = Cardinality::Stream;
        self
    }

    /// What the value means.
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// The JSON Schema of one value, as text.
    #[must_use]
    pub fn schema(mut self, json_schema: impl Into<String>) -> Self {
        self.raw_schema = Some(json_schema.into());
        self
    }

    /// Filled by the runtime with these chunks; callers neither see nor write it.
    #[must_use]
    pub fn autofill(mut self, chunks: Vec<Chunk>) -> Self {
        self.autofill = Some(chunks);
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The media type of what passes.
    pub fn media_type(&self) -> &str {
        &self.media_type
    }

    /// How its values look in a JSON document.
    pub fn kind(&self) -> Kind {
        Kind::of(&self.media_type)
    }

    /// What the value means; empty where nothing is said.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Whether it must be given, or is always written.
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// How many values pass.
    pub fn cardinality(&self) -> Cardinality {
        self.cardinality
    }

    /// Whether the runtime fills it.
    pub fn is_autofilled(&self) -> bool {
        self.autofill.is_some()
    }

    /// The schema of one value, where there is one.
    pub fn value_schema(&self) -> Option<&ValueSchema> {
        self.value_schema.as_deref()
    }

    /// How much text it has, in bytes.
    pub(super) fn text_bytes(&self) -> usize {
        let schema = match (&self.raw_schema, &self.value_schema) {
            (Some(raw), _) => raw.len(),
            (None, Some(checked)) => checked.raw().get().len(),
            (None, None) => 0,
        };
        self.name.len() + self.media_type.len() + self.description.len() + schema
    }

    /// Checks everything that was said of the port.
    pub(super) fn check(&mut self) -> Result<(), PortError> {
        let fault = |fault| PortError { port: self.name.clone(), fault };
        Name::new(&self.name).map_err(|error| fault(PortFault::Name(error)))?;
        let media_type = self.media_type.as_str();
        let slash = media_type.split(';').next().and_then(|essence| essence.split_once('/'));
        if media_type.len() > 255
            || !slash.is_some_and(|(kind, subtype)| !kind.is_empty() && !subtype.is_empty())
        {
            return Err(fault(PortFault::MediaType(media_type.chars().take(64).collect())));
        }
        if let Some(raw) = self.raw_schema.take() {
            self.value_schema = Some(Arc::new(ValueSchema::new(&raw).map_err(fault)?));
        }
        Ok(())
    }
}

/// Why a port was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("port {port:?}: {fault}")]
pub struct PortError {
    /// The port's name as given.
    pub port: String,
    /// What is wrong.
    pub fault: PortFault,
}

/// What is wrong with a port.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PortFault {
    /// Its name is not a name.
    #[error("{0}")]
    Name(NameError),
    /// Its media type is not one.
    #[error("{0:?} is not a media type")]
    MediaType(String),
    /// Its schema is not JSON.
    #[error("the schema is not JSON: {0}")]
    SchemaSyntax(String),
    /// Its schema is too long.
    #[error("the schema has {0} bytes; at most {MAX_SCHEMA_BYTES} are taken")]
    SchemaSize(usize),
    /// Its schema is not a valid JSON Schema, or refers to what is elsewhere.
    #[error("not a JSON Schema: {0}")]
    Schema(String),
}

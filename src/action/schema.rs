//! What an action is: name, ports, headers, and how its outputs become one
//! result. A schema that exists is valid.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;

use super::port::{Cardinality, Port};
pub use super::{
    schema_builder::{Builder, MAX_PORTS, MAX_SCHEMA_TEXT},
    schema_error::{SchemaError, SchemaFault},
};
use crate::wire::{Chunk, Name, headers, pb};

/// A valid description of one action. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ActionSchema(pub(super) Arc<Parts>);

#[derive(Debug)]
pub(super) struct Parts {
    pub(super) name: Name,
    pub(super) description: String,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
    pub(super) headers: Vec<HeaderSchema>,
    pub(super) output_to_json_field: BTreeMap<String, String>,
    pub(super) idempotent: bool,
    pub(super) text_bytes: usize,
}

/// One header that an action reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderSchema {
    /// The name, lower case.
    pub name: String,
    /// What it means; empty where nothing is said.
    pub description: String,
    /// The value when the caller sends none.
    pub default: Option<Bytes>,
}

/// Where an output port's values go in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field<'a> {
    /// Under this name in the result document.
    Named(&'a str),
    /// They are the whole result.
    Whole,
    /// Nowhere.
    Dropped,
}

/// The fragment id of a port that is the whole result.
pub const WHOLE_RESULT_ID: &str = "_";
/// What a port is mapped to, to be the whole result.
pub(super) const WHOLE: &str = "$";

impl ActionSchema {
    /// Begins a schema; [`Builder::build`] checks it.
    pub fn builder(name: impl Into<String>) -> Builder {
        Builder { name: name.into(), ..Builder::default() }
    }

    /// The action's name.
    pub fn name(&self) -> &Name {
        &self.0.name
    }

    /// What it does; empty where nothing is said.
    pub fn description(&self) -> &str {
        &self.0.description
    }

    /// What it takes.
    pub fn inputs(&self) -> &[Port] {
        &self.0.inputs
    }

    /// What it gives.
    pub fn outputs(&self) -> &[Port] {
        &self.0.outputs
    }

    /// The headers it reads.
    pub fn headers(&self) -> &[HeaderSchema] {
        &self.0.headers
    }

    /// Output port → field, as declared; empty where every port stands under
    /// its own name.
    pub fn output_to_json_field(&self) -> &BTreeMap<String, String> {
        &self.0.output_to_json_field
    }

    /// How much text it has, in bytes: see [`MAX_SCHEMA_TEXT`].
    pub fn text_bytes(&self) -> usize {
        self.0.text_bytes
    }

    /// Whether running a call twice does no harm.
    pub fn is_idempotent(&self) -> bool {
        self.0.idempotent
    }

    /// Where an output port's values go.
    pub fn field_of<'a>(&'a self, port: &'a Port) -> Field<'a> {
        if self.0.output_to_json_field.is_empty() {
            return Field::Named(port.name());
        }
        match self.0.output_to_json_field.get(port.name()) {
            Some(field) if field == WHOLE => Field::Whole,
            Some(field) => Field::Named(field),
            None => Field::Dropped,
        }
    }

    /// Whether a header reaches the action.
    pub fn takes_header(&self, name: &str) -> bool {
        let declared = |header: &HeaderSchema| header.name == name && !headers::is_held_back(name);
        headers::flows(name) || self.0.headers.iter().any(declared)
    }

    /// The schema as a message. Inputs that only the runtime fills are left out
    /// unless `ports` says otherwise.
    pub fn to_message(&self, runnable: Runnable, ports: Ports) -> pb::ActionSchema {
        let port = |port: &Port| pb::PortSchema {
            name: port.name.clone(),
            media_type: port.media_type.clone(),
            description: port.description.clone(),
            required: port.required,
            unary: port.cardinality == Cardinality::Unary,
            json_schema: port.value_schema().map_or(String::new(), |s| s.raw().get().to_owned()),
            autofilled: port.is_autofilled(),
        };
        pb::ActionSchema {
            name: self.name().to_string(),
            description: self.0.description.clone(),
            inputs: self.0.inputs.iter().filter(|p| ports.shows(p)).map(port).collect(),
            outputs: self.0.outputs.iter().map(port).collect(),
            headers: self
                .0
                .headers
                .iter()
                .map(|header| pb::HeaderSchema {
                    name: header.name.clone(),
                    description: header.description.clone(),
                    default_value: header.default.clone(),
                })
                .collect(),
            output_to_json_field: self.0.output_to_json_field.clone(),
            idempotent: self.0.idempotent,
            runnable: runnable == Runnable::Yes,
        }
    }
}

/// Whether there is a handler for an action here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runnable {
    /// There is.
    Yes,
    /// It is only declared.
    No,
}

/// Which inputs a description shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ports {
    /// Those a caller can write.
    Callable,
    /// Those that only the runtime fills, too.
    All,
}

impl Ports {
    /// Whether the port is shown.
    pub fn shows(self, port: &Port) -> bool {
        self == Self::All || !port.is_autofilled()
    }
}

impl TryFrom<pb::ActionSchema> for ActionSchema {
    type Error = SchemaError;

    /// Takes a schema that another program published. What is autofilled there
    /// is filled there: such a port is no port of the action here.
    fn try_from(message: pb::ActionSchema) -> Result<Self, SchemaError> {
        let pb::ActionSchema {
            name,
            description,
            inputs,
            outputs,
            headers,
            output_to_json_field,
            idempotent,
            runnable: _,
        } = message;
        let port = |message: pb::PortSchema| {
            let pb::PortSchema {
                name,
                media_type,
                description,
                required,
                unary,
                json_schema,
                autofilled: _,
            } = message;
            Port {
                required,
                cardinality: if unary { Cardinality::Unary } else { Cardinality::Stream },
                raw_schema: Some(json_schema).filter(|schema| !schema.is_empty()),
                ..Port::of(name, media_type).describe(description)
            }
        };
        let headers = headers.into_iter().map(|message| {
            let pb::HeaderSchema { name, description, default_value } = message;
            HeaderSchema { name: name.to_ascii_lowercase(), description, default: default_value }
        });
        Builder {
            name,
            description,
            inputs: inputs.into_iter().filter(|port| !port.autofilled).map(port).collect(),
            outputs: outputs.into_iter().map(port).collect(),
            headers: headers.collect(),
            output_to_json_field,
            idempotent,
        }
        .build()
    }
}

/// The chunks that the runtime fills a port with.
pub(super) fn autofill_of(port: &Port) -> Option<&[Chunk]> {
    port.autofill.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_survives_its_message() {
        let schema = ActionSchema::builder("counted")
            .describe("Counts.")
            .input(Port::text("text").required().describe("What."))
            .input(Port::text("parts").stream())
            .output(Port::json("total").schema(r#"{"type":"integer"}"#))
            .header("X-Tenant", "who", Some(Bytes::from_static(b"t")))
            .map("total", "$")
            .idempotent()
            .build()
            .expect("valid");
        let message = schema.to_message(Runnable::Yes, Ports::All);
        let again = ActionSchema::try_from(message.clone()).expect("valid");
        assert_eq!(again.to_message(Runnable::Yes, Ports::All), message);
    }
}

//! What an action is: name, ports, headers, and how its outputs become one
//! result. A schema that exists is valid.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use thiserror::Error;

use super::port::{Cardinality, Port, PortError};
use crate::wire::{Chunk, Name, NameError, headers, pb};

/// A valid description of one action. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ActionSchema(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    name: Name,
    description: String,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    headers: Vec<HeaderSchema>,
    output_to_json_field: BTreeMap<String, String>,
    idempotent: bool,
    text_bytes: usize,
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
const WHOLE: &str = "$";

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
        headers::flows(name) || self.0.headers.iter().any(|header| header.name == name)
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

/// The most ports of an action, inputs and outputs together: the nodes that a
/// call can have.
pub const MAX_PORTS: usize = 256;

/// The most text of a schema, in bytes: names, descriptions, JSON Schemas and
/// headers together.
pub const MAX_SCHEMA_TEXT: usize = 1024 * 1024;

/// A schema in the making.
#[derive(Debug, Clone, Default)]
pub struct Builder {
    name: String,
    description: String,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    headers: Vec<HeaderSchema>,
    output_to_json_field: BTreeMap<String, String>,
    idempotent: bool,
}

impl Builder {
    /// What the action does, for a model as much as for people.
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Adds an input.
    #[must_use]
    pub fn input(mut self, port: Port) -> Self {
        self.inputs.push(port);
        self
    }

    /// Adds an output.
    #[must_use]
    pub fn output(mut self, port: Port) -> Self {
        self.outputs.push(port);
        self
    }

    /// Adds a header that the action reads.
    #[must_use]
    pub fn header(mut self, name: &str, description: &str, default: Option<Bytes>) -> Self {
        let name = name.to_ascii_lowercase();
        self.headers.push(HeaderSchema { name, description: description.to_owned(), default });
        self
    }

    /// Puts an output under another field of the result; outputs that are not
    /// named in any call of this are dropped then. `$`: it is the whole result.
    #[must_use]
    pub fn map(mut self, output: impl Into<String>, field: impl Into<String>) -> Self {
        self.output_to_json_field.insert(output.into(), field.into());
        self
    }

    /// Running a call twice does no harm: one that a crash cut off is run again.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Checks everything.
    ///
    /// # Errors
    /// [`SchemaError`] names the action and what is wrong with it.
    pub fn build(mut self) -> Result<ActionSchema, SchemaError> {
        match self.check() {
            Ok(name) => Ok(ActionSchema(Arc::new(Parts {
                name,
                text_bytes: self.text_bytes(),
                description: self.description,
                inputs: self.inputs,
                outputs: self.outputs,
                headers: self.headers,
                output_to_json_field: self.output_to_json_field,
                idempotent: self.idempotent,
            }))),
            Err(fault) => Err(SchemaError { action: self.name.chars().take(255).collect(), fault }),
        }
    }

    fn check(&mut self) -> Result<Name, SchemaFault> {
        let name = Name::new(&self.name)?;
        let ports = self.inputs.len() + self.outputs.len();
        if ports > MAX_PORTS {
            return Err(SchemaFault::TooManyPorts(ports));
        }
        let text = self.text_bytes();
        if text > MAX_SCHEMA_TEXT {
            return Err(SchemaFault::TooLarge(text));
        }
        for ports in [&mut self.inputs, &mut self.outputs] {
            for port in ports.iter_mut() {
                port.check()?;
            }
            let mut names: Vec<&str> = ports.iter().map(Port::name).collect();
            names.sort_unstable();
            if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(SchemaFault::DuplicatePort(twice[0].to_owned()));
            }
        }
        if let Some(port) = self.outputs.iter().find(|port| port.is_autofilled()) {
            return Err(SchemaFault::AutofilledOutput(port.name.clone()));
        }
        let bad_header = |header: &&HeaderSchema| {
            header.name.is_empty() || http::HeaderName::from_bytes(header.name.as_bytes()).is_err()
        };
        if let Some(header) = self.headers.iter().find(bad_header) {
            return Err(SchemaFault::HeaderName(header.name.clone()));
        }
        self.check_fields()?;
        Ok(name)
    }

    fn text_bytes(&self) -> usize {
        let ports = self.inputs.iter().chain(&self.outputs).map(Port::text_bytes);
        let headers = self.headers.iter().map(|header| {
            header.name.len()
                + header.description.len()
                + header.default.as_ref().map_or(0, Bytes::len)
        });
        let fields = self.output_to_json_field.iter().map(|(port, field)| port.len() + field.len());
        self.description.len() + ports.chain(headers).chain(fields).sum::<usize>()
    }

    fn check_fields(&self) -> Result<(), SchemaFault> {
        let mut fields = BTreeMap::new();
        for (output, field) in &self.output_to_json_field {
            if !self.outputs.iter().any(|port| port.name == *output) {
                return Err(SchemaFault::UnknownOutput(output.clone()));
            }
            if field.is_empty() {
                return Err(SchemaFault::EmptyField(output.clone()));
            }
            if fields.insert(field, output).is_some() {
                return Err(SchemaFault::DuplicateField(field.clone()));
            }
        }
        if fields.len() > 1 && fields.contains_key(&WHOLE.to_owned()) {
            return Err(SchemaFault::WholeBesideOthers);
        }
        Ok(())
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
    use crate::action::value_schema::MAX_SCHEMA_BYTES;

    #[test]
    fn a_broken_schema_is_refused_with_the_action_and_the_fault() {
        let check = |builder: Builder, expected: &str| {
            let error = builder.build().expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        };
        let action = || ActionSchema::builder("a");
        check(ActionSchema::builder("a b"), "action \"a b\"");
        check(action().input(Port::text("x")).input(Port::text("x")), "two ports are named \"x\"");
        check(action().input(Port::of("x", "text")), "not a media type");
        check(action().input(Port::json("x").schema("{")), "port \"x\": the schema is not JSON");
        check(action().input(Port::json("x").schema(r#"{"type":"nope"}"#)), "not a JSON Schema");
        check(
            action().input(Port::json("x").schema(r#"{"$ref":"http://example.com/s"}"#)),
            "not a JSON Schema",
        );
        check(action().output(Port::text("o")).map("p", "x"), "\"p\", which is not an output");
        let two = || action().output(Port::text("o")).output(Port::text("p"));
        check(two().map("o", "f").map("p", "f"), "two outputs are mapped to the field \"f\"");
        check(two().map("o", "$").map("p", "f"), "whole result");
        check(action().header("a b", "", None), "not a header name");
        let many = (0..=MAX_PORTS).fold(action(), |a, i| a.input(Port::text(format!("p{i}"))));
        check(many, "257 ports");
        check(action().describe("x".repeat(MAX_SCHEMA_TEXT + 1)), "1048577 bytes");
        let long = format!(r#"{{"description":"{}"}}"#, "x".repeat(MAX_SCHEMA_BYTES));
        check(action().input(Port::json("x").schema(long)), "port \"x\": the schema has");
        let doubling = (0..40).map(|level| {
            let next = format!(r##"{{"$ref":"#/$defs/a{}"}}"##, level + 1);
            format!(r#""a{level}":{{"anyOf":[{next},{next}]}},"#)
        });
        let doubling: String = doubling.collect();
        let doubling =
            format!(r##"{{"$ref":"#/$defs/a0","$defs":{{{doubling}"a40":{{"type":"string"}}}}}}"##);
        check(action().input(Port::json("x").schema(doubling)), "too many checks");
    }

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

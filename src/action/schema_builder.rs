//! A schema in the making, and the check of it.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;

use super::{
    port::Port,
    schema::{ActionSchema, HeaderSchema, Parts, WHOLE},
    schema_error::{SchemaError, SchemaFault},
};
use crate::wire::Name;

/// The most ports of an action, inputs and outputs together: the nodes that a
/// call can have.
pub const MAX_PORTS: usize = 256;

/// The most text of a schema, in bytes: names, descriptions, JSON Schemas and
/// headers together.
pub const MAX_SCHEMA_TEXT: usize = 1024 * 1024;

/// A schema in the making.
#[derive(Debug, Clone, Default)]
pub struct Builder {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
    pub(super) headers: Vec<HeaderSchema>,
    pub(super) output_to_json_field: BTreeMap<String, String>,
    pub(super) idempotent: bool,
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
}

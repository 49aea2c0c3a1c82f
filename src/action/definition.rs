//! What a model is told of an action: its tool name, what it does, and the JSON
//! Schemas of its arguments and of its result, each whole in itself.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{
    port::{Cardinality, Port},
    schema::{ActionSchema, Field, Ports},
    tool_name::tool_name,
};
use crate::wire::chunk::Kind;

/// An action as a tool, whoever is told of it: each host and provider has these
/// three under keys of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition<'a> {
    /// Its [tool name](tool_name), which is its own where that fits.
    pub name: Cow<'a, str>,
    /// What it does; `None` where it does not say.
    pub description: Option<&'a str>,
    /// The [schema of its arguments](input_schema), an object.
    pub input_schema: Map<String, Value>,
}

impl<'a> Definition<'a> {
    /// What a model is told of an action.
    pub fn of(schema: &'a ActionSchema) -> Self {
        Self {
            name: tool_name(schema.name().as_str()),
            description: Some(schema.description()).filter(|text| !text.is_empty()),
            input_schema: arguments_of(schema),
        }
    }
}

/// The schema of the arguments: one property an input port, streams as arrays,
/// inputs that only the runtime fills left out.
pub fn input_schema(schema: &ActionSchema) -> Value {
    arguments_of(schema).into()
}

fn arguments_of(schema: &ActionSchema) -> Map<String, Value> {
    let mut root = Root::default();
    let mut required = vec![];
    for port in schema.inputs().iter().filter(|port| Ports::Callable.shows(port)) {
        let fallback = match port.kind() {
            Kind::Text => json!({"type": "string"}),
            Kind::Json => json!({"type": "object"}),
            Kind::Image | Kind::Audio | Kind::Bytes => json!({
                "type": "string",
                "contentEncoding": "base64",
                "contentMediaType": port.media_type(),
            }),
        };
        let mut property = root.property(port, fallback);
        if port.is_required() {
            required.push(Value::from(port.name()));
            if port.cardinality() == Cardinality::Stream {
                property["minItems"] = json!(1);
            }
        }
        root.properties.insert(port.name().to_owned(), property);
    }
    let mut object = root.into_object();
    if !required.is_empty() {
        object.insert("required".into(), required.into());
    }
    object
}

/// The schema of the result document: one property a mapped output port, or the
/// schema of the port that is the whole result; `{}` without outputs.
pub fn output_schema(schema: &ActionSchema) -> Value {
    output_schema_of(schema, |_| true)
}

/// The same of the output ports that `shows` lets pass.
pub fn output_schema_of(schema: &ActionSchema, shows: impl Fn(&Port) -> bool) -> Value {
    let mut root = Root::default();
    for port in schema.outputs().iter().filter(|port| shows(port)) {
        let fallback = match port.kind() {
            Kind::Text => json!({"type": "string"}),
            Kind::Json | Kind::Image | Kind::Audio | Kind::Bytes => json!({}),
        };
        match schema.field_of(port) {
            Field::Dropped => {}
            Field::Named(field) => {
                let property = root.property(port, fallback);
                root.properties.insert(field.to_owned(), property);
            }
            Field::Whole => {
                let mut whole = root.property(port, fallback);
                if let (Value::Object(whole), false) = (&mut whole, root.definitions.is_empty()) {
                    whole.insert("$defs".into(), root.definitions.into());
                }
                return whole;
            }
        }
    }
    if root.properties.is_empty() { json!({}) } else { root.into_object().into() }
}

/// An object schema in the making, with the definitions of its properties.
#[derive(Default)]
struct Root {
    properties: Map<String, Value>,
    definitions: Map<String, Value>,
}

impl Root {
    /// The schema of what a port carries, all of it.
    fn property(&mut self, port: &Port, fallback: Value) -> Value {
        let value = match port.value_schema() {
            Some(schema) => {
                let schema = serde_json::from_str(schema.raw().get()).unwrap_or(fallback);
                self.embed(port.name(), schema)
            }
            None => fallback,
        };
        let mut property = match port.cardinality() {
            Cardinality::Unary => value,
            Cardinality::Stream => json!({"type": "array", "items": value}),
        };
        if let (Value::Object(property), false) = (&mut property, port.description().is_empty()) {
            property.insert("description".into(), port.description().into());
        }
        property
    }

    /// Moves a schema of its own under a property: its definitions go to the
    /// root, and references follow them there.
    fn embed(&mut self, port: &str, mut schema: Value) -> Value {
        let Value::Object(object) = &mut schema else { return schema };
        object.remove("$schema");
        let mut moved = Map::new();
        for key in ["$defs", "definitions"] {
            if let Some(Value::Object(definitions)) = object.remove(key) {
                moved.extend(definitions);
            }
        }
        let mut whole_is_meant = false;
        for definition in moved.values_mut() {
            redirect(definition, port, &mut whole_is_meant);
        }
        redirect(&mut schema, port, &mut whole_is_meant);
        for (name, definition) in moved {
            self.definitions.insert(format!("{port}_{name}"), definition);
        }
        if whole_is_meant {
            self.definitions.insert(port.to_owned(), schema);
            return json!({"$ref": format!("#/$defs/{port}")});
        }
        schema
    }

    fn into_object(self) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("type".into(), "object".into());
        object.insert("properties".into(), self.properties.into());
        if !self.definitions.is_empty() {
            object.insert("$defs".into(), self.definitions.into());
        }
        object
    }
}

/// Points the references of a schema to where [`Root::embed`] puts what they
/// mean: `#/$defs/X` to `#/$defs/PORT_X`, `#…` to `#/$defs/PORT…`.
fn redirect(schema: &mut Value, port: &str, whole_is_meant: &mut bool) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object {
                match value {
                    Value::String(target) if key == "$ref" && target.starts_with('#') => {
                        let definition = target
                            .strip_prefix("#/$defs/")
                            .or_else(|| target.strip_prefix("#/definitions/"));
                        *target = match definition {
                            Some(name) => format!("#/$defs/{port}_{name}"),
                            None => {
                                *whole_is_meant = true;
                                format!("#/$defs/{port}{}", &target[1..])
                            }
                        };
                    }
                    value => redirect(value, port, whole_is_meant),
                }
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| redirect(item, port, whole_is_meant));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_move_to_the_root_and_references_follow() {
        let list = r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"next":{"$ref":"#"},"of":{"$ref":"#/$defs/Of"}},"$defs":{"Of":{"type":"string"}}}"##;
        let action = ActionSchema::builder("a")
            .input(Port::json("list").schema(list).required())
            .build()
            .expect("valid");
        let schema = input_schema(&action);
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "properties": {"list": {"$ref": "#/$defs/list"}},
                "$defs": {
                    "list_Of": {"type": "string"},
                    "list": {"type": "object", "properties": {
                        "next": {"$ref": "#/$defs/list"},
                        "of": {"$ref": "#/$defs/list_Of"},
                    }},
                },
                "required": ["list"],
            })
        );
        let validator = jsonschema::validator_for(&schema).expect("resolves");
        assert!(validator.is_valid(&json!({"list": {"next": {"of": "x"}}})));
        assert!(!validator.is_valid(&json!({"list": {"next": {"of": 1}}})));
    }
}

//! The ports of a function's argument or result, from what schemars says of its type.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

use super::{
    super::port::{Cardinality, Port},
    streams::STREAM_MARK,
};

/// The output of a result that is no struct.
pub(super) const RESULT: &str = "result";

/// The ports of a type.
#[derive(Clone)]
pub(super) enum Fields {
    /// Nothing passes: `()`.
    None,
    /// A struct: one port a field.
    Named(Vec<Port>),
    /// Anything else: one port for all of it.
    Whole(Box<Port>),
}

impl Fields {
    pub(super) fn into_ports(self) -> Vec<Port> {
        match self {
            Self::None => vec![],
            Self::Named(ports) => ports,
            Self::Whole(port) => vec![*port],
        }
    }
}

pub(super) fn fields_of<T: JsonSchema>() -> Fields {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    let Value::Object(object) = &mut schema else {
        return Fields::Whole(Box::new(Port::json(RESULT)));
    };
    for key in ["$schema", "title"] {
        object.remove(key);
    }
    if object.get("type").is_some_and(|kind| kind == "null") {
        return Fields::None;
    }
    let definitions = object.remove("$defs");
    let Some(Value::Object(properties)) = object.remove("properties") else {
        return Fields::Whole(Box::new(port(RESULT, schema, definitions.as_ref()).required()));
    };
    let required: Vec<Value> = match object.remove("required") {
        Some(Value::Array(required)) => required,
        _ => vec![],
    };
    let ports = properties.into_iter().map(|(name, property)| {
        let is_required = required.iter().any(|required| *required == name);
        let port = port(&name, property, definitions.as_ref());
        // A stream that is not given is a stream of nothing.
        let may_be_absent = !is_required || port.cardinality() == Cardinality::Stream;
        if may_be_absent { port } else { port.required() }
    });
    Fields::Named(ports.collect())
}

/// The port of one field, from the field's schema.
fn port(name: &str, mut schema: Value, definitions: Option<&Value>) -> Port {
    let mut description = None;
    let mut stream = false;
    if let Value::Object(object) = &mut schema {
        description = object.remove("description");
        stream = object.remove(STREAM_MARK).is_some();
        if stream {
            schema = object.remove("items").unwrap_or_else(|| Value::Bool(true));
        }
    }
    strip_null(&mut schema);
    let is_text = schema.get("type").is_some_and(|kind| kind == "string");
    if let (Value::Object(object), Some(definitions)) = (&mut schema, definitions) {
        object.insert("$defs".into(), definitions.clone());
    }
    let port = if is_text { Port::text(name) } else { Port::json(name) };
    let port = port.schema(schema.to_string());
    let port = match description {
        Some(Value::String(text)) => port.describe(text),
        _ => port,
    };
    if stream { port.stream() } else { port }
}

/// An optional field is a port that may be left out; it need not take null, too.
fn strip_null(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    if let Some(Value::Array(kinds)) = object.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            object.remove("anyOf");
            object.extend(only);
        }
    }
}

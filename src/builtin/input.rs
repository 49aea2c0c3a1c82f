//! One input of a command action: the port that its declaration makes.

use serde_json::{Value, json};
use thiserror::Error;

use super::declaration::InputDeclaration;
use crate::action::Port;
use crate::wire::chunk::{JSON, Kind, TEXT};

/// What a call needs to know of an input.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) default: Option<Value>,
}

/// What is wrong with an input.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InputFault {
    /// Two ways to say the same.
    #[error("`schema` says all that `type`, `enum` and `items` could")]
    SchemaTwice,
    /// A media type beside a schema.
    #[error("`media_type` is for what is neither text nor JSON, which has no schema")]
    SchemaOfBytes,
    /// A default that can never matter.
    #[error("it has a default, so it is not required")]
    RequiredWithDefault,
    /// A default that does not fit.
    #[error("the default does not fit: {0}")]
    Default(String),
    /// A type that JSON Schema has not.
    #[error("type {0:?} is none; there are {types}", types = TYPES.join(", "))]
    Type(String),
    /// The schema is not one.
    #[error("not a JSON Schema: {0}")]
    Schema(String),
}

/// The types of JSON Schema.
const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "array", "object", "null"];

impl Input {
    /// The port that a declaration makes, and what a call needs to know of it.
    pub(super) fn declared(
        name: &str,
        declared: InputDeclaration,
    ) -> Result<(Port, Self), InputFault> {
        let InputDeclaration {
            kind,
            choices,
            items,
            schema,
            media_type,
            description,
            required,
            stream,
            default,
        } = declared;
        if required && default.is_some() {
            return Err(InputFault::RequiredWithDefault);
        }
        if let Some(kind) = kind.as_deref().filter(|kind| !TYPES.contains(kind)) {
            return Err(InputFault::Type(kind.to_owned()));
        }
        let says_parts = kind.is_some() || choices.is_some() || items.is_some();
        let says_schema = schema.is_some();
        let mut schema = match schema {
            Some(_) if says_parts => return Err(InputFault::SchemaTwice),
            Some(schema) => schema,
            None => {
                let mut schema = json!({ "type": kind.as_deref().unwrap_or("string") });
                if let Some(choices) = choices {
                    schema["enum"] = choices.into();
                }
                if let Some(items) = items {
                    schema["items"] = items;
                }
                schema
            }
        };
        let mut port = match media_type {
            Some(media_type) if Kind::of(&media_type) != Kind::Json => {
                if says_parts || says_schema {
                    return Err(InputFault::SchemaOfBytes);
                }
                if default.as_ref().is_some_and(|default| !default.is_string())
                    || default.is_some() && Kind::of(&media_type) != Kind::Text
                {
                    return Err(InputFault::Default("it is no text".to_owned()));
                }
                Port::of(name, media_type)
            }
            media_type => {
                check_default(&schema, default.as_ref(), stream)?;
                if let (false, Some(default), Some(schema)) =
                    (stream, &default, schema.as_object_mut())
                {
                    schema.insert("default".to_owned(), default.clone());
                }
                let is_text = schema.get("type").is_some_and(|kind| kind == "string");
                let plain = if is_text { TEXT } else { JSON };
                let media_type = media_type.unwrap_or_else(|| plain.to_owned());
                Port::of(name, media_type).schema(schema.to_string())
            }
        };
        port = port.describe(description);
        if required {
            port = port.required();
        }
        if stream {
            port = port.stream();
        }
        let input = Input { name: name.to_owned(), kind: port.kind(), default };
        Ok((port, input))
    }
}

/// A default is a value of the schema; that of a stream, a list of them.
fn check_default(schema: &Value, default: Option<&Value>, stream: bool) -> Result<(), InputFault> {
    let validator =
        jsonschema::validator_for(schema).map_err(|error| InputFault::Schema(error.to_string()))?;
    let values = match default {
        None => vec![],
        Some(Value::Array(values)) if stream => values.iter().collect(),
        Some(_) if stream => return Err(InputFault::Default("a stream's is a list".to_owned())),
        Some(value) => vec![value],
    };
    for value in values {
        validator.validate(value).map_err(|error| InputFault::Default(error.to_string()))?;
    }
    Ok(())
}

//! The JSON Schema of a port's values: compiled once, asked often.

use std::fmt;

use serde_json::value::RawValue;

use super::{
    port::PortFault,
    schema_steps::{BoundedValidator, TooManySteps},
};
use crate::wire::json_weight;

/// The longest schema of a port, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// What is said where checking is given up.
const TOO_COMPLEX: &str = "it leads to too many checks";

/// A JSON Schema that compiled.
pub struct ValueSchema {
    raw: Box<RawValue>,
    validator: Option<BoundedValidator>,
    accepts_strings: bool,
    accepts_null: bool,
}

impl ValueSchema {
    pub(super) fn new(text: &str) -> Result<Self, PortFault> {
        if text.len() > MAX_SCHEMA_BYTES {
            return Err(PortFault::SchemaSize(text.len()));
        }
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|e| PortFault::SchemaSyntax(e.to_string()))?;
        let raw = RawValue::from_string(text.to_owned())
            .map_err(|e| PortFault::SchemaSyntax(e.to_string()))?;
        let only_type = value.as_object().filter(|object| object.len() == 1);
        if only_type.and_then(|object| object.get("type")).is_some_and(|kind| kind == "string") {
            // By far the most common; any text fits, so nothing is ever checked.
            return Ok(Self { raw, validator: None, accepts_strings: true, accepts_null: false });
        }
        let validator = BoundedValidator::new(value.clone()).map_err(PortFault::Schema)?;
        let too_complex = |TooManySteps| PortFault::Schema(TOO_COMPLEX.to_owned());
        let accepts_strings = accepts_some_string(&value, &validator).map_err(too_complex)?;
        let accepts_null = validator.is_valid(&serde_json::Value::Null, 0).map_err(too_complex)?;
        Ok(Self { raw, validator: Some(validator), accepts_strings, accepts_null })
    }

    /// The schema as it was written.
    pub fn raw(&self) -> &RawValue {
        &self.raw
    }

    /// Whether some string may be a value.
    pub(super) fn accepts_strings(&self) -> bool {
        self.accepts_strings
    }

    /// Whether null may be a value.
    pub(super) fn accepts_null(&self) -> bool {
        self.accepts_null
    }

    /// What of the JSON text does not fit; `None` where it does.
    pub(super) fn fault_of_json(&self, json: &[u8]) -> Option<String> {
        let parsed: Result<serde_json::Value, _> = json_weight::read(json);
        match parsed {
            Err(error) => Some(format!("not JSON: {error}")),
            Ok(value) => self.fault_of(&value, json.len()),
        }
    }

    /// What of the text does not fit; `None` where it does.
    pub(super) fn fault_of_text(&self, text: &str) -> Option<String> {
        self.validator.as_ref()?;
        self.fault_of(&serde_json::Value::String(text.to_owned()), text.len())
    }

    fn fault_of(&self, value: &serde_json::Value, bytes: usize) -> Option<String> {
        match &self.validator {
            None if value.is_string() => None,
            None => Some(format!("{value} is not of type \"string\"")),
            Some(validator) => match validator.fault_of(value, bytes) {
                Ok(fault) => fault,
                Err(TooManySteps) => Some(TOO_COMPLEX.to_owned()),
            },
        }
    }
}

/// A validator can only be asked of one string at a time, so the declared types
/// decide; where none are declared, a few strings are tried.
fn accepts_some_string(
    schema: &serde_json::Value,
    validator: &BoundedValidator,
) -> Result<bool, TooManySteps> {
    use serde_json::Value;
    let named = |kind: &Value| match kind {
        Value::String(kind) => Some(kind == "string"),
        Value::Array(kinds) => Some(kinds.iter().any(|kind| kind == "string")),
        _ => None,
    };
    if let Some(answer) = schema.get("type").and_then(named) {
        return Ok(answer);
    }
    let choices = ["enum", "anyOf", "oneOf"].iter().find_map(|key| schema.get(*key)?.as_array());
    if let Some(choices) = choices {
        return Ok(choices.iter().any(|choice| {
            choice.is_string() || choice.get("type").and_then(named).unwrap_or(false)
        }));
    }
    for text in ["", "a", "0"] {
        if validator.is_valid(&Value::from(text), text.len())? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl fmt::Debug for ValueSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.raw.get())
    }
}

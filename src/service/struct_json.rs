//! JSON that travels as protobuf's own `Struct` and `Value`, for people with
//! grpcurl. Numbers are doubles there.

use pbjson_types::{ListValue, Struct, Value, value::Kind};
use serde_json::Map;
use thiserror::Error;

use crate::wire::json_weight;

/// A number that JSON has no form for.
#[derive(Debug, PartialEq, Error)]
#[error("{0} is not a JSON number")]
pub(super) struct NotANumber(f64);

/// A message as JSON. Whole numbers are written without a fraction, as every
/// integer schema wants them.
pub(super) fn json_of_struct(object: Struct) -> Result<Map<String, serde_json::Value>, NotANumber> {
    let fields = object.fields.into_iter();
    fields.map(|(name, value)| Ok((name, json_of_value(value)?))).collect()
}

fn json_of_value(value: Value) -> Result<serde_json::Value, NotANumber> {
    /// Up to here every whole number has its own double.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    Ok(match value.kind {
        None | Some(Kind::NullValue(_)) => serde_json::Value::Null,
        Some(Kind::BoolValue(value)) => value.into(),
        Some(Kind::StringValue(value)) => value.into(),
        Some(Kind::NumberValue(number)) if !number.is_finite() => return Err(NotANumber(number)),
        Some(Kind::NumberValue(number)) if number.fract() == 0.0 && number.abs() <= EXACT => {
            (number as i64).into()
        }
        Some(Kind::NumberValue(number)) => number.into(),
        Some(Kind::ListValue(list)) => {
            list.values.into_iter().map(json_of_value).collect::<Result<_, _>>()?
        }
        Some(Kind::StructValue(object)) => json_of_struct(object)?.into(),
    })
}

/// How deep a document may be nested to be a message. Each level takes three of
/// the hundred that protobuf readers allow.
const MAX_DEPTH: usize = 30;

/// A result document as a message, for people to read. One that is nested deeper
/// than a message can be, or would take too much memory as one, is its own text.
pub(super) fn message_of_json(text: String) -> Value {
    match json_weight::read(text.as_bytes()) {
        Ok(value) if depth(&value) <= MAX_DEPTH => value_of_json(value),
        _ => text_value(text),
    }
}

/// A text as a message.
pub(super) fn text_value(text: String) -> Value {
    Value { kind: Some(Kind::StringValue(text)) }
}

/// How deep a value is nested; a parsed one is never very deep.
fn depth(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Array(values) => 1 + values.iter().map(depth).max().unwrap_or(0),
        serde_json::Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn value_of_json(value: serde_json::Value) -> Value {
    let kind = match value {
        serde_json::Value::Null => Kind::NullValue(0),
        serde_json::Value::Bool(value) => Kind::BoolValue(value),
        serde_json::Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        serde_json::Value::String(text) => Kind::StringValue(text),
        serde_json::Value::Array(values) => {
            Kind::ListValue(ListValue { values: values.into_iter().map(value_of_json).collect() })
        }
        serde_json::Value::Object(object) => Kind::StructValue(Struct {
            fields: object.into_iter().map(|(name, value)| (name, value_of_json(value))).collect(),
        }),
    };
    Value { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_kind_and_nonsense_is_refused() {
        let check = |number: f64, expected: Result<&str, NotANumber>| {
            let value = Value { kind: Some(Kind::NumberValue(number)) };
            let json = json_of_value(value).map(|value| value.to_string());
            assert_eq!(
                json.as_deref().map_err(|error| error.to_string()),
                expected.map_err(|e| e.to_string())
            );
        };
        check(5.0, Ok("5"));
        check(-0.5, Ok("-0.5"));
        check(1e300, Ok("1e+300"));
        check(f64::NAN, Err(NotANumber(f64::NAN)));
        check(f64::INFINITY, Err(NotANumber(f64::INFINITY)));
    }
}

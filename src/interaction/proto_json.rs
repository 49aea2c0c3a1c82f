//! The proto3 JSON of an interaction: the generated form, for tools that speak
//! protobuf. lowerCamelCase names, enums by name, 64-bit integers as strings.

use serde_json::Value;

use super::{canonical, error::InteractionError};
use crate::wire::{json_weight, pb::Interaction};

/// The fields whose value is a map: a key there is data, not a field's name.
const MAP_FIELDS: [&str; 14] = [
    "actionConfigs",
    "action_configs",
    "actionInputs",
    "action_inputs",
    "actionOutputs",
    "action_outputs",
    "attributes",
    "backendSpecificMetadata",
    "backend_specific_metadata",
    "headerAutofills",
    "header_autofills",
    "headers",
    "outputToJsonField",
    "output_to_json_field",
];

/// Writes an interaction's canonical form on one line.
///
/// # Errors
/// [`InteractionError::Refused`] for what could not be read back.
pub fn to_json(interaction: &Interaction) -> Result<String, InteractionError> {
    let interaction = canonical::checked(interaction)?;
    serde_json::to_string(interaction.as_ref()).map_err(not_json)
}

/// Reads an interaction, in its canonical form. Unknown fields are ignored, a
/// field that is `null` is absent, names may be lowerCamelCase or the proto's
/// own, base64 may be of either alphabet.
///
/// # Errors
/// [`InteractionError`] names the field that is malformed or refused.
pub fn from_json(json: &[u8]) -> Result<Interaction, InteractionError> {
    json_weight::check(json)?;
    let mut value: Value = serde_json::from_slice(json).map_err(not_json)?;
    drop_nulls(&mut value, Holds::Fields);
    let interaction = serde_path_to_error::deserialize(&value).map_err(malformed)?;
    canonical::accept(interaction)
}

fn not_json(error: serde_json::Error) -> InteractionError {
    InteractionError::NotJson(error.to_string())
}

fn malformed(error: serde_path_to_error::Error<serde_json::Error>) -> InteractionError {
    let mut message = error.inner().to_string();
    if message.contains("untagged enum") {
        // What the generated reader says of a number that does not fit.
        message = "not a whole number of the field's size".to_owned();
    }
    InteractionError::malformed(error.path(), message)
}

/// What the keys of an object are.
#[derive(Clone, Copy)]
enum Holds {
    Fields,
    Entries,
}

/// Leaves out fields that are null, which the generated reader refuses. A null
/// entry of a map stays, and is refused: it would take its key with it. As deep
/// as the JSON reader went, which has a limit of its own.
fn drop_nulls(value: &mut Value, holds: Holds) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| drop_nulls(item, Holds::Fields)),
        Value::Object(object) => {
            if matches!(holds, Holds::Fields) {
                object.retain(|_, value| !value.is_null());
            }
            for (key, value) in object {
                let within = match holds {
                    Holds::Fields if MAP_FIELDS.contains(&key.as_str()) => Holds::Entries,
                    Holds::Fields | Holds::Entries => Holds::Fields,
                };
                drop_nulls(value, within);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nulls_are_absent_and_both_names_and_alphabets_are_read() {
        let read = from_json(
            json!({
                "id": "x", "role": "ROLE_MODEL", "status": null, "usageMetadata": null,
                "created_at_millis": "1722470400123",
                "actionConfigs": {"headers": {"peer": null}},
                "content": [{"data": "_-8", "metadata": {"mediaType": "a/b", "timestamp": null}}],
                "actionInputs": {"c": {"fragments": [{"id": "p", "seq": null, "chunk": null}]}},
                "colour": {"deep": [null]},
            })
            .to_string()
            .as_bytes(),
        )
        .expect("readable");
        assert_eq!(read.status, None);
        assert_eq!(read.created_at_millis, Some(1_722_470_400_123));
        assert_eq!(read.content[0].data().as_ref(), [0xff, 0xef]);
        assert_eq!(read.action_configs["headers"], Default::default());
        assert_eq!(read.action_inputs["c"].fragments[0].seq, None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |json: Value, expected: &str| {
            let error = from_json(json.to_string().as_bytes()).expect_err(expected).to_string();
            assert!(error.contains(expected), "{expected}: {error}");
        };
        check(json!([1, 2]), "interaction: ");
        check(json!({"role": 9}), "role: invalid value: integer `9`, expected one of [");
        check(json!({"role": "user"}), "role: ");
        check(json!({"status": {"reason": "REASON_X"}}), "status.reason: ");
        check(json!({"content": [{}, {"data": "a b"}]}), "content[1].data: ");
        check(
            json!({"content": [{"metadata": {"timestamp": "x"}}]}),
            "content[0].metadata.timestamp",
        );
        check(
            json!({"actionInputs": {"c": {"fragments": [{"seq": 4_294_967_296_u64}]}}}),
            "actionInputs.c.fragments[0].seq: not a whole number",
        );
        check(json!({"actionInputs": {"c": null}}), "actionInputs.c: ");
        check(json!({"actionCalls": [{"id": "c d"}]}), "action_calls[0].id: ");
        check(json!({"content": [null]}), "content[0]: ");
    }
}

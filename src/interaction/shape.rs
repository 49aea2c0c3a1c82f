//! What a JSON text looks like: an interaction, in which form, or something else.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// What a JSON text looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Portable,
    ProtoJson,
    Other,
}

/// Fields that nothing but an interaction has, in snake_case, which the portable
/// JSON always and proto JSON sometimes has.
const OWN: [&str; 7] = [
    "action_calls",
    "action_configs",
    "action_inputs",
    "action_outputs",
    "backend_specific_metadata",
    "created_at_millis",
    "system_instructions",
];

/// The same in proto JSON.
const OWN_PROTO: [&str; 7] = [
    "actionCalls",
    "actionConfigs",
    "actionInputs",
    "actionOutputs",
    "backendSpecificMetadata",
    "createdAtMillis",
    "systemInstructions",
];

/// Fields of ours that some providers' replies have too, in either form.
const SHARED: [&str; 2] = ["previous_interaction_id", "usage_metadata"];
const SHARED_PROTO: [&str; 2] = ["previousInteractionId", "usageMetadata"];

/// Fields of providers' replies and messages that an interaction does not have.
const FOREIGN: [&str; 24] = [
    "candidates",
    "choices",
    "done",
    "error",
    "function_call",
    "images",
    "input",
    "message",
    "messages",
    "modelVersion",
    "object",
    "output",
    "outputs",
    "parts",
    "promptFeedback",
    "responseId",
    "steps",
    "stop_reason",
    "text",
    "tool_call_id",
    "tool_calls",
    "tool_name",
    "type",
    "usage",
];

/// The fields of a JSON object, unread.
type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// Tells by the fields of an object.
pub(super) fn shape(text: &str) -> Shape {
    let Ok(fields) = serde_json::from_str::<Fields<'_>>(text) else {
        return Shape::Other;
    };
    let has = |keys: &[&str]| keys.iter().any(|key| fields.contains_key(*key));
    let role = fields.get("role").map_or(JsonRole::Absent, |role| JsonRole::of(role.get()));
    if has(&OWN) || has(&OWN_PROTO) {
        return if role == JsonRole::Proto || has(&OWN_PROTO) {
            Shape::ProtoJson
        } else {
            Shape::Portable
        };
    }
    // An interaction's status is an object; some replies say `completed`.
    let status_is_text = fields.get("status").is_some_and(|status| status.get().starts_with('"'));
    if has(&FOREIGN) || role == JsonRole::Foreign || status_is_text {
        return Shape::Other;
    }
    let content = fields.get("content").map(|content| Content::of(content.get()));
    match (role, content) {
        (_, Some(Content::Foreign)) => Shape::Other,
        (JsonRole::Proto, _) | (_, Some(Content::ProtoChunks)) => Shape::ProtoJson,
        _ if has(&SHARED_PROTO) => Shape::ProtoJson,
        (JsonRole::Portable, _) | (_, Some(Content::Chunks)) => Shape::Portable,
        _ if has(&SHARED) => Shape::Portable,
        (_, Some(Content::Empty) | None) => Shape::Other,
    }
}

/// How a role is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonRole {
    Absent,
    Portable,
    Proto,
    Foreign,
}

impl JsonRole {
    fn of(json: &str) -> Self {
        match serde_json::from_str::<serde_json::Value>(json) {
            Ok(serde_json::Value::Null) => Self::Absent,
            Ok(serde_json::Value::Number(_)) => Self::Proto,
            Ok(serde_json::Value::String(role)) => match role.as_str() {
                "user" | "model" | "system" => Self::Portable,
                _ if role.starts_with("ROLE_") => Self::Proto,
                _ => Self::Foreign,
            },
            _ => Self::Foreign,
        }
    }
}

/// What the field `content` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Nothing to tell by.
    Empty,
    /// Chunks.
    Chunks,
    /// Chunks whose metadata is that of proto JSON.
    ProtoChunks,
    /// A text, or a provider's blocks.
    Foreign,
}

impl Content {
    fn of(json: &str) -> Self {
        let Ok(items) = serde_json::from_str::<Option<Vec<Fields<'_>>>>(json) else {
            return Self::Foreign;
        };
        let items = items.unwrap_or_default();
        let is_chunk = |item: &Fields<'_>| {
            let known = ["data", "metadata", "ref"].iter().any(|key| item.contains_key(*key));
            (known || item.is_empty()) && !item.contains_key("type")
        };
        let is_proto = |item: &Fields<'_>| {
            let metadata = item.get("metadata").map(|metadata| metadata.get());
            metadata.is_some_and(|metadata| {
                serde_json::from_str::<Fields<'_>>(metadata).is_ok_and(|metadata| {
                    metadata.contains_key("mediaType") || metadata.contains_key("media_type")
                })
            })
        };
        match items.as_slice() {
            [] => Self::Empty,
            items if !items.iter().all(is_chunk) => Self::Foreign,
            items if items.iter().any(is_proto) => Self::ProtoChunks,
            _ => Self::Chunks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_recognised_by_its_shape() {
        let check = |json: &str, expected: Shape| assert_eq!(shape(json), expected, "{json}");
        for json in [
            r#"{"id":"x","role":"user"}"#,
            r#"{"role":"model","action_calls":[]}"#,
            r#"{"role":"assistant","action_calls":[]}"#,
            r#"{"action_inputs":{}}"#,
            r#"{"id":"x","content":[{"data":"aGk=","metadata":{"mimetype":"text/plain"}}]}"#,
            r#"{"role":"user","content":[{"data":"aGk="}]}"#,
            r#"{"role":"user","content":[]}"#,
            r#"{"role":"user","content":null,"usage_metadata":null}"#,
            r#"{"previous_interaction_id":"y"}"#,
            r#"{"usage_metadata":{},"status":{"code":3}}"#,
            r#"{"type":"x","created_at_millis":3}"#,
        ] {
            check(json, Shape::Portable);
        }
        for json in [
            r#"{"role":"ROLE_MODEL","actionCalls":[]}"#,
            r#"{"role":"ROLE_MODEL","action_calls":[]}"#,
            r#"{"actionCalls":[]}"#,
            r#"{"id":"x","role":"ROLE_USER"}"#,
            r#"{"previousInteractionId":"y"}"#,
            r#"{"content":[{"data":"aGk=","metadata":{"mediaType":"text/plain"}}]}"#,
        ] {
            check(json, Shape::ProtoJson);
        }
        for json in [
            r#"{"role":"assistant","content":[{"type":"text","text":"hi"}]}"#,
            r#"{"id":"m","type":"message","role":"assistant","model":"c","content":[],"usage":{}}"#,
            r#"{"role":"user","content":"hello"}"#,
            r#"{"role":"user","content":[{"type":"image","data":"aGk=","mime_type":"image/png"}]}"#,
            r#"{"role":"user","content":["hello"]}"#,
            r#"{"role":"model","parts":[{"text":"hi"}]}"#,
            r#"{"id":"c","object":"chat.completion","choices":[]}"#,
            r#"{"candidates":[],"usageMetadata":{"promptTokenCount":1}}"#,
            r#"{"promptFeedback":{},"usageMetadata":{}}"#,
            r#"{"id":"r","model":"m","status":"completed","output":[]}"#,
            r#"{"model":"l","message":{"role":"assistant","content":""},"done":true}"#,
            r#"{"id":"i","status":"completed","role":"model","steps":[]}"#,
            r#"{"id":"i","status":"completed","role":"model","previous_interaction_id":"h"}"#,
            r#"{"id":"x"}"#,
            r#"{"role":5.5,"choices":[]}"#,
            "{}",
            "[]",
            "[{\"role\":\"user\"}]",
            "3",
        ] {
            check(json, Shape::Other);
        }
    }
}

//! Documents that may hold an interaction: which form a JSON text has, by its
//! shape, and the media types under which an interaction travels.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::{Message as _, Name as _};
use serde_json::value::RawValue;

use super::{canonical, error::InteractionError, portable, proto_json};
use crate::wire::{json_weight, pb::Interaction, weight};

/// The media type of the portable JSON.
pub const PORTABLE_JSON: &str = "application/json;type=a11.sdk.Interaction";
/// The media type of the protobuf message.
pub const PROTOBUF: &str = "application/x-protobuf;type=a11.v1.Interaction";

/// The forms in which an interaction travels as bytes of a media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// [`PORTABLE_JSON`].
    PortableJson,
    /// [`PROTOBUF`].
    Protobuf,
}

impl Form {
    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::PortableJson => PORTABLE_JSON,
            Self::Protobuf => PROTOBUF,
        }
    }

    /// The form of a media type, whose `type` parameter may be left off.
    pub fn of(media_type: &str) -> Option<Self> {
        let mut parts = media_type.split(';').map(str::trim);
        let form = match parts.next()?.to_ascii_lowercase().as_str() {
            "application/json" => Self::PortableJson,
            "application/x-protobuf" | "application/protobuf" => Self::Protobuf,
            _ => return None,
        };
        let own = match form {
            Self::PortableJson => "a11.sdk.Interaction",
            Self::Protobuf => "a11.v1.Interaction",
        };
        let is_other = |parameter: &str| match parameter.split_once('=') {
            Some((key, value)) if key.trim().eq_ignore_ascii_case("type") => {
                value.trim().trim_matches('"') != own
            }
            _ => false,
        };
        (!parts.any(is_other)).then_some(form)
    }
}

/// Writes an interaction's canonical form.
///
/// # Errors
/// [`InteractionError::Refused`] for what could not be read back.
pub fn encode(interaction: &Interaction, form: Form) -> Result<Bytes, InteractionError> {
    match form {
        Form::PortableJson => portable::to_json(interaction).map(Bytes::from),
        Form::Protobuf => Ok(canonical::checked(interaction)?.encode_to_vec().into()),
    }
}

/// The same for a turn that is run or kept, whose calls may have the ids that
/// their provider gave them.
///
/// # Errors
/// As [`encode`], but for those ids.
pub fn encode_turn(interaction: &Interaction, form: Form) -> Result<Bytes, InteractionError> {
    match form {
        Form::PortableJson => portable::turn_to_json(interaction).map(Bytes::from),
        Form::Protobuf => Ok(canonical::checked_turn(interaction)?.encode_to_vec().into()),
    }
}

/// Reads an interaction of a media type, in its canonical form. Payloads of the
/// protobuf form stay slices of `bytes`.
///
/// # Errors
/// [`InteractionError`] names what is unknown, malformed or refused.
pub fn decode(bytes: Bytes, media_type: &str) -> Result<Interaction, InteractionError> {
    match Form::of(media_type) {
        Some(Form::PortableJson) => portable::from_json(&bytes),
        Some(Form::Protobuf) => canonical::accept(read_message(bytes)?),
        None => Err(InteractionError::UnknownMediaType(media_type.to_owned())),
    }
}

/// The same for a turn that is run or kept. As protobuf its calls may have the ids
/// that their provider gave them; the portable JSON has names.
///
/// # Errors
/// As [`decode`], but for those ids.
pub fn decode_turn(bytes: Bytes, media_type: &str) -> Result<Interaction, InteractionError> {
    match Form::of(media_type) {
        Some(Form::Protobuf) => canonical::accept_turn(read_message(bytes)?),
        _ => decode(bytes, media_type),
    }
}

/// Reads the protobuf form, of whatever values; payloads stay slices of `bytes`.
///
/// # Errors
/// Where it is none, or would take too much memory.
pub fn read_message(bytes: Bytes) -> Result<Interaction, InteractionError> {
    weight::check(&bytes, &Interaction::full_name())?;
    Ok(Interaction::decode(bytes)?)
}

/// What a JSON text holds.
#[derive(Debug)]
pub enum Document {
    /// An interaction in the portable JSON.
    Portable(Interaction),
    /// An interaction in proto3 JSON.
    ProtoJson(Interaction),
    /// Some other JSON: perhaps a provider's raw reply.
    Other(Box<RawValue>),
}

/// Reads a JSON text, and as an interaction where it has the shape of one.
///
/// # Errors
/// Where it is not JSON, or has the shape of an interaction and is none.
pub fn read_document(json: &[u8]) -> Result<Document, InteractionError> {
    // A byte order mark is what some editors begin a file with.
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
    let raw: &RawValue = serde_json::from_slice(json)
        .map_err(|error| InteractionError::NotJson(error.to_string()))?;
    let text = raw.get();
    json_weight::check(text.as_bytes())?;
    match shape(text) {
        Shape::Portable => portable::from_json(text.as_bytes()).map(Document::Portable),
        Shape::ProtoJson => proto_json::from_json(text.as_bytes()).map(Document::ProtoJson),
        Shape::Other => Ok(Document::Other(raw.to_owned())),
    }
}

/// What a JSON text looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
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

fn shape(text: &str) -> Shape {
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
    use crate::wire::Chunk;

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

    #[test]
    fn a_document_is_read_in_its_form_or_refused() {
        let read = |json: &str| read_document(json.as_bytes());
        assert!(matches!(read("\u{feff} {\"role\":\"user\"} "), Ok(Document::Portable(_))));
        assert!(matches!(read(r#"{"role":"ROLE_MODEL"}"#), Ok(Document::ProtoJson(_))));
        let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
        for other in [r#"{"choices": [1.50]}"#, deep.as_str()] {
            let Ok(Document::Other(raw)) = read(other) else { panic!("{other}") };
            assert_eq!(raw.get(), other);
        }
        let error = read(r#"{"role":"assistant","action_calls":[]}"#).expect_err("refused");
        assert_eq!(error.field(), "role");
        for junk in ["", "{", "{} {}", "NaN", "{\"role\": NaN}"] {
            assert!(matches!(read(junk), Err(InteractionError::NotJson(_))), "{junk}");
        }
    }

    #[test]
    fn media_types_name_a_form() {
        let check = |media_type, form| assert_eq!(Form::of(media_type), form, "{media_type}");
        check(PORTABLE_JSON, Some(Form::PortableJson));
        check(PROTOBUF, Some(Form::Protobuf));
        check(
            "Application/JSON; charset=utf-8; TYPE=\"a11.sdk.Interaction\"",
            Some(Form::PortableJson),
        );
        check("application/json", Some(Form::PortableJson));
        check("application/x-protobuf", Some(Form::Protobuf));
        check("application/json;type=a11.v1.Interaction", None);
        check("application/x-protobuf;type=a11.v1.Chunk", None);
        check("text/plain", None);
        check("", None);
    }

    #[test]
    fn what_is_encoded_is_decoded_in_either_form() {
        let mut interaction = Interaction {
            id: "x".into(),
            status: Some(Default::default()),
            content: vec![Chunk::text("a"), Chunk::text("b")],
            ..Default::default()
        };
        let forms = [Form::PortableJson, Form::Protobuf].map(|form| {
            let bytes = encode(&interaction, form).expect("written");
            decode(bytes, form.media_type()).expect("read")
        });
        canonical::canonicalize(&mut interaction);
        assert_eq!(forms, [interaction.clone(), interaction]);
        let error = decode(Bytes::from_static(b"\xff\xff"), PROTOBUF).expect_err("refused");
        assert!(matches!(error, InteractionError::NotProtobuf(_)), "{error}");
        let error = decode(Bytes::new(), "text/plain").expect_err("refused");
        assert!(matches!(error, InteractionError::UnknownMediaType(_)), "{error}");
    }
}

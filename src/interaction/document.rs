//! Documents that may hold an interaction: the media types under which one travels,
//! and JSON texts of whatever form.

use bytes::Bytes;
use prost::{Message as _, Name as _};
use serde_json::value::RawValue;

use super::{
    canonical,
    error::InteractionError,
    portable, proto_json,
    shape::{Shape, shape},
};
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Chunk;

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

//! One piece of a turn between reading and writing: what every provider can be
//! told of it, and how its own provider wrote it.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    Arguments, Dialect, Image,
    raw::{Kind, Object, list},
    result::written,
};
use crate::wire::base64;

/// Who a piece is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    User,
    Model,
    System,
}

/// A piece of a turn. A call, and a result, is always a unit of its own.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) speaker: Speaker,
    pub(super) parts: Vec<Content>,
    /// How its own provider wrote it, where that is to go back there unchanged.
    pub(super) native: Option<Native>,
    /// What it is, where it has no parts: only its own provider understands it.
    pub(super) own: String,
}

/// A provider's own JSON.
#[derive(Debug, Clone)]
pub(super) struct Native {
    /// The [family](Dialect::family) that reads it.
    pub(super) family: Dialect,
    pub(super) raw: Box<RawValue>,
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    Text(String),
    Image(Picture),
    Call(Call),
    Result(CallResult),
}

/// A picture, or where it is.
#[derive(Debug, Clone)]
pub(super) enum Picture {
    Data(Image),
    Url(String),
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    /// The provider's own id, if it gave one.
    pub(super) id: Option<String>,
    pub(super) name: String,
    /// One JSON object.
    pub(super) arguments: Box<RawValue>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct CallResult {
    /// The id of its call; None where results go by name or by order.
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) text: String,
    pub(super) is_error: bool,
    pub(super) images: Vec<Picture>,
}

impl Unit {
    pub(super) fn of(speaker: Speaker, content: Content) -> Self {
        Self { speaker, parts: vec![content], native: None, own: String::new() }
    }

    pub(super) fn text(speaker: Speaker, text: String) -> Self {
        Self::of(speaker, Content::Text(text))
    }

    pub(super) fn call(call: Call) -> Self {
        Self::of(Speaker::Model, Content::Call(call))
    }

    pub(super) fn result(result: CallResult) -> Self {
        Self::of(Speaker::User, Content::Result(result))
    }

    /// What only its own provider understands.
    pub(super) fn own(speaker: Speaker, what: impl Into<String>, native: Option<Native>) -> Self {
        Self { speaker, parts: vec![], native, own: what.into() }
    }

    pub(super) fn with(mut self, native: Option<Native>) -> Self {
        self.native = native;
        self
    }

    pub(super) fn has_call(&self) -> bool {
        matches!(self.parts[..], [Content::Call(_)])
    }

    pub(super) fn has_result(&self) -> bool {
        matches!(self.parts[..], [Content::Result(_)])
    }
}

impl Call {
    /// Whether its name is one that a provider can have been given.
    pub(super) fn is_named(&self) -> bool {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':');
        !self.name.is_empty() && self.name.bytes().all(plain)
    }

    /// A call as its provider wrote it.
    pub(super) fn new(
        id: Option<String>,
        name: Option<String>,
        arguments: Option<&RawValue>,
    ) -> Self {
        Self { id, name: name.unwrap_or_default(), arguments: arguments_of(arguments) }
    }
}

/// Arguments as one JSON object. Those that are none (a reply that was cut off)
/// go under the one key that Anthropic documents for handing them back.
fn arguments_of(raw: Option<&RawValue>) -> Box<RawValue> {
    let json = match Arguments::read(raw) {
        Ok(arguments) => object(arguments.iter()),
        Err(_) => {
            let raw = raw.map_or("", RawValue::get);
            let text = serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned());
            let text = raw_of(written(&text));
            object([("INVALID_JSON", &*text)].into_iter())
        }
    };
    raw_of(json)
}

/// A JSON object of fields in order.
pub(super) fn object<'a>(fields: impl Iterator<Item = (&'a str, &'a RawValue)>) -> String {
    let mut json = String::from("{");
    for (name, value) in fields {
        if json.len() > 1 {
            json.push(',');
        }
        json.push_str(&written(&name));
        json.push(':');
        json.push_str(value.get());
    }
    json.push('}');
    json
}

/// JSON text as a raw value; null for what is none.
pub(super) fn raw_of(json: String) -> Box<RawValue> {
    RawValue::from_string(json).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// An object with this text in one of its fields, whether it had that or not.
pub(super) fn with_text(raw: &RawValue, field: &str, text: &str) -> Box<RawValue> {
    let Some(Object { 0: mut fields }) = Object::of(raw) else { return raw.to_owned() };
    let text = raw_of(written(&text));
    match fields.iter_mut().find(|(name, _)| name == field) {
        Some((_, value)) => *value = &text,
        None => fields.push((field.to_owned(), &text)),
    }
    raw_of(object(fields.iter().map(|(name, value)| (name.as_str(), *value))))
}

/// A picture in any provider's shape: Claude's `source`, OpenAI's `image_url`,
/// Gemini's and MCP's `data` with its type, or an address alone.
pub(super) fn picture_of(block: &Object) -> Option<Picture> {
    if let Some(source) = block.object("source") {
        return picture_of(&source);
    }
    for keys in [["inlineData", "inline_data"], ["fileData", "file_data"]] {
        if let Some(inner) = block.either(keys) {
            return picture_of(&Object::of(inner)?);
        }
    }
    if let Some(inner) = block.object("image_url") {
        return picture_of(&inner);
    }
    let media_type = ["mime_type", "mimeType", "media_type"].iter().find_map(|key| block.text(key));
    if let Some(data) = block.text("data") {
        return image(&media_type?, &data);
    }
    let url = ["url", "uri", "image_url", "fileUri", "file_uri"]
        .iter()
        .find_map(|key| block.text(key))?;
    if media_type.is_some_and(|media_type| !media_type.starts_with("image/")) {
        return None;
    }
    picture_at(url)
}

/// The picture at an address, which may be a `data:` URL.
pub(super) fn picture_at(url: String) -> Option<Picture> {
    let Some(rest) = url.strip_prefix("data:") else { return Some(Picture::Url(url)) };
    let (head, data) = rest.split_once(',')?;
    image(head.strip_suffix(";base64")?, data)
}

fn image(media_type: &str, data: &str) -> Option<Picture> {
    let essence = crate::wire::chunk::essence(media_type);
    let media_type = match &*essence {
        "image/jpg" => "image/jpeg",
        other => other.starts_with("image/").then_some(other)?,
    };
    let data = Bytes::from(base64::decode(data).ok()?);
    Some(Picture::Data(Image { media_type: media_type.to_owned(), data }))
}

/// What a tool gave, as text and pictures: text, a list of blocks, or any JSON.
pub(super) fn read_result(raw: Option<&RawValue>) -> (String, Vec<Picture>) {
    let mut images = vec![];
    let Some(raw) = raw else { return (String::new(), images) };
    let verbatim = || raw.get().to_owned();
    let text = match Kind::of(raw) {
        Kind::Text => serde_json::from_str(raw.get()).unwrap_or_else(|_| verbatim()),
        Kind::List => {
            let mut texts = vec![];
            for item in list(raw).unwrap_or_default() {
                let block = Object::of(item);
                let text = match &block {
                    Some(block) => block.text("text"),
                    None => serde_json::from_str(item.get()).ok(),
                };
                match (text, block.as_ref().and_then(picture_of)) {
                    (Some(text), _) => texts.push(text),
                    (None, Some(picture)) => images.push(picture),
                    (None, None) => texts.push(item.get().to_owned()),
                }
            }
            texts.join("\n")
        }
        Kind::Object | Kind::Number | Kind::Bool | Kind::Null => verbatim(),
    };
    (text, images)
}

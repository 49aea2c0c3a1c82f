//! What a call comes to as a tool result: one document, structured and as text,
//! with pictures and sound as blocks beside it.

use rmcp::model::{
    AudioContent, CallToolResult, ContentBlock, EmbeddedResource, ImageContent, JsonObject,
    MetaObject, ProtocolVersion, ResourceContents,
};
use serde_json::Value;

use super::cut;
use crate::action::ActionSchema;
use crate::interaction::backend::Image;
use crate::node::Piece;
use crate::runner::{Beside, Parts};
use crate::wire::{Reason, Status, base64, chunk::Kind, json_weight};

/// The key of a result's `_meta` that holds what the action narrated.
pub const LOG_KEY: &str = "to.a11/log";
/// The key of a block's `_meta` that names the port it came from.
pub const PORT_KEY: &str = "to.a11/port";
/// The key of a result's `_meta` that says how many bytes a document had that
/// was cut.
pub const CUT_KEY: &str = "to.a11/cut";

/// What an answer has around its document: ids, notices, the event's own lines.
const ENVELOPE: usize = 8 * 1024;

/// How large a result may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultLimits {
    /// Bytes that the document and the log take in the answer: a JSON document
    /// stands there twice, as itself and as text. Past it the document is cut,
    /// with a notice.
    pub text_bytes: usize,
    /// Bytes of all pictures and sound; one past it is left out, with a notice.
    pub media_bytes: usize,
}

impl Default for ResultLimits {
    /// 1 MiB of text with all around it, which is what the official Python SDK
    /// takes of one event, and 8 MiB of pictures and sound.
    fn default() -> Self {
        Self { text_bytes: (1 << 20) - ENVELOPE, media_bytes: 8 << 20 }
    }
}

/// The result of a call that succeeded, from what each output port put out.
///
/// # Errors
/// INTERNAL where an output is not what its media type says.
pub fn success(
    schema: &ActionSchema,
    outputs: &[Vec<Piece>],
    log: &str,
    limits: ResultLimits,
) -> Result<CallToolResult, Status> {
    let Parts { text, is_json, media } = Parts::new(schema, outputs, Beside::PicturesAndSound)?;
    let mut result = CallToolResult::default();
    let mut notices = vec![];
    let whole = text.as_deref().map_or(0, str::len);
    let room = limits.text_bytes.saturating_sub(cut::escaped_len(log));
    let mut is_cut = false;
    match text {
        Some(text) if is_json => {
            let broken = |error| {
                let action = schema.name();
                Status::of(Reason::InvalidOutput, format!("{action:?}: the result: {error}"))
            };
            let mut document: Value = json_weight::read(text.as_bytes()).map_err(broken)?;
            let mut copy = text;
            is_cut = twice(&copy) > room;
            if is_cut {
                (document, copy) = fitted(document, &copy, room);
            }
            result.content.push(ContentBlock::text(copy));
            // Hosts take nothing but objects here.
            result.structured_content = Some(document).filter(Value::is_object);
        }
        Some(text) => {
            let escaped = cut::escaped_len(&text);
            is_cut = escaped > room;
            let most = if is_cut { text.len() * room / escaped } else { text.len() };
            result.content.push(ContentBlock::text(cut::text(&text, most)));
        }
        None => {
            // The schema that was declared must be met, if with nothing.
            if super::declaration::has_output_schema(schema) {
                result.content.push(ContentBlock::text("{}"));
                result.structured_content = Some(JsonObject::new().into());
            }
        }
    }
    if is_cut {
        notices.push(format!("[The result was cut: it has {whole} bytes in all.]"));
    }
    let mut room = limits.media_bytes;
    for (port, item) in media {
        let port = schema.outputs()[port].name();
        match room.checked_sub(item.data.len()) {
            Some(left) => {
                room = left;
                result.content.push(block(port, &item));
            }
            None => notices.push(left_out(port, &item, limits.media_bytes)),
        }
    }
    result.content.extend(notices.into_iter().map(ContentBlock::text));
    result.meta = meta(log);
    if is_cut {
        let meta = result.meta.get_or_insert_with(|| MetaObject::from(JsonObject::new()));
        meta.insert(CUT_KEY.into(), whole.into());
    }
    Ok(result)
}

/// How many bytes a document takes as itself and as text.
fn twice(json: &str) -> usize {
    json.len() + cut::escaped_len(json)
}

/// A document cut until it fits twice, and its text. Each try is smaller; what
/// no cutting makes fit, such as ten thousand names of fields, stays as it is.
fn fitted(document: Value, whole: &str, room: usize) -> (Value, String) {
    const TRIES: u32 = 8;
    let mut most = whole.len() * room / twice(whole).max(1);
    for _ in 1..TRIES {
        let smaller = cut::document(document.clone(), most);
        let copy = smaller.to_string();
        let size = twice(&copy);
        if size <= room {
            return (smaller, copy);
        }
        // What was cut may have more escapes than the rest.
        most = most.saturating_sub(size - room);
    }
    let smallest = cut::document(document, 0);
    let copy = smallest.to_string();
    (smallest, copy)
}

/// The result of a call that failed: for the model to read and do better.
pub fn failure(status: &Status, log: &str) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(status.summary())]);
    result.meta = meta(log);
    result
}

/// The result as a client of a protocol version knows it: the first had no sound,
/// and has it as a resource.
pub fn for_version(mut result: CallToolResult, version: &ProtocolVersion) -> CallToolResult {
    if *version == ProtocolVersion::V_2024_11_05 {
        for block in &mut result.content {
            if let ContentBlock::Audio(sound) = block {
                *block = as_resource(std::mem::replace(sound, AudioContent::new("", "")));
            }
        }
    }
    result
}

fn as_resource(sound: AudioContent) -> ContentBlock {
    let port = sound.meta.as_ref().and_then(|meta| meta.get(PORT_KEY)?.as_str());
    let uri = format!("a11:output/{}", port.unwrap_or_default());
    let contents = ResourceContents::blob(sound.data, uri).with_mime_type(sound.mime_type);
    let mut resource = EmbeddedResource::new(contents);
    resource.meta = sound.meta;
    ContentBlock::Resource(resource)
}

fn meta(log: &str) -> Option<MetaObject> {
    let entry = || JsonObject::from_iter([(LOG_KEY.to_owned(), Value::from(log))]);
    (!log.is_empty()).then(|| MetaObject::from(entry()))
}

fn block(port: &str, item: &Image) -> ContentBlock {
    let data = base64::encode(&item.data);
    let media_type = item.media_type.as_str();
    let meta = MetaObject::from(JsonObject::from_iter([(PORT_KEY.to_owned(), port.into())]));
    match Kind::of(media_type) {
        Kind::Audio => ContentBlock::Audio(AudioContent::new(data, media_type).with_meta(meta)),
        _ => ContentBlock::Image(ImageContent::new(data, media_type).with_meta(meta)),
    }
}

fn left_out(port: &str, item: &Image, most: usize) -> String {
    let (media_type, bytes) = (&item.media_type, item.data.len());
    format!(
        "[{media_type} of {bytes} bytes from output {port:?} was left out: a result carries {most} bytes of pictures and sound.]"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::action::Port;
    use crate::wire::Chunk;

    fn schema() -> ActionSchema {
        ActionSchema::builder("a")
            .output(Port::of("frame", "image/png"))
            .output(Port::text("legend"))
            .build()
            .expect("valid")
    }

    fn check(outputs: [Vec<Chunk>; 2], limits: ResultLimits, expected: Value) {
        let outputs: Vec<Vec<Piece>> =
            outputs.map(|chunks| chunks.into_iter().map(Piece::last).collect()).into();
        let result = success(&schema(), &outputs, "", limits).expect("a result");
        let mut json = serde_json::to_value(result).expect("JSON");
        json.as_object_mut().expect("an object").remove("resultType");
        assert_eq!(json, expected);
    }

    #[test]
    fn a_picture_stands_beside_the_document_once() {
        let frame = Chunk::new("image/png", &b"png"[..]);
        let block = json!({"type": "image", "data": "cG5n", "mimeType": "image/png",
            "_meta": {"to.a11/port": "frame"}});
        let limits = ResultLimits::default();
        check(
            [vec![frame.clone()], vec![Chunk::text("cat")]],
            limits,
            json!({"content": [{"type": "text", "text": r#"{"legend":"cat"}"#}, block],
                "structuredContent": {"legend": "cat"}}),
        );
        check(
            [vec![frame], vec![]],
            limits,
            json!({"content": [{"type": "text", "text": "{}"}, block], "structuredContent": {}}),
        );
    }

    #[test]
    fn what_is_over_the_limits_is_cut_or_left_out_with_a_notice() {
        check(
            [vec![Chunk::new("image/png", &b"png"[..])], vec![Chunk::text("x".repeat(100))]],
            ResultLimits { text_bytes: 100, media_bytes: 2 },
            json!({
                "content": [
                    {"type": "text", "text": r#"{"legend":"… [cut, 100 bytes in all]"}"#},
                    {"type": "text", "text": "[The result was cut: it has 113 bytes in all.]"},
                    {"type": "text", "text": "[image/png of 3 bytes from output \"frame\" was left out: a result carries 2 bytes of pictures and sound.]"},
                ],
                "structuredContent": {"legend": "… [cut, 100 bytes in all]"},
                "_meta": {"to.a11/cut": 113},
            }),
        );
    }
}

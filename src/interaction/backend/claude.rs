//! Anthropic Messages: calls are `tool_use` blocks, and a round's results are
//! one user message of `tool_result` blocks, pictures within them.

mod history;

use serde::Serialize;
use serde_json::value::RawValue;

pub(super) use history::{BEFORE_THE_MODEL, is_untyped, kept};

use super::{
    Arguments, Image, Outcome, ReplyCall, ToolResult,
    notes::Notes,
    pairing::Turn,
    raw::Object,
    result::{Base64, True, written},
    shape::Shape,
    turn::Source,
    unit::Unit,
    usage::{count, nested, told},
};
use crate::wire::pb::UsageMetadata;

/// Anthropic Messages. Pieces are content blocks.
pub(super) struct Claude;

impl Shape for Claude {
    fn calls(&self, pieces: &[&RawValue]) -> Vec<ReplyCall> {
        pieces.iter().filter_map(|block| Object::of(block)).filter_map(|b| call(&b)).collect()
    }

    fn usage(&self, response: &Object) -> Option<UsageMetadata> {
        let usage = response.object("usage")?;
        // Its input is what came from no cache.
        told(UsageMetadata {
            input_tokens: count(&usage, "input_tokens"),
            output_tokens: count(&usage, "output_tokens"),
            total_tokens: None,
            cached_input_tokens: count(&usage, "cache_read_input_tokens"),
            cache_write_tokens: count(&usage, "cache_creation_input_tokens"),
            reasoning_tokens: nested(&usage, "output_tokens_details", "thinking_tokens"),
        })
    }

    fn read(&self, raw: &RawValue, object: &Object, source: Source, units: &mut Vec<Unit>) {
        history::read(raw, object, source, units);
    }

    /// One message: every `tool_use` must be answered in the very next one, with
    /// the results first.
    fn messages(&self, results: &[ToolResult]) -> Vec<String> {
        let content = results.iter().map(Block::of).collect();
        vec![written(&UserTurn { role: "user", content })]
    }

    fn history(&self, turns: Vec<Turn>, notes: &mut Notes) -> Vec<String> {
        history::write(turns, notes)
    }
}

/// Whether a content block asks for a call. Agent SDKs dump their blocks without
/// the type; the server's own tools (`server_tool_use`) are none of ours.
pub(super) fn is_call(block: &Object) -> bool {
    match block.get("type") {
        Some(kind) => kind.get() == r#""tool_use""#,
        None => block.get("name").is_some() && block.get("input").is_some(),
    }
}

fn call(block: &Object) -> Option<ReplyCall> {
    is_call(block).then(|| {
        ReplyCall::new(block.id("id"), block.text("name"), Arguments::read(block.get("input")))
    })
}

#[derive(Serialize)]
struct UserTurn<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "tool_result")]
struct Block<'a> {
    tool_use_id: &'a str,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<True>,
}

/// Plain text, unless there are pictures.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    Image { source: PictureSource<'a> },
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "base64")]
struct PictureSource<'a> {
    media_type: &'a str,
    data: Base64<'a>,
}

impl<'a> Block<'a> {
    fn of(result: &'a ToolResult) -> Self {
        let content = match &result.outcome {
            Outcome::Failed(failure) => Content::Text(failure),
            Outcome::Done { text, images } if images.is_empty() => {
                Content::Text(text.as_deref().unwrap_or_default())
            }
            Outcome::Done { text, images } => Content::Parts(
                text.iter()
                    .map(|text| Part::Text { text })
                    .chain(
                        images.iter().map(|image| Part::Image { source: PictureSource::of(image) }),
                    )
                    .collect(),
            ),
        };
        Block { tool_use_id: result.id_or_empty(), content, is_error: result.failed() }
    }
}

impl<'a> PictureSource<'a> {
    fn of(image: &'a Image) -> Self {
        PictureSource { media_type: &image.media_type, data: Base64(&image.data) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::interaction::backend::result::tests::round;

    #[test]
    fn a_round_is_one_user_message_with_pictures_inside_their_result() {
        let messages = Claude.messages(&round());
        assert_eq!(messages.len(), 1);
        let image = |data: &str| {
            json!({"type": "image",
                   "source": {"type": "base64", "media_type": "image/png", "data": data}})
        };
        assert_eq!(
            serde_json::from_str::<Value>(&messages[0]).unwrap(),
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": r#"{"echoed":"\"hi\""}"#},
                {"type": "tool_result", "tool_use_id": "b",
                 "content": "NOT_FOUND: no such order", "is_error": true},
                {"type": "tool_result", "tool_use_id": "c",
                 "content": [image("b25l"), image("dHdv")]},
                {"type": "tool_result", "tool_use_id": "d",
                 "content": [{"type": "text", "text": "{}"}, image("YWJj")]},
            ]})
        );
    }
}

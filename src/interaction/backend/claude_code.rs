//! Claude Code through its agent SDK: it calls our tools over MCP, so a result
//! is an MCP result, written as the SDK's tool handlers return it. A reply that
//! it relays has Claude's content blocks.

use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    Outcome, ReplyCall, ToolResult,
    claude::Claude,
    notes::Notes,
    pairing::Turn,
    raw::Object,
    result::{Base64, True, written},
    shape::Shape,
    turn::Source,
    unit::Unit,
};
use crate::wire::pb::UsageMetadata;

/// Claude Code. Pieces are Claude's content blocks.
pub(super) struct ClaudeCode;

impl Shape for ClaudeCode {
    fn calls(&self, pieces: &[&RawValue]) -> Vec<ReplyCall> {
        Claude.calls(pieces)
    }

    fn usage(&self, response: &Object) -> Option<UsageMetadata> {
        Claude.usage(response)
    }

    fn read(&self, raw: &RawValue, object: &Object, source: Source, units: &mut Vec<Unit>) {
        Claude.read(raw, object, source, units);
    }

    /// One MCP result a call, in the order of the calls; they carry no id.
    fn messages(&self, results: &[ToolResult]) -> Vec<String> {
        let message = |result| {
            written(&McpResult { content: content(result), is_error: ToolResult::failed(result) })
        };
        results.iter().map(message).collect()
    }

    /// A session is kept in Claude's messages.
    fn history(&self, turns: Vec<Turn>, notes: &mut Notes) -> Vec<String> {
        Claude.history(turns, notes)
    }
}

/// The SDK's spelling: `is_error`, where MCP itself says `isError`.
#[derive(Serialize)]
struct McpResult<'a> {
    content: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<True>,
}

/// A content block of MCP.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Content<'a> {
    Text {
        text: &'a str,
    },
    Image {
        data: Base64<'a>,
        #[serde(rename = "mimeType")]
        mime_type: &'a str,
    },
}

/// A result's document, or its failure, and its pictures.
fn content(result: &ToolResult) -> Vec<Content<'_>> {
    match &result.outcome {
        Outcome::Failed(failure) => vec![Content::Text { text: failure }],
        Outcome::Done { text: None, images } if images.is_empty() => {
            vec![Content::Text { text: "" }]
        }
        Outcome::Done { text, images } => text
            .iter()
            .map(|text| Content::Text { text })
            .chain(images.iter().map(|image| Content::Image {
                data: Base64(&image.data),
                mime_type: &image.media_type,
            }))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::interaction::backend::result::tests::round;

    #[test]
    fn each_call_has_one_mcp_result_with_its_own_pictures() {
        let messages: Vec<Value> = ClaudeCode
            .messages(&round())
            .iter()
            .map(|m| serde_json::from_str(m).unwrap())
            .collect();
        let image = |data: &str| json!({"type": "image", "data": data, "mimeType": "image/png"});
        assert_eq!(
            messages,
            [
                json!({"content": [{"type": "text", "text": r#"{"echoed":"\"hi\""}"#}]}),
                json!({"content": [{"type": "text", "text": "NOT_FOUND: no such order"}],
                       "is_error": true}),
                json!({"content": [image("b25l"), image("dHdv")]}),
                json!({"content": [{"type": "text", "text": "{}"}, image("YWJj")]}),
            ]
        );
    }
}

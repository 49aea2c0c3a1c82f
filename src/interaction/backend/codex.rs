//! OpenAI Codex: it calls our tools over MCP, so a result is an MCP result of
//! text; pictures go with the turn that is resumed afterwards. A reply that it
//! relays has the items of OpenAI Responses.

use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    ReplyCall, ToolResult,
    gpt::{Responses, Style, write_items},
    notes::Notes,
    pairing::Turn,
    raw::Object,
    result::{DataUrl, Pictures, Text, True, written},
    shape::Shape,
    turn::Source,
    unit::Unit,
};
use crate::wire::pb::UsageMetadata;

/// Codex. Pieces are Responses items.
pub(super) struct Codex;

impl Shape for Codex {
    fn calls(&self, pieces: &[&RawValue]) -> Vec<ReplyCall> {
        Responses.calls(pieces)
    }

    fn usage(&self, response: &Object) -> Option<UsageMetadata> {
        Responses.usage(response)
    }

    fn read(&self, raw: &RawValue, object: &Object, source: Source, units: &mut Vec<Unit>) {
        Responses.read(raw, object, source, units);
    }

    /// One MCP result a call, in the order of the calls; then, where there are
    /// pictures, one message `{"input": [ … ]}`: the `input` of the app server's
    /// `turn/start` request, which resumes the thread. Its items are a `text`
    /// note and an `image` each, whose `url` is a `data:` URL. With the command
    /// line instead, each is one `--image` of `codex exec resume`.
    fn messages(&self, results: &[ToolResult]) -> Vec<String> {
        let message = |result: &ToolResult| {
            let text = result.text();
            let content = [Content { text }];
            written(&McpResult { content, is_error: result.failed() })
        };
        let pictures = Pictures::of(results).map(|pictures| {
            let note = Input::Text { text: &pictures.note };
            let images = pictures.images.iter().map(|image| Input::Image { url: DataUrl(image) });
            written(&Resumed { input: std::iter::once(note).chain(images).collect() })
        });
        results.iter().map(message).chain(pictures).collect()
    }

    /// The items of a thread, as its `history` takes them.
    fn history(&self, turns: Vec<Turn>, notes: &mut Notes) -> Vec<String> {
        write_items(turns, Style::Codex, notes)
    }
}

#[derive(Serialize)]
struct McpResult<'a> {
    content: [Content<'a>; 1],
    #[serde(rename = "isError", skip_serializing_if = "Option::is_none")]
    is_error: Option<True>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "text")]
struct Content<'a> {
    text: Text<'a>,
}

#[derive(Serialize)]
struct Resumed<'a> {
    input: Vec<Input<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Input<'a> {
    Text { text: &'a str },
    Image { url: DataUrl<'a> },
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::interaction::backend::result::tests::round;

    #[test]
    fn pictures_go_with_the_resumed_turn_after_the_last_result() {
        let mut messages: Vec<Value> =
            Codex.messages(&round()).iter().map(|m| serde_json::from_str(m).unwrap()).collect();
        let turn = messages.pop().unwrap();
        assert_eq!(messages.len(), 4, "one result a call");
        assert_eq!(
            messages[1],
            json!({"content": [{"type": "text", "text": "NOT_FOUND: no such order"}],
                   "isError": true})
        );
        let note = messages[2]["content"][0]["text"].as_str().unwrap();
        assert!(note.contains("2 images"), "{note}");
        let input = turn["input"].as_array().unwrap();
        assert_eq!(input.len(), 4);
        assert!(input[0]["text"].as_str().unwrap().contains("two_pictures"));
        assert_eq!(input[3], json!({"type": "image", "url": "data:image/png;base64,YWJj"}));
    }

    #[test]
    fn without_pictures_there_is_no_further_turn() {
        assert_eq!(Codex.messages(&round()[..2]).len(), 2);
    }
}

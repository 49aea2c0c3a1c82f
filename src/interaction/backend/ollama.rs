//! Ollama chat: arguments are an object, calls seldom have an id, and a result
//! is paired by its order and `tool_name`.

mod history;

use serde::Serialize;
use serde_json::value::RawValue;

pub(super) use history::{kept, pictures};

use super::{
    ReplyCall, ToolResult, chat,
    notes::Notes,
    pairing::Turn,
    raw::Object,
    result::{Base64, Pictures, Text, written},
    shape::Shape,
    turn::Source,
    unit::Unit,
    usage::{count, told},
};
use crate::wire::pb::UsageMetadata;

/// Ollama. Pieces are `tool_calls`.
pub(super) struct Ollama;

impl Shape for Ollama {
    fn calls(&self, pieces: &[&RawValue]) -> Vec<ReplyCall> {
        chat::calls(pieces)
    }

    fn usage(&self, response: &Object) -> Option<UsageMetadata> {
        told(UsageMetadata {
            input_tokens: count(response, "prompt_eval_count"),
            output_tokens: count(response, "eval_count"),
            ..UsageMetadata::default()
        })
    }

    fn read(&self, _raw: &RawValue, object: &Object, source: Source, units: &mut Vec<Unit>) {
        chat::read_message(object, source, units);
    }

    /// A `tool` message a result, then one user message with all pictures. No
    /// id is written, given or not: Ollama's documented message has none.
    fn messages(&self, results: &[ToolResult]) -> Vec<String> {
        let message = |result: &ToolResult| {
            let content = result.text_naming_failure();
            written(&ToolMessage { role: "tool", content, tool_name: &result.name })
        };
        let pictures = Pictures::of(results).map(|pictures| {
            let images = pictures.images.iter().map(|image| Base64(&image.data)).collect();
            written(&UserMessage { role: "user", content: &pictures.note, images })
        });
        results.iter().map(message).chain(pictures).collect()
    }

    fn history(&self, turns: Vec<Turn>, notes: &mut Notes) -> Vec<String> {
        history::write(turns, notes)
    }
}

#[derive(Serialize)]
struct ToolMessage<'a> {
    role: &'static str,
    content: Text<'a>,
    tool_name: &'a str,
}

#[derive(Serialize)]
struct UserMessage<'a> {
    role: &'static str,
    content: &'a str,
    images: Vec<Base64<'a>>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::interaction::backend::result::tests::round;

    #[test]
    fn results_go_by_name_and_pictures_after_the_last() {
        let messages: Vec<Value> =
            Ollama.messages(&round()).iter().map(|m| serde_json::from_str(m).unwrap()).collect();
        assert_eq!(messages.len(), 5);
        assert_eq!(
            messages[1],
            json!({"role": "tool", "content": "Error: NOT_FOUND: no such order",
                   "tool_name": "order_status"})
        );
        assert_eq!(messages[4]["images"], json!(["b25l", "dHdv", "YWJj"]));
        assert!(messages[4]["content"].as_str().unwrap().contains("image 3 from picture"));
    }
}

//! OpenAI: chat completions, their older function calls, and Responses.

mod history;

use serde::Serialize;
use serde_json::value::RawValue;

pub(super) use history::{Style, write as write_items};

use super::{
    Arguments, ReplyCall, ToolResult, chat,
    notes::Notes,
    pairing::Turn,
    raw::Object,
    result::{DataUrl, Pictures, Text, written},
    shape::Shape,
    turn::Source,
    unit::Unit,
    usage::{count, nested, told, without_cached},
};
use crate::wire::pb::UsageMetadata;

/// Chat completions. Pieces are `tool_calls`.
pub(super) struct Chat;

impl Shape for Chat {
    fn calls(&self, pieces: &[&RawValue]) -> Vec<ReplyCall> {
        chat::calls(pieces)
    }

    fn usage(&self, response: &Object) -> Option<UsageMetadata> {
        chat::usage(response)
    }

    fn read(&self, _raw: &RawValue, object: &Object, source: Source, units: &mut Vec<Unit>) {
        chat::read_message(object, source, units);
    }

    fn messages(&self, results: &[ToolResult]) -> Vec<String> {
        chat::messages(results)
    }

    fn history(&self, turns: Vec<Turn>, notes: &mut Notes) -> Vec<String> {
        chat::write(turns, chat::Style::Free, notes)
    }
}

/// Chat completions with `function_call`. That object is the one piece.
pub(super) struct Functions;

impl Shape for Functions {
    fn calls(&self, pieces: &[&RawValue]) -> Vec<ReplyCall> {
        let objects = pieces.iter().filter_map(|piece| Object::of(piece));
        objects.map(|function| chat::function_call(None, &function)).collect()
    }

    fn usage(&self, response: &Object) -> Option<UsageMetadata> {
        chat::usage(response)
    }

    fn read(&self, _raw: &RawValue, object: &Object, source: Source, units: &mut Vec<Unit>) {
        chat::read_message(object, source, units);
    }

    /// A `function` message, paired by its name, then the pictures.
    fn messages(&self, results: &[ToolResult]) -> Vec<String> {
        let message = |result: &ToolResult| {
            let content = result.text_naming_failure();
            written(&FunctionMessage { role: "function", name: &result.name, content })
        };
        results.iter().map(message).chain(chat::picture_message(results)).collect()
    }

    fn history(&self, turns: Vec<Turn>, notes: &mut Notes) -> Vec<String> {
        chat::write(turns, chat::Style::Functions, notes)
    }
}

#[derive(Serialize)]
struct FunctionMessage<'a> {
    role: &'static str,
    name: &'a str,
    content: Text<'a>,
}

/// Responses. Pieces are output items; a call's id is its `call_id` (its `id` is
/// the item's).
pub(super) struct Responses;

impl Shape for Responses {
    fn calls(&self, pieces: &[&RawValue]) -> Vec<ReplyCall> {
        pieces
            .iter()
            .filter_map(|item| Object::of(item))
            .filter(|item| item.get("type").is_some_and(|kind| kind.get() == r#""function_call""#))
            .map(|item| {
                let id = item.id("call_id").or_else(|| item.id("id"));
                ReplyCall::new(id, item.text("name"), Arguments::read(item.get("arguments")))
            })
            .collect()
    }

    fn usage(&self, response: &Object) -> Option<UsageMetadata> {
        let usage = response.object("usage")?;
        told(without_cached(UsageMetadata {
            input_tokens: count(&usage, "input_tokens"),
            output_tokens: count(&usage, "output_tokens"),
            total_tokens: count(&usage, "total_tokens"),
            // Codex has them beside the others.
            cached_input_tokens: nested(&usage, "input_tokens_details", "cached_tokens")
                .or_else(|| count(&usage, "cached_input_tokens")),
            cache_write_tokens: None,
            reasoning_tokens: nested(&usage, "output_tokens_details", "reasoning_tokens")
                .or_else(|| count(&usage, "reasoning_output_tokens")),
        }))
    }

    fn read(&self, raw: &RawValue, object: &Object, source: Source, units: &mut Vec<Unit>) {
        history::read(raw, object, source, units);
    }

    /// A `function_call_output` item a result, then one user message with all
    /// pictures.
    fn messages(&self, results: &[ToolResult]) -> Vec<String> {
        let item = |result: &ToolResult| {
            written(&Output { call_id: result.id_or_empty(), output: result.text_naming_failure() })
        };
        let pictures = Pictures::of(results).map(|pictures| {
            let note = Input::InputText { text: &pictures.note };
            let images =
                pictures.images.iter().map(|image| Input::InputImage { image_url: DataUrl(image) });
            let content = std::iter::once(note).chain(images).collect();
            written(&UserItem { role: "user", content })
        });
        results.iter().map(item).chain(pictures).collect()
    }

    fn history(&self, turns: Vec<Turn>, notes: &mut Notes) -> Vec<String> {
        history::write(turns, Style::Responses, notes)
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function_call_output")]
struct Output<'a> {
    call_id: &'a str,
    output: Text<'a>,
}

#[derive(Serialize)]
struct UserItem<'a> {
    role: &'static str,
    content: Vec<Input<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Input<'a> {
    InputText { text: &'a str },
    InputImage { image_url: DataUrl<'a> },
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::interaction::backend::result::tests::round;

    fn written_by(shape: impl Shape) -> Vec<Value> {
        shape.messages(&round()).iter().map(|m| serde_json::from_str(m).unwrap()).collect()
    }

    #[test]
    fn responses_take_items_and_then_one_message_of_pictures() {
        let messages = written_by(Responses);
        assert_eq!(
            messages[1],
            json!({"type": "function_call_output", "call_id": "b",
                   "output": "Error: NOT_FOUND: no such order"})
        );
        let content = messages[4]["content"].as_array().unwrap();
        assert_eq!((messages.len(), content.len()), (5, 4));
        assert_eq!(content[0]["type"], "input_text");
        assert_eq!(
            content[3],
            json!({"type": "input_image", "image_url": "data:image/png;base64,YWJj"})
        );
    }

    #[test]
    fn an_older_function_call_is_answered_by_name() {
        let messages = written_by(Functions);
        assert_eq!(
            messages[0],
            json!({"role": "function", "name": "echo", "content": r#"{"echoed":"\"hi\""}"#})
        );
        assert_eq!(messages[4]["content"][1]["type"], "image_url");
    }
}

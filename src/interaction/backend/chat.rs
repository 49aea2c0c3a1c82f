//! What OpenAI's chat completions and those who speak it after them (vLLM,
//! Ollama) have in common.

mod history;

use serde::Serialize;
use serde_json::value::RawValue;

pub(super) use history::{Style, read_message, write};

use super::{
    Arguments, ReplyCall, ToolResult,
    raw::Object,
    result::{DataUrl, Pictures, Text, written},
    usage::{count, nested, told, without_cached},
};
use crate::wire::pb::UsageMetadata;

/// The calls among an assistant message's `tool_calls`. Every item is one, since
/// the provider wants an answer to each: one without a function, too.
pub(super) fn calls(tool_calls: &[&RawValue]) -> Vec<ReplyCall> {
    tool_calls.iter().map(|item| call(item)).collect()
}

fn call(item: &RawValue) -> ReplyCall {
    let Some(item) = Object::of(item) else {
        return ReplyCall::new(None, None, Err("the call is not an object".to_owned()));
    };
    let id = item.id("id");
    match (item.object("function"), item.object("custom")) {
        (Some(function), _) => function_call(id, &function),
        (None, Some(custom)) => ReplyCall::new(
            id,
            custom.text("name"),
            Err("a custom tool's input is free text, not the JSON object an action takes".into()),
        ),
        (None, None) => ReplyCall::new(id, None, Err("the call has no `function`".to_owned())),
    }
}

/// A `{"name", "arguments"}` object as a call.
pub(super) fn function_call(id: Option<String>, function: &Object) -> ReplyCall {
    let arguments = Arguments::read(function.get("arguments"));
    ReplyCall::new(id, function.text("name"), arguments)
}

/// A `tool` message a result, then one user message with all pictures: a tool
/// message holds text alone, and nothing may stand between two of them.
pub(super) fn messages(results: &[ToolResult]) -> Vec<String> {
    let message = |result: &ToolResult| {
        let content = result.text_naming_failure();
        written(&ToolMessage { role: "tool", tool_call_id: result.id_or_empty(), content })
    };
    results.iter().map(message).chain(picture_message(results)).collect()
}

/// The user message that shows a round's pictures, where there are any.
pub(super) fn picture_message(results: &[ToolResult]) -> Option<String> {
    let pictures = Pictures::of(results)?;
    let note = Part::Text { text: &pictures.note };
    let images = pictures
        .images
        .iter()
        .map(|image| Part::ImageUrl { image_url: ImageUrl { url: DataUrl(image) } });
    let content = std::iter::once(note).chain(images).collect();
    Some(written(&UserMessage { role: "user", content }))
}

/// The counters of a completion.
pub(super) fn usage(response: &Object) -> Option<UsageMetadata> {
    let usage = response.object("usage")?;
    told(without_cached(UsageMetadata {
        input_tokens: count(&usage, "prompt_tokens"),
        output_tokens: count(&usage, "completion_tokens"),
        total_tokens: count(&usage, "total_tokens"),
        cached_input_tokens: nested(&usage, "prompt_tokens_details", "cached_tokens"),
        cache_write_tokens: None,
        reasoning_tokens: nested(&usage, "completion_tokens_details", "reasoning_tokens"),
    }))
}

#[derive(Serialize)]
struct ToolMessage<'a> {
    role: &'static str,
    tool_call_id: &'a str,
    content: Text<'a>,
}

#[derive(Serialize)]
struct UserMessage<'a> {
    role: &'static str,
    content: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUrl<'a>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::interaction::backend::result::tests::round;

    #[test]
    fn tool_messages_stand_together_and_pictures_after_the_last() {
        let messages: Vec<Value> =
            messages(&round()).iter().map(|m| serde_json::from_str(m).unwrap()).collect();
        let tool = |id: &str, content: &str| json!({"role": "tool", "tool_call_id": id, "content": content});
        assert_eq!(
            messages[..4],
            [
                tool("a", r#"{"echoed":"\"hi\""}"#),
                tool("b", "Error: NOT_FOUND: no such order"),
                tool("c", "(2 images, which follow the tool results)"),
                tool("d", "{}"),
            ]
        );
        let content = messages[4]["content"].as_array().unwrap();
        assert_eq!((messages.len(), &messages[4]["role"], content.len()), (5, &json!("user"), 4));
        assert_eq!(
            content[1],
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,b25l"}})
        );
    }
}

//! Google Gemini: the Interactions API, whose turns are steps, and
//! generateContent, whose turns are contents of parts.

mod generate_content;
mod interactions;

use serde::Serialize;
use serde_json::value::RawValue;

pub(super) use generate_content::{is_part, speaker};
pub(super) use interactions::is_step;

use super::{
    Arguments, Outcome, ReplyCall, ToolResult,
    notes::Notes,
    pairing::Turn,
    raw::{Kind, Object},
    result::{Base64, Pictures, Text, True, written},
    shape::Shape,
    turn::Source,
    unit::Unit,
    usage::{count, told, without_cached},
};
use crate::wire::pb::UsageMetadata;

/// The Interactions API. Pieces are steps.
pub(super) struct Interactions;

impl Shape for Interactions {
    fn calls(&self, pieces: &[&RawValue]) -> Vec<ReplyCall> {
        pieces
            .iter()
            .filter_map(|step| Object::of(step))
            .filter(|step| step.get("type").is_some_and(|kind| kind.get() == r#""function_call""#))
            .map(|step| {
                let arguments = Arguments::read(step.get("arguments"));
                ReplyCall::new(step.id("id"), step.text("name"), arguments)
            })
            .collect()
    }

    fn usage(&self, response: &Object) -> Option<UsageMetadata> {
        let usage = response.object("usage")?;
        told(gemini_counters(
            count(&usage, "total_tool_use_tokens"),
            UsageMetadata {
                input_tokens: count(&usage, "total_input_tokens"),
                output_tokens: count(&usage, "total_output_tokens"),
                total_tokens: count(&usage, "total_tokens"),
                cached_input_tokens: count(&usage, "total_cached_tokens"),
                cache_write_tokens: None,
                reasoning_tokens: count(&usage, "total_thought_tokens"),
            },
        ))
    }

    fn read(&self, raw: &RawValue, object: &Object, source: Source, units: &mut Vec<Unit>) {
        interactions::read(raw, object, source, units);
    }

    /// A `function_result` step a result, then one `user_input` step with all
    /// pictures.
    fn messages(&self, results: &[ToolResult]) -> Vec<String> {
        let step = |result: &ToolResult| {
            written(&FunctionResult {
                call_id: result.id_or_empty(),
                result: [TextPart { text: result.text() }],
                is_error: result.failed(),
                name: &result.name,
            })
        };
        let pictures = Pictures::of(results).map(|pictures| {
            let note = Input::Text { text: &pictures.note };
            let images = pictures.images.iter().map(|image| Input::Image {
                data: Base64(&image.data),
                mime_type: &image.media_type,
            });
            written(&UserInput { content: std::iter::once(note).chain(images).collect() })
        });
        results.iter().map(step).chain(pictures).collect()
    }

    fn history(&self, turns: Vec<Turn>, _notes: &mut Notes) -> Vec<String> {
        interactions::write(turns)
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function_result")]
struct FunctionResult<'a> {
    call_id: &'a str,
    result: [TextPart<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<True>,
    name: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "text")]
struct TextPart<'a> {
    text: Text<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "user_input")]
struct UserInput<'a> {
    content: Vec<Input<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Input<'a> {
    Text { text: &'a str },
    Image { data: Base64<'a>, mime_type: &'a str },
}

/// generateContent. Pieces are parts, in the API's spelling (`functionCall`) or
/// the Python SDK's (`function_call`).
pub(super) struct GenerateContent;

impl Shape for GenerateContent {
    fn calls(&self, pieces: &[&RawValue]) -> Vec<ReplyCall> {
        pieces
            .iter()
            .filter_map(|part| Object::of(part))
            .filter_map(|part| Object::of(part.either(["functionCall", "function_call"])?))
            .map(|call| {
                ReplyCall::new(call.id("id"), call.text("name"), Arguments::read(call.get("args")))
            })
            .collect()
    }

    fn usage(&self, response: &Object) -> Option<UsageMetadata> {
        let usage = Object::of(response.either(["usageMetadata", "usage_metadata"])?)?;
        let either = |keys: [&str; 2]| keys.into_iter().find_map(|key| count(&usage, key));
        told(gemini_counters(
            either(["toolUsePromptTokenCount", "tool_use_prompt_token_count"]),
            UsageMetadata {
                input_tokens: either(["promptTokenCount", "prompt_token_count"]),
                output_tokens: either(["candidatesTokenCount", "candidates_token_count"]),
                total_tokens: either(["totalTokenCount", "total_token_count"]),
                cached_input_tokens: either([
                    "cachedContentTokenCount",
                    "cached_content_token_count",
                ]),
                cache_write_tokens: None,
                reasoning_tokens: either(["thoughtsTokenCount", "thoughts_token_count"]),
            },
        ))
    }

    fn read(&self, raw: &RawValue, object: &Object, source: Source, units: &mut Vec<Unit>) {
        generate_content::read(raw, object, source, units);
    }

    /// One user content with a `functionResponse` part a call, as many as there
    /// were calls, then one with all pictures.
    fn messages(&self, results: &[ToolResult]) -> Vec<String> {
        let parts = results.iter().map(|result| Part::FunctionResponse {
            id: result.id.as_deref(),
            name: &result.name,
            response: Response::of(result),
        });
        let responses = written(&Content { role: "user", parts: parts.collect() });
        let pictures = Pictures::of(results).map(|pictures| {
            let images = pictures.images.iter().map(|image| Part::InlineData {
                mime_type: &image.media_type,
                data: Base64(&image.data),
            });
            let parts = std::iter::once(Part::Text(&pictures.note)).chain(images).collect();
            written(&Content { role: "user", parts })
        });
        std::iter::once(responses).chain(pictures).collect()
    }

    fn history(&self, turns: Vec<Turn>, notes: &mut Notes) -> Vec<String> {
        generate_content::write(turns, notes)
    }
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Part<'a> {
    Text(&'a str),
    FunctionResponse {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        name: &'a str,
        response: Response<'a>,
    },
    InlineData {
        #[serde(rename = "mimeType")]
        mime_type: &'a str,
        data: Base64<'a>,
    },
}

/// What came of a call, as the object that the API wants: these two keys are
/// the ones it documents.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Response<'a> {
    Output(Output<'a>),
    Error(&'a str),
}

/// A document that is an object is one here too, not text that holds one.
#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Object(&'a RawValue),
    Text(Text<'a>),
}

impl<'a> Response<'a> {
    fn of(result: &'a ToolResult) -> Self {
        match &result.outcome {
            Outcome::Failed(failure) => Response::Error(failure),
            Outcome::Done { text, .. } => {
                let object = text
                    .as_deref()
                    .and_then(|text| serde_json::from_str::<&RawValue>(text).ok())
                    .filter(|raw| Kind::of(raw) == Kind::Object);
                Response::Output(match object {
                    Some(raw) => Output::Object(raw),
                    None => Output::Text(result.text()),
                })
            }
        }
    }
}

/// Counters whose prompt is without what tools gave, and whose answer is without
/// the thoughts.
fn gemini_counters(by_tools: Option<u64>, counted: UsageMetadata) -> UsageMetadata {
    let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
    };
    without_cached(UsageMetadata {
        input_tokens: sum(counted.input_tokens, by_tools),
        output_tokens: sum(counted.output_tokens, counted.reasoning_tokens),
        ..counted
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::interaction::backend::result::tests::{done, round};

    fn written_by(shape: impl Shape, results: &[ToolResult]) -> Vec<Value> {
        shape.messages(results).iter().map(|m| serde_json::from_str(m).unwrap()).collect()
    }

    #[test]
    fn interactions_take_result_steps_and_then_one_user_input() {
        let steps = written_by(Interactions, &round());
        assert_eq!(
            steps[1],
            json!({"type": "function_result", "call_id": "b", "name": "order_status",
                   "result": [{"type": "text", "text": "NOT_FOUND: no such order"}],
                   "is_error": true})
        );
        let content = steps[4]["content"].as_array().unwrap();
        assert_eq!((steps.len(), &steps[4]["type"]), (5, &json!("user_input")));
        assert_eq!(content[3], json!({"type": "image", "data": "YWJj", "mime_type": "image/png"}));
    }

    #[test]
    fn generate_content_takes_all_responses_in_one_content_and_pictures_in_the_next() {
        let contents = written_by(GenerateContent, &round());
        let response = |id: &str, name: &str, response: Value| json!({"functionResponse": {"id": id, "name": name, "response": response}});
        assert_eq!(
            contents[0],
            json!({"role": "user", "parts": [
                response("a", "echo", json!({"output": {"echoed": "\"hi\""}})),
                response("b", "order_status", json!({"error": "NOT_FOUND: no such order"})),
                response("c", "two_pictures",
                         json!({"output": "(2 images, which follow the tool results)"})),
                response("d", "picture", json!({"output": {}})),
            ]})
        );
        let parts = contents[1]["parts"].as_array().unwrap();
        assert_eq!((contents.len(), parts.len()), (2, 4));
        assert_eq!(parts[1], json!({"inlineData": {"mimeType": "image/png", "data": "b25l"}}));
    }

    #[test]
    fn a_response_is_always_an_object_and_has_no_id_that_was_not_given() {
        let check = |text: &str, expected: Value| {
            let mut result = done("a", "n", Some(text), &[]);
            result.id = None;
            let contents = written_by(GenerateContent, &[result]);
            let part = json!({"functionResponse": {"name": "n", "response": {"output": expected}}});
            assert_eq!(contents[0]["parts"], json!([part]), "{text}");
        };
        check("answer to late", json!("answer to late"));
        check("[1,2]", json!("[1,2]"));
        check("12", json!("12"));
        check(r#" {"a": 1} "#, json!({"a": 1}));
        check(r#"{"a": 1"#, json!(r#"{"a": 1"#));
    }
}

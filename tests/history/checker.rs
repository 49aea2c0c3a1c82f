//! The rules that providers enforce on what they are sent, as code.

use std::collections::HashSet;

use a11_grpc::interaction::backend::Dialect;
use serde_json::Value;

/// Refuses what the provider would.
pub fn check(dialect: Dialect, messages: &[Value]) -> Result<(), String> {
    match dialect {
        Dialect::Claude | Dialect::ClaudeCode => claude(messages),
        Dialect::GptChat => chat(messages, 40, None),
        Dialect::Vllm => chat(messages, 255, Some(Alternation)),
        Dialect::GptFunctions => functions(messages),
        Dialect::Ollama => ollama(messages),
        Dialect::GptResponses | Dialect::Codex => items(messages, "call_id", "call_id"),
        Dialect::GeminiInteractions => items(messages, "id", "call_id"),
        Dialect::GeminiGenerateContent => generate_content(messages),
    }
    .map_err(|rule| format!("{dialect:?}: {rule}\n{messages:#?}"))
}

type Checked = Result<(), String>;

struct Alternation;

fn ensure(holds: bool, rule: &str) -> Checked {
    if holds { Ok(()) } else { Err(rule.to_owned()) }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn of_type<'a>(blocks: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    blocks.iter().filter(move |block| block["type"] == kind)
}

fn is_plain_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

fn claude(messages: &[Value]) -> Checked {
    let mut seen = HashSet::new();
    let mut waiting: Vec<&str> = vec![];
    for (at, message) in messages.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        ensure(message["role"] == role, "roles alternate, the user's first")?;
        let blocks = list(message, "content");
        if let Some(text) = message["content"].as_str() {
            ensure(!text.trim().is_empty() && role == "user", "no empty text")?;
            ensure(waiting.is_empty(), "calls are answered in the next message")?;
            continue;
        }
        ensure(!blocks.is_empty(), "no empty message")?;
        for block in of_type(blocks, "text") {
            ensure(!text(block, "text").trim().is_empty(), "no blank text block")?;
        }
        let results: Vec<&str> =
            of_type(blocks, "tool_result").map(|block| text(block, "tool_use_id")).collect();
        ensure(results == std::mem::take(&mut waiting), "each call is answered, in order")?;
        let first_other = blocks.iter().position(|block| block["type"] != "tool_result");
        ensure(
            first_other.is_none_or(|at| at == results.len()),
            "results come before anything else",
        )?;
        for call in of_type(blocks, "tool_use") {
            ensure(role == "assistant", "calls are the assistant's")?;
            ensure(call["input"].is_object(), "input is an object")?;
            let id = text(call, "id");
            ensure(is_plain_id(id), "ids are plain")?;
            ensure(seen.insert(id), "ids are unique")?;
            waiting.push(id);
        }
        if role == "assistant" {
            let last = blocks.last().map_or("", |block| text(block, "type"));
            ensure(!last.ends_with("thinking"), "no message ends in thinking")?;
            ensure(of_type(blocks, "image").next().is_none(), "no picture by the assistant")?;
        }
    }
    ensure(waiting.is_empty(), "the last calls are answered")
}

fn chat(messages: &[Value], max_id: usize, alternation: Option<Alternation>) -> Checked {
    let mut seen = HashSet::new();
    let mut waiting: Vec<&str> = vec![];
    let mut before = "";
    for message in messages {
        let role = text(message, "role");
        if role == "tool" {
            ensure(
                !waiting.is_empty() && waiting.remove(0) == text(message, "tool_call_id"),
                "results stand right after their calls, in their order",
            )?;
            ensure(message["content"].is_string(), "a result is text")?;
            before = role;
            continue;
        }
        ensure(waiting.is_empty(), "every call is answered before anything else is said")?;
        if alternation.is_some() {
            ensure(role != before, "roles alternate")?;
            ensure(role != "assistant" || !matches!(before, "" | "system"), "the user is first")?;
        }
        let is_empty = message["content"].as_str().is_none_or(str::is_empty)
            && list(message, "content").is_empty()
            && list(message, "tool_calls").is_empty();
        ensure(!is_empty, "no empty message")?;
        for call in list(message, "tool_calls") {
            let id = text(call, "id");
            ensure((1..=max_id).contains(&id.chars().count()), "ids have a length")?;
            ensure(seen.insert(id), "ids are unique")?;
            arguments_are_an_object(&call["function"])?;
            waiting.push(id);
        }
        before = role;
    }
    ensure(waiting.is_empty(), "the last calls are answered")
}

fn arguments_are_an_object(function: &Value) -> Checked {
    ensure(!text(function, "name").is_empty(), "a function has a name")?;
    let arguments = serde_json::from_str::<Value>(text(function, "arguments"));
    ensure(arguments.is_ok_and(|value| value.is_object()), "arguments are an object as text")
}

fn functions(messages: &[Value]) -> Checked {
    let mut waiting: Option<&str> = None;
    for message in messages {
        match waiting.take() {
            Some(name) => {
                let answers = message["role"] == "function" && message["name"] == name;
                ensure(answers, "a call is answered at once, by its name")?;
            }
            None => ensure(message["role"] != "function", "a result has its call")?,
        }
        if message["function_call"].is_object() {
            arguments_are_an_object(&message["function_call"])?;
            waiting = Some(text(&message["function_call"], "name"));
        }
    }
    ensure(waiting.is_none(), "the last call is answered")
}

fn ollama(messages: &[Value]) -> Checked {
    let mut waiting: Vec<&str> = vec![];
    for message in messages {
        if message["role"] == "tool" {
            let answers = !waiting.is_empty() && waiting.remove(0) == text(message, "tool_name");
            ensure(answers, "results stand right after their calls, in their order")?;
            continue;
        }
        ensure(waiting.is_empty(), "every call is answered before anything else is said")?;
        for call in list(message, "tool_calls") {
            ensure(call["function"]["arguments"].is_object(), "arguments are an object")?;
            waiting.push(text(&call["function"], "name"));
        }
    }
    ensure(waiting.is_empty(), "the last calls are answered")
}

/// Items of Responses, steps of Interactions: a turn's calls, then their results.
fn items(items: &[Value], id_of_call: &str, id_of_result: &str) -> Checked {
    let mut seen = HashSet::new();
    let mut waiting: Vec<&str> = vec![];
    let mut before = "";
    for item in items {
        let kind = text(item, "type");
        match kind {
            "function_call" => {
                let id = text(item, id_of_call);
                ensure((1..=64).contains(&id.chars().count()), "ids have a length")?;
                ensure(seen.insert(id), "ids are unique")?;
                match &item["arguments"] {
                    Value::String(_) => ensure(id_of_call == "call_id", "arguments are text")?,
                    Value::Object(_) => ensure(id_of_call == "id", "arguments are an object")?,
                    _ => ensure(id_of_call == "call_id", "there are arguments")?,
                }
                waiting.push(id);
            }
            "function_call_output" | "function_result" => {
                let answers = !waiting.is_empty() && waiting.remove(0) == text(item, id_of_result);
                ensure(answers, "results stand right after their calls, in their order")?;
            }
            // What the model said between its calls.
            "reasoning" | "thought" | "model_output" => {}
            _ if item["role"] == "assistant" => {}
            _ => {
                ensure(waiting.is_empty(), "every call is answered before the user speaks")?;
                ensure(before != "reasoning", "reasoning is followed by what it led to")?;
            }
        }
        before = kind;
    }
    ensure(waiting.is_empty(), "the last calls are answered")?;
    ensure(before != "reasoning", "reasoning is followed by what it led to")
}

fn generate_content(contents: &[Value]) -> Checked {
    let mut waiting: Vec<&str> = vec![];
    let mut before = "";
    for content in contents {
        let parts = list(content, "parts");
        ensure(!parts.is_empty(), "no empty content")?;
        let role = text(content, "role");
        ensure(role == "user" || (role == "model" && before == "user"), "the user is first")?;
        before = role;
        let names = |key: &str| -> Vec<&str> {
            let of_key = parts.iter().filter(|part| part[key].is_object());
            of_key.map(|part| text(&part[key], "name")).collect()
        };
        let responses = names("functionResponse");
        ensure(responses == waiting, "each call is answered, in the next content")?;
        ensure(
            responses.is_empty() || responses.len() == parts.len(),
            "responses stand alone in their content",
        )?;
        waiting = names("functionCall");
        ensure(waiting.is_empty() || role == "model", "calls are the model's")?;
    }
    ensure(waiting.is_empty(), "the last calls are answered")
}

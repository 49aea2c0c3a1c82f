//! Which dialect a reply has, told by its shape, and the pieces of it that may
//! be calls. What providers wrap a message in comes first, then the message.

use serde_json::value::RawValue;

use super::{
    Dialect, ReplyError, claude,
    raw::{self, Kind, Object},
};
use crate::wire::pb::Backend;

/// How many field names an error shows, and how much of each.
const SHOWN_FIELDS: usize = 12;
const SHOWN_FIELD_CHARS: usize = 40;

/// A recognised reply.
pub(super) struct Found<'a> {
    pub(super) dialect: Dialect,
    /// What the dialect's backend takes for pieces, calls among them.
    pub(super) pieces: Vec<&'a RawValue>,
}

/// Tells the dialect of a reply.
pub(super) fn recognise(raw: &RawValue, hint: Option<Backend>) -> Result<Found<'_>, ReplyError> {
    let found = match Kind::of(raw) {
        Kind::Object => match Object::of(raw) {
            Some(object) => of_object(raw, &object, hint)?,
            None => None,
        },
        Kind::List => of_list(raw::list(raw).unwrap_or_default(), hint)?,
        _ => None,
    };
    found.ok_or_else(|| ReplyError::Unknown { seen: seen(raw) })
}

type Recognised<'a> = Result<Option<Found<'a>>, ReplyError>;

fn found(dialect: Dialect, pieces: Vec<&RawValue>) -> Recognised<'_> {
    Ok(Some(Found { dialect, pieces }))
}

/// A whole response, or something smaller that is an object.
fn of_object<'a>(raw: &'a RawValue, object: &Object<'a>, hint: Option<Backend>) -> Recognised<'a> {
    if let Some(choices) = object.list("choices") {
        let message = choices.first().and_then(|choice| Object::of(choice)?.object("message"));
        return match message {
            Some(message) => of_chat_choice(&message, hint),
            None => Ok(None),
        };
    }
    if is_generate_content(object) {
        return found(Dialect::GeminiGenerateContent, parts_of(object));
    }
    if let Some(output) = object.list("output") {
        let is_response = object.text("object").as_deref() == Some("response");
        let looks_so = || {
            let dialect = dialect_of(&output, hint);
            matches!(dialect, Some(Dialect::GptResponses | Dialect::Codex))
        };
        return if is_response || looks_so() { found(responses(hint), output) } else { Ok(None) };
    }
    for key in ["steps", "outputs"] {
        if let Some(steps) = object.list(key) {
            let typed =
                |step: &&RawValue| Object::of(step).is_some_and(|s| s.get("type").is_some());
            return match steps.iter().all(typed) {
                true => found(Dialect::GeminiInteractions, steps),
                false => Ok(None),
            };
        }
    }
    if let Some(messages) = object.list("messages") {
        return of_last_message(&messages, hint);
    }
    if let Some(message) = object.object("message") {
        if object.text("type").as_deref() == Some("assistant") {
            // Claude Code's stream wraps Claude's message in a line of its own.
            return of_message(&message, Some(Backend::ClaudeCode));
        }
        if object.get("finish_reason").is_some() {
            return of_chat_choice(&message, hint);
        }
        if object.get("done").is_some() {
            return of_ollama(&message);
        }
        return of_message(&message, hint);
    }
    match object.text("type").as_deref() {
        Some("tool_use" | "function_call") => of_list(vec![raw], hint),
        _ => of_message(object, hint),
    }
}

/// A list: content blocks, parts, steps, items, tool calls, messages, or the
/// responses of a stream.
fn of_list<'a>(items: Vec<&'a RawValue>, hint: Option<Backend>) -> Recognised<'a> {
    let objects: Vec<Object> = items.iter().filter_map(|item| Object::of(item)).collect();
    let Some(last) = objects.last() else {
        // No reply says so little, but what a program takes out of one may.
        let dialect = hint.and_then(Dialect::default_of).filter(|_| items.is_empty());
        return Ok(dialect.map(|dialect| Found { dialect, pieces: vec![] }));
    };
    if objects.iter().all(is_generate_content) {
        let parts = objects.iter().flat_map(parts_of).collect();
        return found(Dialect::GeminiGenerateContent, parts);
    }
    if let Some(dialect) = dialect_of(&items, hint) {
        return found(dialect, items);
    }
    if objects.iter().all(|object| object.object("function").is_some()) {
        return found(chat_dialect(&items, hint), items);
    }
    if last.get("role").is_some() { of_message(last, hint) } else { Ok(None) }
}

fn of_last_message<'a>(messages: &[&'a RawValue], hint: Option<Backend>) -> Recognised<'a> {
    match messages.last().and_then(|message| Object::of(message)) {
        Some(message) => of_message(&message, hint),
        None => Ok(None),
    }
}

/// An assistant's message, or a model's content, by itself.
fn of_message<'a>(message: &Object<'a>, hint: Option<Backend>) -> Recognised<'a> {
    let role = message.text("role");
    if let Some(role) = role.as_ref().filter(|role| !matches!(role.as_str(), "assistant" | "model"))
    {
        return Err(ReplyError::NotTheModel { role: raw::start_of(role) });
    }
    let calls = tool_calls(message)?;
    if !calls.is_empty() {
        return found(chat_dialect(&calls, hint), calls);
    }
    if let Some(parts) = message.list("parts") {
        return found(Dialect::GeminiGenerateContent, parts);
    }
    if let Some(call) = older_call(message) {
        return found(Dialect::GptFunctions, vec![call]);
    }
    let is_assistant = role.as_deref() == Some("assistant");
    let is_claude = message.text("type").as_deref() == Some("message");
    let hint = match hint {
        Some(Backend::Claude | Backend::ClaudeCode) => hint,
        _ if is_claude => None,
        _ => hint,
    };
    if let Some(content) = message.list("content") {
        let dialect = match dialect_of(&content, hint) {
            Some(dialect) => dialect,
            None if is_assistant && content.is_empty() => alike(hint, Dialect::Claude),
            None => return Ok(None),
        };
        // A chat message's own content holds no calls.
        let pieces = if is_chat(dialect) { vec![] } else { content };
        return found(dialect, pieces);
    }
    if is_assistant { found(alike(hint, Dialect::GptChat), vec![]) } else { Ok(None) }
}

/// The message of a chat completion: OpenAI's, or vLLM's.
fn of_chat_choice<'a>(message: &Object<'a>, hint: Option<Backend>) -> Recognised<'a> {
    let dialect = if hint == Some(Backend::Vllm) { Dialect::Vllm } else { Dialect::GptChat };
    let calls = tool_calls(message)?;
    match older_call(message) {
        Some(call) if calls.is_empty() => found(Dialect::GptFunctions, vec![call]),
        _ => found(dialect, calls),
    }
}

fn of_ollama<'a>(message: &Object<'a>) -> Recognised<'a> {
    found(Dialect::Ollama, tool_calls(message)?)
}

/// The `tool_calls` of a message; none where it has none.
fn tool_calls<'a>(message: &Object<'a>) -> Result<Vec<&'a RawValue>, ReplyError> {
    let Some(raw) = message.get("tool_calls") else { return Ok(vec![]) };
    raw::list(raw).ok_or_else(|| ReplyError::NotAList {
        field: "tool_calls",
        seen: Kind::of(raw).to_string(),
    })
}

/// The `function_call` that chat messages had before `tool_calls`.
fn older_call<'a>(message: &Object<'a>) -> Option<&'a RawValue> {
    message.get("function_call").filter(|raw| Kind::of(raw) == Kind::Object)
}

fn is_generate_content(object: &Object) -> bool {
    object.get("candidates").is_some()
        || object.either(["promptFeedback", "prompt_feedback"]).is_some()
        || object.either(["usageMetadata", "usage_metadata"]).is_some()
            && object.either(["modelVersion", "model_version"]).is_some()
}

/// The parts of a generateContent response's first candidate. A refused or empty
/// one has none.
fn parts_of<'a>(response: &Object<'a>) -> Vec<&'a RawValue> {
    let candidates = response.list("candidates").unwrap_or_default();
    candidates
        .first()
        .and_then(|candidate| Object::of(candidate)?.object("content")?.list("parts"))
        .unwrap_or_default()
}

/// The dialect of a list's items by the first that only one dialect has, else by
/// one that several have. None where no item is known.
fn dialect_of(items: &[&RawValue], hint: Option<Backend>) -> Option<Dialect> {
    let mut likely = None;
    for item in items.iter().filter_map(|item| Object::of(item)) {
        match item.text("type").as_deref() {
            Some("tool_use" | "thinking" | "redacted_thinking" | "server_tool_use") => {
                return Some(claude(hint));
            }
            Some("function_call") => return Some(of_function_call(&item, hint)),
            Some("reasoning" | "output_text" | "refusal" | "custom_tool_call") => {
                return Some(responses(hint));
            }
            Some("thought" | "model_output") => return Some(Dialect::GeminiInteractions),
            Some("text") => likely = likely.or_else(|| Some(alike(hint, Dialect::Claude))),
            // Claude's messages have this type too, but no status.
            Some("message") if item.get("status").is_some() => {
                likely = likely.or_else(|| Some(responses(hint)));
            }
            Some(kind) if kind.ends_with("_call") => {
                likely = likely.or_else(|| Some(responses(hint)));
            }
            Some(_) => {}
            None if item.either(["functionCall", "function_call"]).is_some()
                && item.get("role").is_none() =>
            {
                return Some(Dialect::GeminiGenerateContent);
            }
            None if claude::is_call(&item) => return Some(claude(hint)),
            None if item.text("text").is_some() => {
                likely = likely.or(Some(Dialect::GeminiGenerateContent));
            }
            None => {}
        }
    }
    likely
}

/// Responses and Interactions both have `function_call` items: the first writes
/// its arguments as text and pairs by `call_id`.
fn of_function_call(item: &Object, hint: Option<Backend>) -> Dialect {
    let arguments = item.get("arguments").map(Kind::of);
    if item.get("call_id").is_some() || arguments == Some(Kind::Text) {
        return responses(hint);
    }
    match (arguments, hint) {
        (None, Some(Backend::Gpt | Backend::Codex)) => responses(hint),
        _ => Dialect::GeminiInteractions,
    }
}

/// OpenAI, vLLM and Ollama have one shape of `tool_calls`. Ollama alone writes
/// arguments as an object, or leaves out the id that the others pair by.
fn chat_dialect(calls: &[&RawValue], hint: Option<Backend>) -> Dialect {
    let calls: Vec<Object> = calls.iter().filter_map(|call| Object::of(call)).collect();
    let have_ids = calls.iter().all(|call| call.id("id").is_some());
    let have_objects = calls
        .iter()
        .filter_map(|call| call.object("function")?.get("arguments"))
        .any(|arguments| Kind::of(arguments) == Kind::Object);
    match hint {
        Some(Backend::Ollama) => Dialect::Ollama,
        Some(Backend::Gpt) if have_ids || !have_objects => Dialect::GptChat,
        Some(Backend::Vllm) if have_ids || !have_objects => Dialect::Vllm,
        _ if have_objects || !have_ids => Dialect::Ollama,
        _ => Dialect::GptChat,
    }
}

fn is_chat(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::GptChat | Dialect::GptFunctions | Dialect::Vllm | Dialect::Ollama)
}

fn claude(hint: Option<Backend>) -> Dialect {
    if hint == Some(Backend::ClaudeCode) { Dialect::ClaudeCode } else { Dialect::Claude }
}

fn responses(hint: Option<Backend>) -> Dialect {
    if hint == Some(Backend::Codex) { Dialect::Codex } else { Dialect::GptResponses }
}

/// For a message without calls that every provider could have written.
fn alike(hint: Option<Backend>, otherwise: Dialect) -> Dialect {
    hint.and_then(Dialect::default_of).unwrap_or(otherwise)
}

/// What a value is, for someone who has sent the wrong one.
fn seen(raw: &RawValue) -> String {
    let fields = match Kind::of(raw) {
        Kind::Object => Object::of(raw),
        Kind::List => {
            let items = raw::list(raw).unwrap_or_default();
            let Some(first) = items.first() else { return "an empty list".to_owned() };
            match Object::of(first) {
                Some(object) => return format!("a list of objects with {}", field_names(&object)),
                None => return format!("a list, first {}", Kind::of(first)),
            }
        }
        kind => return format!("{kind}, {}", raw::start_of(raw.get())),
    };
    fields.map_or_else(
        || "an object".to_owned(),
        |object| format!("an object with {}", field_names(&object)),
    )
}

fn field_names(object: &Object) -> String {
    if object.0.is_empty() {
        return "no fields".to_owned();
    }
    let mut names: Vec<String> = object
        .0
        .iter()
        .take(SHOWN_FIELDS)
        .map(|(name, _)| name.chars().take(SHOWN_FIELD_CHARS).collect())
        .collect();
    if object.0.len() > SHOWN_FIELDS {
        names.push("…".to_owned());
    }
    format!("the fields {}", names.join(", "))
}

//! A conversation of chat messages, read (Claude's and Ollama's messages too,
//! whose envelope is the same) and written for OpenAI and vLLM.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{ImageUrl, Part};
use crate::interaction::backend::{
    Dialect,
    claude::BEFORE_THE_MODEL,
    notes::Notes,
    ollama,
    pairing::{Answer, Turn},
    raw::{Kind, Object, list, start_of},
    result::{DataUrl, written},
    shown::{after_results, shown_text},
    turn::{Source, push_text, read_value},
    unit::{Call, CallResult, Content, Native, Picture, Speaker, Unit, read_result},
};

/// Reads a message.
pub(in crate::interaction::backend) fn read_message(
    message: &Object,
    source: Source,
    units: &mut Vec<Unit>,
) {
    let role = message.text("role").unwrap_or_default();
    let source = match role.as_str() {
        "assistant" | "model" => source.by(Speaker::Model),
        "user" => source.by(Speaker::User),
        "system" | "developer" => source.by(Speaker::System),
        "tool" | "function" => {
            let (text, images) = read_result(message.get("content"));
            units.push(Unit::result(CallResult {
                id: message.id("tool_call_id"),
                name: message.text("tool_name").or_else(|| message.text("name")),
                text,
                is_error: false,
                images,
            }));
            return;
        }
        _ => source,
    };
    let reasoning = ["reasoning_content", "reasoning", "thinking"]
        .iter()
        .filter_map(|key| message.get(key))
        .find(|raw| raw.get() != "\"\"");
    if let Some(raw) = reasoning {
        let native = ollama::kept(raw, message, source);
        units.push(Unit::own(Speaker::Model, "reasoning", native));
    }
    match message.get("content") {
        Some(raw) if Kind::of(raw) == Kind::List => {
            for item in list(raw).unwrap_or_default() {
                match chat_part(item, source) {
                    Some(unit) => units.push(unit),
                    None => read_value(item, source, units),
                }
            }
        }
        Some(raw) => read_value(raw, source, units),
        None => {}
    }
    if let Some(refusal) = message.text("refusal") {
        push_text(refusal, source, units);
    }
    if message.get("audio").is_some() {
        units.push(Unit::own(source.speaker, "spoken audio", None));
    }
    units.extend(ollama::pictures(message, source.speaker));
    let calls = message.list("tool_calls").unwrap_or_default();
    units.extend(calls.iter().filter_map(|call| Object::of(call)).map(|item| {
        let (name, arguments) = match (item.object("function"), item.object("custom")) {
            (Some(function), _) => (function.text("name"), function.get("arguments")),
            (None, Some(custom)) => (custom.text("name"), custom.get("input")),
            (None, None) => (None, None),
        };
        Unit::call(Call::new(item.id("id"), name, arguments))
    }));
    if let Some(call) = message.object("function_call") {
        units.push(Unit::call(Call::new(None, call.text("name"), call.get("arguments"))));
    }
}

/// A part that chat alone has: audio, video, a file.
fn chat_part(raw: &RawValue, source: Source) -> Option<Unit> {
    let kind = Object::of(raw)?.text("type")?;
    if !matches!(kind.as_str(), "input_audio" | "audio_url" | "video_url" | "file") {
        return None;
    }
    let native = source
        .native(Dialect::GptChat, raw)
        .filter(|_| source.backend.is_some())
        .or_else(|| source.tagged(Dialect::Vllm, raw))
        // What the user sends; of what a model said, chat takes text alone.
        .filter(|_| source.speaker == Speaker::User);
    Some(Unit::own(source.speaker, format!("a part of type {}", start_of(&kind)), native))
}

/// How the dialects of chat differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::interaction::backend) enum Style {
    /// OpenAI: any order of user and assistant messages.
    Free,
    /// vLLM: many models' templates want them in turn, the user first.
    Alternating,
    /// OpenAI's older function calls: one at a time, by name.
    Functions,
}

/// Writes a conversation.
pub(in crate::interaction::backend) fn write(
    turns: Vec<Turn>,
    style: Style,
    notes: &mut Notes,
) -> Vec<String> {
    let mut writer = Writer { style, messages: vec![] };
    for turn in turns {
        match turn.speaker {
            Speaker::Model if style == Style::Functions => writer.functions(turn),
            Speaker::Model => writer.model(turn),
            Speaker::User | Speaker::System => writer.user(user_parts(turn.units)),
        }
    }
    if style == Style::Alternating && writer.messages.first().is_some_and(Message::is_model) {
        writer.messages.insert(0, Message::User(vec![UserPart::Text(BEFORE_THE_MODEL.into())]));
        notes.added("", "a first user turn", "the conversation begins with the model");
    }
    writer.messages.iter().map(written).collect()
}

struct Writer {
    style: Style,
    messages: Vec<Message>,
}

impl Writer {
    fn model(&mut self, turn: Turn) {
        let mut text = String::new();
        let mut tool_calls = vec![];
        let mut answers = turn.answers.iter();
        for part in turn.units.into_iter().flat_map(|unit| unit.parts) {
            match part {
                Content::Text(part) => text.push_str(&part),
                Content::Call(call) => tool_calls.extend(answers.next().map(|answer| ToolCall {
                    id: answer.id.clone(),
                    r#type: "function",
                    function: Function { name: answer.name.clone(), arguments: call.arguments },
                })),
                Content::Image(_) | Content::Result(_) => {}
            }
        }
        if text.is_empty() && tool_calls.is_empty() {
            return;
        }
        match (self.style, self.messages.last_mut()) {
            (Style::Alternating, Some(Message::Model { text: before, tool_calls: calls })) => {
                if !before.is_empty() && !text.is_empty() {
                    before.push_str("\n\n");
                }
                before.push_str(&text);
                calls.extend(tool_calls);
            }
            _ => self.messages.push(Message::Model { text, tool_calls }),
        }
        let tool = |answer: &Answer| Message::Tool {
            id: answer.id.clone(),
            content: shown_text(&answer.result),
        };
        self.messages.extend(turn.answers.iter().map(tool));
        self.pictures(turn.answers);
    }

    fn functions(&mut self, turn: Turn) {
        let mut said = String::new();
        let mut answers = turn.answers.iter();
        for part in turn.units.into_iter().flat_map(|unit| unit.parts) {
            match part {
                Content::Text(part) => said.push_str(&part),
                Content::Call(call) => {
                    let Some(answer) = answers.next() else { continue };
                    self.messages.push(Message::Function {
                        text: std::mem::take(&mut said),
                        call: Function { name: answer.name.clone(), arguments: call.arguments },
                    });
                    let name = answer.name.clone();
                    let content = shown_text(&answer.result);
                    self.messages.push(Message::FunctionResult { name, content });
                }
                Content::Image(_) | Content::Result(_) => {}
            }
        }
        if !said.is_empty() {
            self.messages.push(Message::Model { text: said, tool_calls: vec![] });
        }
        self.pictures(turn.answers);
    }

    fn pictures(&mut self, answers: Vec<Answer>) {
        let (note, images) = after_results(answers);
        if !images.is_empty() {
            let note = note.map(UserPart::Text).into_iter();
            self.user(note.chain(images.into_iter().map(UserPart::Image)).collect());
        }
    }

    fn user(&mut self, parts: Vec<UserPart>) {
        if parts.is_empty() {
            return;
        }
        match (self.style, self.messages.last_mut()) {
            (Style::Alternating, Some(Message::User(before))) => before.extend(parts),
            _ => self.messages.push(Message::User(parts)),
        }
    }
}

fn user_parts(units: Vec<Unit>) -> Vec<UserPart> {
    let part = |unit: Unit| -> Vec<UserPart> {
        let Unit { parts, native, .. } = unit;
        match (parts.is_empty(), native) {
            (true, Some(Native { raw, .. })) => vec![UserPart::Raw(raw)],
            _ => parts.into_iter().filter_map(user_part).collect(),
        }
    };
    units.into_iter().flat_map(part).collect()
}

fn user_part(content: Content) -> Option<UserPart> {
    match content {
        Content::Text(text) => Some(UserPart::Text(text)),
        Content::Image(picture) => Some(UserPart::Image(picture)),
        Content::Call(_) | Content::Result(_) => None,
    }
}

enum Message {
    User(Vec<UserPart>),
    Model { text: String, tool_calls: Vec<ToolCall> },
    Tool { id: String, content: String },
    Function { text: String, call: Function },
    FunctionResult { name: String, content: String },
}

enum UserPart {
    Text(String),
    Image(Picture),
    Raw(Box<RawValue>),
}

#[derive(Serialize)]
struct ToolCall {
    id: String,
    r#type: &'static str,
    function: Function,
}

#[derive(Serialize)]
struct Function {
    name: String,
    #[serde(serialize_with = "as_text")]
    arguments: Box<RawValue>,
}

fn as_text<S: serde::Serializer>(raw: &RawValue, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(raw.get())
}

impl Message {
    fn is_model(&self) -> bool {
        matches!(self, Message::Model { .. } | Message::Function { .. })
    }
}

/// A message's fields; which ones it has is its kind.
#[derive(Default, Serialize)]
struct Fields<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    content: Body<'a>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tool_calls: &'a [ToolCall],
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<&'a Function>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Text(&'a str),
    Parts(Vec<Box<RawValue>>),
}

impl Default for Body<'_> {
    fn default() -> Self {
        Body::Text("")
    }
}

impl Serialize for Message {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = match self {
            Message::User(parts) => {
                let content = match &parts[..] {
                    [UserPart::Text(text)] => Body::Text(text),
                    parts => Body::Parts(parts.iter().map(UserPart::raw).collect()),
                };
                Fields { role: "user", content, ..Fields::default() }
            }
            Message::Model { text, tool_calls } => Fields {
                role: "assistant",
                content: Body::Text(text),
                tool_calls,
                ..Fields::default()
            },
            Message::Tool { id, content } => Fields {
                role: "tool",
                tool_call_id: Some(id),
                content: Body::Text(content),
                ..Fields::default()
            },
            Message::Function { text, call } => Fields {
                role: "assistant",
                content: Body::Text(text),
                function_call: Some(call),
                ..Fields::default()
            },
            Message::FunctionResult { name, content } => Fields {
                role: "function",
                name: Some(name),
                content: Body::Text(content),
                ..Fields::default()
            },
        };
        fields.serialize(serializer)
    }
}

impl UserPart {
    fn raw(&self) -> Box<RawValue> {
        let part = match self {
            UserPart::Raw(raw) => return raw.clone(),
            UserPart::Text(text) => to_raw_value(&Part::Text { text }),
            UserPart::Image(Picture::Data(image)) => {
                to_raw_value(&Part::ImageUrl { image_url: ImageUrl { url: DataUrl(image) } })
            }
            UserPart::Image(Picture::Url(url)) => to_raw_value(&serde_json::json!({
                "type": "image_url", "image_url": {"url": url},
            })),
        };
        part.unwrap_or_default()
    }
}

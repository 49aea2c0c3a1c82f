//! Ollama's conversation, written; and what of its messages no other chat has.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::interaction::backend::{
    Dialect, Image,
    notes::Notes,
    pairing::Turn,
    raw::Object,
    result::{Base64, written},
    shown::{after_results, shown_text},
    turn::Source,
    unit::{Content, Native, Picture, Speaker, Unit},
};
use crate::wire::base64;

/// Thinking, which goes back to Ollama as it came.
pub(in crate::interaction::backend) fn kept(
    raw: &RawValue,
    message: &Object,
    source: Source,
) -> Option<Native> {
    message.get("thinking")?;
    source.tagged(Dialect::Ollama, raw)
}

/// The pictures of a message, which are base64 alone: what they are is told by
/// their first bytes.
pub(in crate::interaction::backend) fn pictures(message: &Object, speaker: Speaker) -> Vec<Unit> {
    let Some(raw) = message.get("images") else { return vec![] };
    let Ok(images) = serde_json::from_str::<Vec<String>>(raw.get()) else {
        return vec![Unit::own(speaker, "pictures that cannot be read", None)];
    };
    let unit = |text: String| match base64::decode(&text) {
        Ok(data) => {
            let media_type = media_type(&data).to_owned();
            let image = Image { media_type, data: data.into() };
            Unit::of(speaker, Content::Image(Picture::Data(image)))
        }
        Err(_) => Unit::own(speaker, "a picture that is not base64", None),
    };
    images.into_iter().map(unit).collect()
}

fn media_type(data: &[u8]) -> &'static str {
    match data {
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => "image/png",
    }
}

/// Writes a conversation.
pub(in crate::interaction::backend) fn write(turns: Vec<Turn>, _notes: &mut Notes) -> Vec<String> {
    let mut messages = vec![];
    for turn in turns {
        let Turn { speaker, units, answers, .. } = turn;
        let mut text = String::new();
        let mut thinking = None;
        let mut images = vec![];
        let mut tool_calls = vec![];
        let mut calls = answers.iter();
        for Unit { parts, native, .. } in units {
            if parts.is_empty() {
                thinking = native.map(|native| native.raw);
            }
            for part in parts {
                match part {
                    Content::Text(part) => text.push_str(&part),
                    Content::Image(picture) => images.push(picture),
                    Content::Call(call) => tool_calls.extend(calls.next().map(|answer| ToolCall {
                        function: Function { name: answer.name.clone(), arguments: call.arguments },
                    })),
                    Content::Result(_) => {}
                }
            }
        }
        let role = match speaker {
            Speaker::Model => "assistant",
            Speaker::User | Speaker::System => "user",
        };
        if !text.is_empty() || !images.is_empty() || !tool_calls.is_empty() || thinking.is_some() {
            let images = data_of(&images);
            messages.push(written(&Message { role, content: text, thinking, images, tool_calls }));
        }
        for answer in &answers {
            let content = shown_text(&answer.result);
            messages.push(written(&Tool { role: "tool", content, tool_name: &answer.name }));
        }
        let (note, images) = after_results(answers);
        if !images.is_empty() {
            let content = note.unwrap_or_default();
            let images = data_of(&images);
            messages.push(written(&Message {
                role: "user",
                content,
                images,
                ..Message::default()
            }));
        }
    }
    messages
}

/// Addresses were left out before: Ollama has no picture that it did not get.
fn data_of(images: &[Picture]) -> Vec<Base64<'_>> {
    let data = |picture| match picture {
        &Picture::Data(Image { ref data, .. }) => Some(Base64(data)),
        Picture::Url(_) => None,
    };
    images.iter().filter_map(data).collect()
}

#[derive(Default, Serialize)]
struct Message<'a> {
    role: &'static str,
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<Base64<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
}

#[derive(Serialize)]
struct ToolCall {
    function: Function,
}

#[derive(Serialize)]
struct Function {
    name: String,
    arguments: Box<RawValue>,
}

#[derive(Serialize)]
struct Tool<'a> {
    role: &'static str,
    content: String,
    tool_name: &'a str,
}

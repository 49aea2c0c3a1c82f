//! A conversation as items of OpenAI Responses, read and written. Codex keeps
//! its threads in the same items.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::interaction::backend::{
    Dialect, chat,
    notes::Notes,
    pairing::{Answer, Turn},
    raw::{Kind, Object},
    result::{DataUrl, written},
    shown::{after_results, shown_text},
    turn::{Source, read_value},
    unit::{
        Call, CallResult, Content, Native, Picture, Speaker, Unit, raw_of, read_result, with_text,
    },
};
use crate::wire::pb::Backend;

/// Reads a message, a call, its output, or reasoning.
pub(super) fn read(raw: &RawValue, item: &Object, source: Source, units: &mut Vec<Unit>) {
    let native = || source.native(Dialect::GptResponses, raw);
    let model = Speaker::Model;
    units.push(match item.text("type").as_deref() {
        Some("function_call") => {
            let id = item.id("call_id").or_else(|| item.id("id"));
            let call = Call::new(id, item.text("name"), item.get("arguments"));
            let is_whole = item.get("call_id").is_some()
                && item.get("arguments").is_some_and(|raw| Kind::of(raw) == Kind::Text)
                && call.is_named();
            Unit::call(call).with(is_whole.then(native).flatten())
        }
        Some("function_call_output") => {
            let (text, images) = read_result(item.get("output"));
            let id = item.id("call_id");
            let output = item.get("output").map(Kind::of);
            let is_whole = matches!(output, Some(Kind::Text | Kind::List));
            Unit::result(CallResult { id, text, images, ..CallResult::default() })
                .with(is_whole.then(native).flatten())
        }
        Some("reasoning") => Unit::own(model, "reasoning", native()),
        _ if is_output(item, source) => {
            let mut said = vec![];
            for part in item.list("content").unwrap_or_default() {
                read_value(part, source.by(model), &mut said);
            }
            let parts: Vec<Content> = said.into_iter().flat_map(|unit| unit.parts).collect();
            if parts.is_empty() {
                return;
            }
            Unit { speaker: model, parts, native: native(), own: String::new() }
        }
        _ => return chat::read_message(item, source, units),
    });
}

/// Whether a message is one the model put out: others, Claude's among them, have
/// the type too.
fn is_output(item: &Object, source: Source) -> bool {
    let by_model = item.text("role").as_deref() == Some("assistant");
    let is_typed = || {
        let parts = item.list("content").unwrap_or_default();
        parts
            .iter()
            .filter_map(|part| Object::of(part)?.text("type"))
            .all(|kind| matches!(kind.as_str(), "output_text" | "refusal"))
    };
    by_model
        && item.get("status").is_some()
        && is_typed()
        && !matches!(source.backend, Some(Backend::Claude | Backend::ClaudeCode))
}

/// Whose items.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::interaction::backend) enum Style {
    /// OpenAI's own: what the model said is text.
    Responses,
    /// Codex reads back only items that say their type, with their parts.
    Codex,
}

/// Writes a conversation.
pub(in crate::interaction::backend) fn write(
    turns: Vec<Turn>,
    style: Style,
    notes: &mut Notes,
) -> Vec<String> {
    let mut items = vec![];
    for turn in turns {
        let Turn { speaker, interaction, units, answers } = turn;
        match speaker {
            Speaker::Model => model(&interaction, units, &answers, style, notes, &mut items),
            Speaker::User | Speaker::System => user(units, style, &mut items),
        }
        items.extend(answers.iter().map(output));
        let (note, images) = after_results(answers);
        if !images.is_empty() {
            let note = note.map(Content::Text).into_iter();
            let parts = note.chain(images.into_iter().map(Content::Image));
            items.push(user_item(parts.collect(), style));
        }
    }
    items.iter().map(|item| item.get().to_owned()).collect()
}

fn model(
    interaction: &str,
    units: Vec<Unit>,
    answers: &[Answer],
    style: Style,
    notes: &mut Notes,
    items: &mut Vec<Box<RawValue>>,
) {
    let mut calls = answers.iter();
    let mut said = String::new();
    let mut reasoning = 0;
    for Unit { parts, native, .. } in units {
        if let Some(Native { raw, .. }) = &native
            && !matches!(parts[..], [Content::Call(_)])
        {
            said_so_far(&mut said, style, items);
            let is_reasoning = parts.is_empty();
            reasoning = if is_reasoning { reasoning + 1 } else { 0 };
            items.push(raw.clone());
            continue;
        }
        for part in parts {
            match part {
                Content::Text(text) => said.push_str(&text),
                Content::Call(call) => {
                    let Some(answer) = calls.next() else { continue };
                    said_so_far(&mut said, style, items);
                    items.push(match &native {
                        Some(native) if call.id.as_ref() == Some(&answer.id) => native.raw.clone(),
                        Some(native) => with_text(&native.raw, "call_id", &answer.id),
                        None => raw_of(written(&Item::FunctionCall {
                            call_id: &answer.id,
                            name: &answer.name,
                            arguments: call.arguments.get(),
                        })),
                    });
                }
                Content::Image(_) | Content::Result(_) => continue,
            }
            reasoning = 0;
        }
    }
    if said.is_empty() {
        // Reasoning is refused without the item it led to.
        for _ in 0..reasoning {
            items.pop();
            notes.dropped(interaction, "reasoning", "nothing follows it in its turn");
        }
    }
    said_so_far(&mut said, style, items);
}

fn said_so_far(said: &mut String, style: Style, items: &mut Vec<Box<RawValue>>) {
    let text = std::mem::take(said);
    if text.is_empty() {
        return;
    }
    items.push(match style {
        Style::Responses => message(None, "assistant", &text),
        Style::Codex => message(Some("message"), "assistant", [Part::OutputText { text: &text }]),
    });
}

fn user(units: Vec<Unit>, style: Style, items: &mut Vec<Box<RawValue>>) {
    let mut parts = vec![];
    for unit in units {
        match unit.native {
            Some(native) => {
                if !parts.is_empty() {
                    items.push(user_item(std::mem::take(&mut parts), style));
                }
                items.push(native.raw);
            }
            None => parts.extend(unit.parts),
        }
    }
    if !parts.is_empty() {
        items.push(user_item(parts, style));
    }
}

fn user_item(parts: Vec<Content>, style: Style) -> Box<RawValue> {
    if let ([Content::Text(text)], Style::Responses) = (&parts[..], style) {
        return message(None, "user", text);
    }
    let part = |content: &Content| match content {
        Content::Text(text) => to_raw_value(&Part::InputText { text }).ok(),
        Content::Image(picture) => {
            to_raw_value(&Part::InputImage { detail: "auto", image_url: Url::of(picture) }).ok()
        }
        Content::Call(_) | Content::Result(_) => None,
    };
    let content: Vec<_> = parts.iter().filter_map(part).collect();
    message(Some("message"), "user", content)
}

fn output(answer: &Answer) -> Box<RawValue> {
    let Answer { id, result, native, .. } = answer;
    match native {
        Some(native) if result.id.as_ref() == Some(id) => native.raw.clone(),
        Some(native) => with_text(&native.raw, "call_id", id),
        None => {
            raw_of(written(&Item::FunctionCallOutput { call_id: id, output: shown_text(result) }))
        }
    }
}

fn message(
    r#type: Option<&'static str>,
    role: &'static str,
    content: impl Serialize,
) -> Box<RawValue> {
    to_raw_value(&Message { r#type, role, content }).unwrap_or_default()
}

#[derive(Serialize)]
struct Message<C> {
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
    role: &'static str,
    content: C,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    FunctionCall { call_id: &'a str, name: &'a str, arguments: &'a str },
    FunctionCallOutput { call_id: &'a str, output: String },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText { text: &'a str },
    OutputText { text: &'a str },
    InputImage { detail: &'static str, image_url: Url<'a> },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Url<'a> {
    Data(DataUrl<'a>),
    Elsewhere(&'a str),
}

impl<'a> Url<'a> {
    fn of(picture: &'a Picture) -> Self {
        match picture {
            Picture::Data(image) => Self::Data(DataUrl(image)),
            Picture::Url(url) => Self::Elsewhere(url),
        }
    }
}

//! A conversation as steps of Gemini's Interactions API, read and written.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::interaction::backend::{
    Dialect,
    pairing::{Answer, Turn},
    raw::{Kind, Object},
    result::{Base64, True, written},
    shown::{after_results, marked_text},
    turn::{Source, read_value},
    unit::{
        Call, CallResult, Content, Native, Picture, Speaker, Unit, raw_of, read_result, with_text,
    },
};
use crate::wire::pb::Backend;

/// Whether a `function_call` is a step: OpenAI has items of that type, whose
/// arguments are text.
pub(in crate::interaction::backend) fn is_step(item: &Object, source: Source) -> bool {
    match item.get("arguments").map(Kind::of) {
        Some(Kind::Text) => false,
        Some(_) => item.get("call_id").is_none(),
        None => !matches!(source.backend, Some(Backend::Gpt | Backend::Codex)),
    }
}

/// Reads a step.
pub(super) fn read(raw: &RawValue, step: &Object, source: Source, units: &mut Vec<Unit>) {
    let kind = step.text("type").unwrap_or_default();
    let native = || source.native(Dialect::GeminiInteractions, raw);
    match kind.as_str() {
        "function_call" => {
            let arguments = step.get("arguments");
            let is_object = arguments.is_some_and(|arguments| Kind::of(arguments) == Kind::Object);
            let call = Call::new(step.id("id"), step.text("name"), arguments);
            let is_whole = call.id.is_some() && call.is_named() && is_object;
            units.push(Unit::call(call).with(is_whole.then(native).flatten()));
        }
        "function_result" => {
            let (text, images) = read_result(step.get("result"));
            let is_error = step.get("is_error").is_some_and(|raw| raw.get() == "true");
            let (id, name) = (step.id("call_id"), step.text("name"));
            let result = CallResult { id, name, text, is_error, images };
            let is_whole = result.id.is_some() && step.get("result").is_some();
            units.push(Unit::result(result).with(is_whole.then(native).flatten()));
        }
        "thought" => units.push(Unit::own(Speaker::Model, "reasoning", native())),
        _ => {
            let is_input = kind == "user_input";
            let speaker = if is_input { Speaker::User } else { Speaker::Model };
            let mut said = vec![];
            if let Some(content) = step.get("content") {
                read_value(content, source.by(speaker), &mut said);
            }
            let parts: Vec<Content> =
                said.iter_mut().flat_map(|unit| std::mem::take(&mut unit.parts)).collect();
            let own = said.into_iter().map(|unit| unit.own).find(|own| !own.is_empty());
            if !parts.is_empty() || own.is_some() {
                let own = own.unwrap_or_default();
                units.push(Unit { speaker, parts, native: native(), own });
            }
        }
    }
}

/// Writes a conversation.
pub(in crate::interaction::backend) fn write(turns: Vec<Turn>) -> Vec<String> {
    let mut steps = Steps::default();
    for Turn { speaker, units, answers, .. } in turns {
        let mut calls = answers.iter();
        for Unit { parts, native, .. } in units {
            if let Some(Native { raw, .. }) = &native
                && !matches!(parts[..], [Content::Call(_)])
            {
                steps.push(raw);
                continue;
            }
            for part in parts {
                match part {
                    Content::Text(_) | Content::Image(_) => steps.say(speaker, &part),
                    Content::Call(call) => {
                        let Some(answer) = calls.next() else { continue };
                        let step = match &native {
                            Some(native) if call.id.as_ref() == Some(&answer.id) => {
                                native.raw.clone()
                            }
                            Some(native) => with_text(&native.raw, "id", &answer.id),
                            None => raw_of(written(&Step::FunctionCall {
                                id: &answer.id,
                                name: &answer.name,
                                arguments: &call.arguments,
                            })),
                        };
                        steps.push(&step);
                    }
                    Content::Result(_) => {}
                }
            }
        }
        steps.end();
        answers.iter().map(result).for_each(|step| steps.push(&step));
        let (note, images) = after_results(answers);
        let note = note.map(Content::Text).into_iter();
        for part in note.chain(images.into_iter().map(Content::Image)) {
            steps.say(Speaker::User, &part);
        }
        steps.end();
    }
    steps.written
}

/// Steps, and the content of the one in the making.
#[derive(Default)]
struct Steps {
    written: Vec<String>,
    content: Vec<Box<RawValue>>,
    is_output: bool,
}

impl Steps {
    fn say(&mut self, speaker: Speaker, part: &Content) {
        let is_output = speaker == Speaker::Model;
        if self.is_output != is_output {
            self.end();
            self.is_output = is_output;
        }
        self.content.push(content(part));
    }

    fn push(&mut self, step: &RawValue) {
        self.end();
        self.written.push(step.get().to_owned());
    }

    fn end(&mut self) {
        let content = std::mem::take(&mut self.content);
        if !content.is_empty() {
            self.written.push(match self.is_output {
                true => written(&Step::ModelOutput { content }),
                false => written(&Step::UserInput { content }),
            });
        }
    }
}

fn content(part: &Content) -> Box<RawValue> {
    let written = match part {
        Content::Text(text) => to_raw_value(&Piece::Text { text }),
        Content::Image(Picture::Data(image)) => to_raw_value(&Piece::Image {
            data: Some(Base64(&image.data)),
            mime_type: Some(&image.media_type),
            uri: None,
        }),
        Content::Image(Picture::Url(uri)) => {
            to_raw_value(&Piece::Image { data: None, mime_type: None, uri: Some(uri) })
        }
        Content::Call(_) | Content::Result(_) => return Box::default(),
    };
    written.unwrap_or_default()
}

fn result(answer: &Answer) -> Box<RawValue> {
    let Answer { id, result, native, .. } = answer;
    match native {
        Some(native) if result.id.as_ref() == Some(id) => native.raw.clone(),
        Some(native) => with_text(&native.raw, "call_id", id),
        None => raw_of(written(&Step::FunctionResult {
            call_id: id,
            result: [Piece::Text { text: &marked_text(result) }],
            is_error: result.is_error.then_some(True),
        })),
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Step<'a> {
    UserInput {
        content: Vec<Box<RawValue>>,
    },
    ModelOutput {
        content: Vec<Box<RawValue>>,
    },
    FunctionCall {
        id: &'a str,
        name: &'a str,
        arguments: &'a RawValue,
    },
    FunctionResult {
        call_id: &'a str,
        result: [Piece<'a>; 1],
        #[serde(skip_serializing_if = "Option::is_none")]
        is_error: Option<True>,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece<'a> {
    Text {
        text: &'a str,
    },
    Image {
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<Base64<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        mime_type: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        uri: Option<&'a str>,
    },
}

//! A conversation as contents of Gemini's generateContent, read and written.
//! Contents alternate, the user's is first, and one with calls is followed by
//! one with as many responses and nothing else.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::Response;
use crate::interaction::backend::{
    Dialect, Outcome, ToolResult,
    claude::BEFORE_THE_MODEL,
    notes::Notes,
    pairing::{Answer, Turn},
    raw::{Kind, Object},
    result::{Base64, written},
    shown::{after_results, marked_text},
    turn::Source,
    unit::{Call, CallResult, Content, Picture, Speaker, Unit, picture_of, read_result},
};

/// Gemini 3 refuses a turn whose first call has no signature. This one it
/// documents for calls that another model made.
const FOREIGN_CALL: &str = "skip_thought_signature_validator";

const PARTS: [&str; 12] = [
    "functionCall",
    "function_call",
    "functionResponse",
    "function_response",
    "inlineData",
    "inline_data",
    "fileData",
    "file_data",
    "thoughtSignature",
    "thought_signature",
    "executableCode",
    "codeExecutionResult",
];

/// Whether an object without a type is a part.
pub(in crate::interaction::backend) fn is_part(object: &Object) -> bool {
    PARTS.iter().any(|key| object.get(key).is_some()) || object.text("text").is_some()
}

/// Who speaks in a content.
pub(in crate::interaction::backend) fn speaker(content: &Object, source: Source) -> Source {
    match content.text("role").as_deref() {
        Some("model") => source.by(Speaker::Model),
        Some("user" | "function") => source.by(Speaker::User),
        Some("system") => source.by(Speaker::System),
        _ => source,
    }
}

/// Reads a part.
pub(super) fn read(raw: &RawValue, part: &Object, source: Source, units: &mut Vec<Unit>) {
    let native = || source.native(Dialect::GeminiGenerateContent, raw);
    let speaker = source.speaker;
    let call = part.either(["functionCall", "function_call"]).and_then(Object::of);
    let response = part.either(["functionResponse", "function_response"]).and_then(Object::of);
    units.push(if let Some(call) = call {
        let arguments = call.get("args");
        let is_object = arguments.is_none_or(|arguments| Kind::of(arguments) == Kind::Object);
        let call = Call::new(call.id("id"), call.text("name"), arguments);
        let is_whole = is_object && call.is_named();
        Unit::call(call).with(is_whole.then(native).flatten())
    } else if let Some(response) = response {
        Unit::result(result(&response)).with(native())
    } else if part.get("thought").is_some_and(|raw| raw.get() == "true") {
        Unit::own(Speaker::Model, "reasoning", native())
    } else if let Some(text) = part.text("text") {
        let signed = part.either(["thoughtSignature", "thought_signature"]).is_some();
        match (text.is_empty(), signed) {
            (true, false) => return,
            // The signature alone may come last, on an empty text.
            (true, true) => Unit::own(Speaker::Model, "reasoning", native()),
            (false, _) => Unit::text(speaker, text).with(signed.then(native).flatten()),
        }
    } else if let Some(picture) = picture_of(part) {
        let native = (speaker == Speaker::Model).then(native).flatten();
        Unit::of(speaker, Content::Image(picture)).with(native)
    } else {
        let name = part.0.first().map_or("", |(name, _)| name);
        let what = format!("a part with {}", crate::interaction::backend::raw::start_of(name));
        Unit::own(speaker, what, native())
    });
}

fn result(response: &Object) -> CallResult {
    let body = response.object("response");
    let field = |key| body.as_ref().and_then(|body| body.get(key));
    let (value, is_error) = match (field("output"), field("error")) {
        (Some(output), _) => (Some(output), false),
        (None, Some(error)) => (Some(error), true),
        (None, None) => (response.get("response"), false),
    };
    let (text, _) = match value {
        Some(value) if Kind::of(value) == Kind::List => (value.get().to_owned(), vec![]),
        value => read_result(value),
    };
    let parts = response.list("parts").unwrap_or_default();
    let images = parts.iter().filter_map(|part| picture_of(&Object::of(part)?)).collect();
    let (id, name) = (response.id("id"), response.text("name"));
    CallResult { id, name, text, is_error, images }
}

/// Writes a conversation.
pub(in crate::interaction::backend) fn write(turns: Vec<Turn>, notes: &mut Notes) -> Vec<String> {
    let mut writer = Writer::default();
    for Turn { speaker, units, answers, .. } in turns {
        writer.turn_to(if speaker == Speaker::Model { "model" } else { "user" });
        let mut calls = answers.iter();
        let mut is_signed = false;
        for Unit { parts, native, .. } in units {
            if let Some(native) = native {
                if parts.iter().any(|part| matches!(part, Content::Call(_))) {
                    calls.next();
                    is_signed = true;
                }
                writer.parts.push(native.raw);
                continue;
            }
            for part in parts {
                writer.parts.extend(match part {
                    Content::Text(text) => to_raw_value(&Part::text(&text)).ok(),
                    Content::Image(Picture::Data(image)) => to_raw_value(&Part {
                        inline_data: Some(InlineData {
                            mime_type: &image.media_type,
                            data: Base64(&image.data),
                        }),
                        ..Part::default()
                    })
                    .ok(),
                    Content::Call(call) => calls.next().and_then(|answer| {
                        let signature = (!is_signed).then_some(FOREIGN_CALL);
                        is_signed = true;
                        let name = &answer.name;
                        let args = &*call.arguments;
                        to_raw_value(&Part {
                            thought_signature: signature,
                            function_call: Some(FunctionCall { name, args }),
                            ..Part::default()
                        })
                        .ok()
                    }),
                    Content::Image(Picture::Url(_)) | Content::Result(_) => None,
                });
            }
        }
        if !answers.is_empty() {
            writer.flush();
            writer.role = "user";
            writer.parts.extend(answers.iter().map(response));
            writer.flush();
            let (note, images) = after_results(answers);
            let note = note.iter().map(|note| to_raw_value(&Part::text(note)));
            writer.parts.extend(note.filter_map(Result::ok));
            for picture in &images {
                let Picture::Data(image) = picture else { continue };
                let data = Base64(&image.data);
                let inline_data = Some(InlineData { mime_type: &image.media_type, data });
                let part = to_raw_value(&Part { inline_data, ..Part::default() });
                writer.parts.extend(part.ok());
            }
        }
    }
    writer.flush();
    if writer.contents.first().is_some_and(|first| first.role == "model") {
        let parts = to_raw_value(&Part::text(BEFORE_THE_MODEL)).into_iter().collect();
        writer.contents.insert(0, Written { role: "user", parts });
        notes.added("", "a first user turn", "the conversation begins with the model");
    }
    writer.contents.iter().map(written).collect()
}

#[derive(Default)]
struct Writer {
    contents: Vec<Written>,
    role: &'static str,
    parts: Vec<Box<RawValue>>,
}

impl Writer {
    fn turn_to(&mut self, role: &'static str) {
        if self.role != role {
            self.flush();
            self.role = role;
        }
    }

    fn flush(&mut self) {
        let mut parts = std::mem::take(&mut self.parts);
        let role = self.role;
        match self.contents.last_mut() {
            _ if parts.is_empty() => {}
            Some(before) if role == "model" && before.role == role => {
                before.parts.append(&mut parts);
            }
            _ => self.contents.push(Written { role, parts }),
        }
    }
}

/// A response goes by its name and place; an id only where the call has one.
fn response(answer: &Answer) -> Box<RawValue> {
    let Answer { name, own_id, is_native, result, native, .. } = answer;
    let id = own_id.as_deref().filter(|_| *is_native);
    let is_its = || *is_native && id == result.id.as_deref() && result.name.as_ref() == Some(name);
    if let Some(native) = native.as_ref().filter(|_| is_its()) {
        return native.raw.clone();
    }
    let text = marked_text(result);
    let outcome = match result.is_error {
        true => Outcome::Failed(text),
        false => Outcome::Done { text: Some(text), images: vec![] },
    };
    let result = ToolResult { id: None, name: name.clone(), outcome };
    let response = Response::of(&result);
    let function_response = Some(FunctionResponse { id, name, response });
    to_raw_value(&Part { function_response, ..Part::default() }).unwrap_or_default()
}

#[derive(Serialize)]
struct Written {
    role: &'static str,
    parts: Vec<Box<RawValue>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<InlineData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

impl<'a> Part<'a> {
    fn text(text: &'a str) -> Self {
        Self { text: Some(text), ..Self::default() }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'a str,
    data: Base64<'a>,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    name: &'a str,
    args: &'a RawValue,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: Response<'a>,
}

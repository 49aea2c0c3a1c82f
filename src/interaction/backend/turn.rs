//! An interaction as units, whichever provider's JSON it holds. What wraps a
//! message is opened here; what a block, step, item or part means is asked of
//! the backend that has that shape.

use serde_json::value::RawValue;

use super::{
    Dialect, Image, MAX_DEPTH, claude, gemini, parse_backend,
    raw::{self, Kind, Object, list, start_of},
    records::{self, Failures},
    shape::shape_of,
    unit::{CallResult, Content, Native, Picture, Speaker, Unit, picture_of, read_result},
};
use crate::wire::{
    Chunk,
    chunk::{self, Kind as MediaKind},
    json_weight,
    pb::{Backend, Interaction, Role},
};

/// What is known of a turn before its JSON is read.
#[derive(Clone, Copy)]
pub(super) struct Source {
    /// Who produced it, where its metadata says so.
    pub(super) backend: Option<Backend>,
    /// Who speaks, where the JSON does not say.
    pub(super) speaker: Speaker,
}

impl Source {
    /// Keeps a block as its provider wrote it, unless someone else produced the
    /// turn: then it only has that provider's shape.
    pub(super) fn native(self, family: Dialect, raw: &RawValue) -> Option<Native> {
        let is_its_own = match self.backend {
            None => true,
            Some(backend) => {
                Dialect::ALL.iter().any(|d| d.backend() == backend && d.family() == family)
            }
        };
        is_its_own.then(|| Native { family, raw: raw.to_owned() })
    }

    /// The same, of a shape that is not that provider's alone.
    pub(super) fn tagged(self, family: Dialect, raw: &RawValue) -> Option<Native> {
        self.backend.and_then(|_| self.native(family, raw))
    }

    pub(super) fn by(self, speaker: Speaker) -> Self {
        Self { speaker, ..self }
    }
}

/// The units of a turn, in order. Where its content has no calls, those of its
/// own records come last; where it has no results, theirs come first.
pub(super) fn units_of(interaction: &Interaction) -> Vec<Unit> {
    let backend = interaction.backend_specific_metadata.get("backend");
    let backend = backend.and_then(|name| std::str::from_utf8(name).ok());
    let source = Source {
        backend: backend.and_then(|name| parse_backend(name).ok()),
        speaker: match interaction.role() {
            Role::Unspecified | Role::User => Speaker::User,
            Role::Model => Speaker::Model,
            Role::System => Speaker::System,
        },
    };
    let mut units = vec![];
    let mut media_type = "";
    for chunk in &interaction.content {
        if !chunk.media_type().is_empty() {
            media_type = chunk.media_type();
        }
        read_chunk(chunk, media_type, source, &mut units);
    }
    if units.iter().any(Unit::has_result) {
        mark_failures(&mut units, &Failures::of(interaction));
    } else {
        units.splice(0..0, records::results(interaction));
    }
    if !units.iter().any(Unit::has_call) {
        units.extend(records::calls(interaction));
    }
    units
}

/// Says of results whose dialect cannot tell that they are failures.
fn mark_failures(units: &mut [Unit], failures: &Failures) {
    for part in units.iter_mut().flat_map(|unit| &mut unit.parts) {
        let Content::Result(result) = part else { continue };
        let failed = result.id.as_ref().is_some_and(|id| failures.of_call(id).is_some());
        if failed && !result.is_error {
            result.is_error = true;
            if let Some(text) = result.text.strip_prefix("Error: ") {
                result.text = text.to_owned();
            }
        }
    }
}

/// Reads a chunk of content, or of system instructions.
pub(super) fn read_chunk(chunk: &Chunk, media_type: &str, source: Source, units: &mut Vec<Unit>) {
    let speaker = source.speaker;
    let kind = MediaKind::of(media_type);
    if let Some(reference) = chunk.reference() {
        units.push(match kind {
            MediaKind::Image if reference.starts_with("http") => {
                Unit::of(speaker, Content::Image(Picture::Url(reference.to_owned())))
            }
            _ => Unit::own(speaker, format!("content kept at {}", start_of(reference)), None),
        });
        return;
    }
    let data = chunk.data();
    match (kind, std::str::from_utf8(data)) {
        (MediaKind::Image, _) => {
            let media_type = chunk::essence(media_type).into_owned();
            let image = Image { media_type, data: data.clone() };
            units.push(Unit::of(speaker, Content::Image(Picture::Data(image))));
        }
        (MediaKind::Json, Ok(json)) => {
            let raw = (!raw::is_deeper_than(MAX_DEPTH, json.as_bytes())
                && json_weight::check(json.as_bytes()).is_ok())
            .then(|| serde_json::from_str::<&RawValue>(json).ok())
            .flatten();
            match raw {
                Some(raw) => read_value(raw, source, units),
                None => push_text(json.to_owned(), source, units),
            }
        }
        (MediaKind::Text, Ok(text)) => push_text(text.to_owned(), source, units),
        (MediaKind::Bytes | MediaKind::Audio, _) if data.is_empty() => {}
        (_, _) => {
            let what = if media_type.is_empty() { "unknown bytes" } else { media_type };
            units.push(Unit::own(speaker, format!("content of {}", start_of(what)), None));
        }
    }
}

/// Reads a provider's JSON: a reply, a message, a list of either, or a part.
pub(super) fn read_value(raw: &RawValue, source: Source, units: &mut Vec<Unit>) {
    match Kind::of(raw) {
        Kind::Object => match Object::of(raw) {
            Some(object) => read_object(raw, &object, source, units),
            None => push_text(raw.get().to_owned(), source, units),
        },
        Kind::List => list(raw).into_iter().flatten().for_each(|i| read_value(i, source, units)),
        Kind::Text => match serde_json::from_str(raw.get()) {
            Ok(text) => push_text(text, source, units),
            Err(_) => units.push(Unit::own(source.speaker, "text that is not Unicode", None)),
        },
        Kind::Number | Kind::Bool => push_text(raw.get().to_owned(), source, units),
        Kind::Null => {}
    }
}

fn read_object(raw: &RawValue, object: &Object, source: Source, units: &mut Vec<Unit>) {
    let model = source.by(Speaker::Model);
    if let Some(choices) = object.list("choices") {
        let message = choices.first().and_then(|choice| Object::of(choice)?.get("message"));
        return message.into_iter().for_each(|message| read_value(message, model, units));
    }
    if let Some(candidates) = object.list("candidates") {
        let content = candidates.first().and_then(|first| Object::of(first)?.get("content"));
        return content.into_iter().for_each(|content| read_value(content, model, units));
    }
    if object.get("type").is_none() || object.get("role").is_some() {
        for key in ["messages", "contents", "steps", "outputs", "output", "input"] {
            // A typeless dump of a Claude call has its arguments in `input`.
            if let Some(raw) = object.get(key).filter(|raw| Kind::of(raw) == Kind::List) {
                let source = if key == "output" { model } else { source };
                return read_value(raw, source, units);
            }
        }
    }
    if let Some(message) = object.get("message").filter(|raw| Kind::of(raw) == Kind::Object) {
        return read_value(message, source, units);
    }
    if let Some(parts) = object.list("parts") {
        let source = gemini::speaker(object, source);
        return parts.into_iter().for_each(|part| match Object::of(part) {
            Some(object) => {
                shape_of(Dialect::GeminiGenerateContent).read(part, &object, source, units);
            }
            None => push_text(part.get().to_owned(), source, units),
        });
    }
    match object.text("type") {
        Some(kind) if object.get("role").is_none() || kind == "message" => {
            read_item(raw, object, &kind, source, units);
        }
        _ if object.get("role").is_some() => {
            shape_of(Dialect::GptChat).read(raw, object, source, units);
        }
        _ if is_mcp_result(object, source) => {
            let (text, images) = read_result(object.get("content"));
            let is_error = ["isError", "is_error"]
                .iter()
                .any(|key| object.get(key).is_some_and(|raw| raw.get() == "true"));
            units.push(Unit::result(CallResult {
                text,
                images,
                is_error,
                ..CallResult::default()
            }));
        }
        _ if gemini::is_part(object) => {
            shape_of(Dialect::GeminiGenerateContent).read(raw, object, source, units);
        }
        _ if claude::is_untyped(object) => {
            shape_of(Dialect::Claude).read(raw, object, source, units);
        }
        // A document that someone said is as good as text.
        _ => push_text(raw.get().to_owned(), source, units),
    }
}

/// A block, a step or an item: something with a type.
pub(super) fn read_item(
    raw: &RawValue,
    item: &Object,
    kind: &str,
    source: Source,
    units: &mut Vec<Unit>,
) {
    let speaker = source.speaker;
    let dialect = match kind {
        "text" | "input_text" | "output_text" | "refusal" => {
            let key = if kind == "refusal" { "refusal" } else { "text" };
            return units.push(match item.text(key) {
                Some(text) if text.is_empty() => return,
                Some(text) => Unit::text(speaker, text).with(claude::kept(raw, kind, source)),
                None => Unit::own(speaker, "a text that is not Unicode", None),
            });
        }
        "image" | "image_url" | "input_image" => {
            let own = || Unit::own(speaker, "a picture that cannot be read", None);
            let unit = match picture_of(item) {
                Some(picture) => Unit::of(speaker, Content::Image(picture)),
                None => own(),
            };
            return units.push(unit.with(claude::kept(raw, kind, source)));
        }
        "function_call" if gemini::is_step(item, source) => Dialect::GeminiInteractions,
        "message" | "function_call" | "function_call_output" | "reasoning" => Dialect::GptResponses,
        "user_input" | "model_output" | "thought" | "function_result" => {
            Dialect::GeminiInteractions
        }
        "tool_use" | "tool_result" | "thinking" | "redacted_thinking" => Dialect::Claude,
        _ => {
            let family = family_of_unknown(kind, source);
            return units.push(Unit::own(
                speaker,
                format!("a block of type {}", start_of(kind)),
                family.and_then(|family| source.native(family, raw)),
            ));
        }
    };
    shape_of(dialect).read(raw, item, source, units);
}

/// Who understands a block that nobody else does.
fn family_of_unknown(kind: &str, source: Source) -> Option<Dialect> {
    match source.backend {
        Some(Backend::Ollama | Backend::Vllm) => None,
        Some(Backend::Gpt) => Some(Dialect::GptResponses),
        Some(backend) => Dialect::default_of(backend).map(Dialect::family),
        None if matches!(kind, "server_tool_use" | "mcp_tool_use" | "document")
            || kind.ends_with("_tool_result") =>
        {
            Some(Dialect::Claude)
        }
        None if kind.ends_with("_call") => Some(Dialect::GptResponses),
        None => None,
    }
}

/// MCP results have no role and no type, and are told by what else they have.
fn is_mcp_result(object: &Object, source: Source) -> bool {
    let by_agent = matches!(source.backend, Some(Backend::ClaudeCode | Backend::Codex));
    object.list("content").is_some()
        && (by_agent || object.either(["isError", "is_error"]).is_some())
}

pub(super) fn push_text(text: String, source: Source, units: &mut Vec<Unit>) {
    if !text.is_empty() {
        units.push(Unit::text(source.speaker, text));
    }
}

//! A stored conversation as the messages the next provider is sent, whoever
//! produced each turn.

use super::{
    Dialect,
    call_id::CallIds,
    notes::{Note, Notes},
    pairing::pair,
    raw::start_of,
    result::written,
    shape::shape_of,
    turn::{Source, read_chunk, units_of},
    unit::{Content, Native, Picture, Speaker, Unit},
};
use crate::wire::{
    Status,
    pb::{Backend, Interaction},
};

/// A conversation in one provider's shape, and what became of it on the way.
#[derive(Debug, Clone, Default)]
pub struct Converted {
    /// The system prompt, where the provider takes it beside the conversation
    /// (Claude's `system`, Gemini's `system_instruction`, the `instructions` of
    /// Responses and Codex). None where there is none, or where it is the first
    /// of `messages` (chat, vLLM, Ollama).
    pub system: Option<String>,
    /// The messages, contents, steps or items to send, each one JSON text.
    pub messages: Vec<String>,
    /// What this provider cannot be sent, and results that belong to no call.
    pub dropped: Vec<Note>,
    /// What had to be added for the provider to take the rest: results for calls
    /// that have none.
    pub added: Vec<Note>,
}

/// Writes a conversation, in its order, for a provider. Turns that it produced
/// itself go back as it wrote them, signed reasoning included.
///
/// Held are the rules that providers enforce: every call has its result right
/// after the turn that made it, ids are of their length and characters and the
/// same every time the history is sent, pictures stand where the provider takes
/// them, and no message is empty. The system prompt is that of the last turn
/// that has one, then the turns of the system role.
pub fn convert(history: &[Interaction], to: Dialect) -> Converted {
    let mut notes = Notes::default();
    let mut system = instructions(history, &mut notes);
    let mut turns = Vec::with_capacity(history.len());
    for interaction in history {
        let units = units_of(interaction);
        note_empty_failure(interaction, &units, &mut notes);
        let mut kept = Vec::with_capacity(units.len());
        for unit in units {
            if unit.speaker == Speaker::System {
                system.extend(texts(&interaction.id, unit, &mut notes));
            } else {
                kept.extend(prepare(&interaction.id, unit, to, &mut notes));
            }
        }
        turns.push((interaction.id.clone(), kept));
    }
    let turns = pair(turns.into_iter(), CallIds::of(to), &mut notes);
    let mut messages = shape_of(to).history(turns, &mut notes);
    let mut system = Some(system.join("\n\n")).filter(|system| !system.is_empty());
    if takes_system_as_message(to)
        && let Some(text) = system.take()
    {
        messages.insert(0, written(&serde_json::json!({"role": "system", "content": text})));
    }
    let Notes { dropped, added } = notes;
    Converted { system, messages, dropped, added }
}

fn takes_system_as_message(dialect: Dialect) -> bool {
    match dialect {
        Dialect::GptChat | Dialect::GptFunctions | Dialect::Ollama | Dialect::Vllm => true,
        Dialect::Claude
        | Dialect::ClaudeCode
        | Dialect::Codex
        | Dialect::GeminiInteractions
        | Dialect::GeminiGenerateContent
        | Dialect::GptResponses => false,
    }
}

/// The last system prompt. One that a later turn replaced is noted.
fn instructions(history: &[Interaction], notes: &mut Notes) -> Vec<String> {
    let mut current: (&str, Vec<String>) = ("", vec![]);
    for interaction in history {
        let source = Source { backend: None, speaker: Speaker::System };
        let mut units = vec![];
        let mut media_type = "";
        for chunk in &interaction.system_instructions {
            if !chunk.media_type().is_empty() {
                media_type = chunk.media_type();
            }
            read_chunk(chunk, media_type, source, &mut units);
        }
        let found: Vec<String> =
            units.into_iter().flat_map(|unit| texts(&interaction.id, unit, notes)).collect();
        if found.is_empty() {
            continue;
        }
        if !current.1.is_empty() && current.1 != found {
            notes.dropped(current.0, "system instructions", "a later turn replaces them");
        }
        current = (&interaction.id, found);
    }
    current.1
}

/// The texts of a unit; the rest is noted.
fn texts(interaction: &str, unit: Unit, notes: &mut Notes) -> Vec<String> {
    let why = "system instructions are text alone";
    if unit.parts.is_empty() {
        notes.dropped(interaction, unit.own, why);
    }
    let mut texts = vec![];
    for part in unit.parts {
        match part {
            Content::Text(text) => texts.push(text),
            Content::Image(_) => notes.dropped(interaction, "a picture", why),
            Content::Call(_) | Content::Result(_) => notes.dropped(interaction, "a call", why),
        }
    }
    texts
}

/// A turn that failed before it said anything leaves no other trace.
fn note_empty_failure(interaction: &Interaction, units: &[Unit], notes: &mut Notes) {
    let status = interaction.status.clone().map(Status::from);
    if let Some(status) = status.filter(|status| !status.is_ok())
        && units.is_empty()
    {
        notes.dropped(&interaction.id, "a turn without content", &status.summary());
    }
}

/// A unit as the target takes it: as it was written, or its parts. What cannot
/// be sent is noted.
fn prepare(interaction: &str, mut unit: Unit, to: Dialect, notes: &mut Notes) -> Option<Unit> {
    let goes_back = |native: &Native| native.family == to.family() && !is_refused(&unit, to);
    if !unit.native.as_ref().is_some_and(goes_back) {
        unit.native = None;
    }
    if unit.native.is_some() {
        return Some(unit);
    }
    if !unit.own.is_empty() {
        notes.dropped(interaction, unit.own, "only the provider that made it understands it");
    }
    let by_model = unit.speaker == Speaker::Model;
    let mut parts = Vec::with_capacity(unit.parts.len());
    for part in unit.parts {
        match part {
            Content::Image(_) if by_model => {
                let why = "a model's pictures go back to no other provider";
                notes.dropped(interaction, "a picture that the model made", why);
            }
            Content::Image(picture) => match refusal(&picture, to) {
                None => parts.push(Content::Image(picture)),
                Some(why) => {
                    notes.dropped(interaction, "a picture", &why);
                    parts.push(Content::Text(stand_in(&why)));
                }
            },
            Content::Result(mut result) => {
                result.images.retain(|picture| {
                    let Some(why) = refusal(picture, to) else { return true };
                    notes.dropped(interaction, "a picture in a tool result", &why);
                    if !result.text.is_empty() {
                        result.text.push('\n');
                    }
                    result.text.push_str(&stand_in(&why));
                    false
                });
                parts.push(Content::Result(result));
            }
            Content::Text(_) | Content::Call(_) => parts.push(part),
        }
    }
    (!parts.is_empty()).then_some(Unit { parts, own: String::new(), ..unit })
}

/// Whether a picture in it would have the whole conversation refused, whoever
/// wrote it: a tool may give pictures of any type.
fn is_refused(unit: &Unit, to: Dialect) -> bool {
    unit.parts.iter().any(|part| match part {
        Content::Image(picture) => {
            let by_assistant = unit.speaker == Speaker::Model && to.family() == Dialect::Claude;
            by_assistant || refusal(picture, to).is_some()
        }
        Content::Result(result) => result.images.iter().any(|p| refusal(p, to).is_some()),
        Content::Text(_) | Content::Call(_) => false,
    })
}

fn stand_in(why: &str) -> String {
    format!("(A picture was left out: {why}.)")
}

/// Why a provider does not take a picture.
fn refusal(picture: &Picture, to: Dialect) -> Option<String> {
    let image = match (picture, to) {
        (Picture::Url(_), Dialect::Ollama | Dialect::GeminiGenerateContent) => {
            return Some("it is an address, and only its bytes can be sent".to_owned());
        }
        (Picture::Url(_), _) => return None,
        (Picture::Data(image), _) => image,
    };
    let takes: &[&str] = match to.backend() {
        Backend::Unspecified | Backend::Ollama | Backend::Vllm => return None,
        Backend::Claude | Backend::ClaudeCode | Backend::Codex | Backend::Gpt => {
            &["image/png", "image/jpeg", "image/gif", "image/webp"]
        }
        Backend::Gemini => {
            &["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "image/gif"]
        }
    };
    if image.data.is_empty() {
        return Some("it is empty".to_owned());
    }
    let is_taken = takes.contains(&image.media_type.as_str());
    (!is_taken).then(|| format!("{} is not sent to this provider", start_of(&image.media_type)))
}

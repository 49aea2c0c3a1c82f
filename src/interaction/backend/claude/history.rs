//! Claude's conversation, read and written. Turns alternate, the user's is
//! first, and one that follows calls begins with all their results.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{super::raw::Object, PictureSource as Base64Source, is_call};
use crate::interaction::backend::{
    Dialect,
    notes::Notes,
    pairing::{Answer, Turn},
    raw::Kind,
    result::{True, written},
    turn::Source,
    unit::{
        Call, CallResult, Content, Native, Picture, Speaker, Unit, raw_of, read_result, with_text,
    },
};

/// The first user turn of a conversation that the model began.
pub(in crate::interaction::backend) const BEFORE_THE_MODEL: &str = "(The model speaks first.)";

/// A text or a picture as Claude itself wrote it, or was sent it.
pub(in crate::interaction::backend) fn kept(
    raw: &RawValue,
    kind: &str,
    source: Source,
) -> Option<Native> {
    let is_claudes = match kind {
        "text" => true,
        "image" => Object::of(raw)?.get("source").is_some(),
        _ => false,
    };
    is_claudes.then(|| source.tagged(Dialect::Claude, raw)).flatten()
}

/// Reads a call, a result or thinking.
pub(super) fn read(raw: &RawValue, block: &Object, source: Source, units: &mut Vec<Unit>) {
    let Some(kind) = block.text("type") else {
        units.extend(read_untyped(block));
        return;
    };
    let native = || source.native(Dialect::Claude, raw);
    units.push(match kind.as_str() {
        "tool_use" => {
            let input = block.get("input");
            let call = Call::new(block.id("id"), block.text("name"), input);
            // Claude takes no input that is not an object.
            let is_object = input.is_some_and(|input| Kind::of(input) == Kind::Object);
            let is_whole = is_object && call.is_named();
            let native = is_whole.then(native).flatten();
            Unit::call(call).with(native)
        }
        "tool_result" => {
            let content = block.get("content").map(Kind::of);
            let is_whole = matches!(content, None | Some(Kind::Text | Kind::List));
            Unit::result(result(block)).with(is_whole.then(native).flatten())
        }
        "thinking" => {
            // Without its signature, Claude refuses it.
            let signed = block.text("signature").is_some_and(|signature| !signature.is_empty());
            Unit::own(Speaker::Model, "reasoning", signed.then(native).flatten())
        }
        _ => Unit::own(Speaker::Model, "reasoning", native()),
    });
}

/// Whether an object without a type is a block of Claude's that an agent SDK
/// dumped so.
pub(in crate::interaction::backend) fn is_untyped(block: &Object) -> bool {
    read_untyped(block).is_some()
}

fn read_untyped(block: &Object) -> Option<Unit> {
    if is_call(block) {
        let call = Call::new(block.id("id"), block.text("name"), block.get("input"));
        return Some(Unit::call(call));
    }
    if block.get("tool_use_id").is_some() {
        return Some(Unit::result(result(block)));
    }
    let is_thinking = block.get("thinking").is_some() && block.get("signature").is_some();
    is_thinking.then(|| Unit::own(Speaker::Model, "reasoning", None))
}

fn result(block: &Object) -> CallResult {
    let (text, images) = read_result(block.get("content"));
    CallResult {
        id: block.id("tool_use_id"),
        name: None,
        text,
        is_error: block.get("is_error").is_some_and(|raw| raw.get() == "true"),
        images,
    }
}

/// Writes a conversation.
pub(in crate::interaction::backend) fn write(turns: Vec<Turn>, notes: &mut Notes) -> Vec<String> {
    let mut writer = Writer { notes, messages: vec![], speaker: Speaker::User, blocks: vec![] };
    for turn in turns {
        let Turn { speaker, interaction, units, answers } = turn;
        writer.turn_to(speaker);
        let mut calls = answers.iter();
        for unit in units {
            writer.unit(&interaction, unit, &mut calls);
        }
        if !answers.is_empty() {
            writer.turn_to(Speaker::User);
            writer
                .blocks
                .extend(answers.into_iter().map(|answer| Block::raw(result_block(answer))));
        }
    }
    writer.finish()
}

struct Writer<'a> {
    notes: &'a mut Notes,
    /// Roles and blocks; no two neighbours have one role.
    messages: Vec<(&'static str, Vec<Block>)>,
    /// Who the message in the making is from.
    speaker: Speaker,
    blocks: Vec<Block>,
}

enum Block {
    Text(String),
    Raw(Box<RawValue>),
    /// Thinking, and the interaction it is from.
    Reasoning(Box<RawValue>, String),
}

impl Block {
    fn raw(value: impl Serialize) -> Self {
        Self::Raw(to_raw_value(&value).unwrap_or_default())
    }

    fn into_raw(self) -> Box<RawValue> {
        match self {
            Block::Text(text) => to_raw_value(&Piece::Text { text: &text }).unwrap_or_default(),
            Block::Raw(raw) | Block::Reasoning(raw, _) => raw,
        }
    }
}

impl Writer<'_> {
    fn turn_to(&mut self, speaker: Speaker) {
        if self.speaker != speaker {
            self.flush();
            self.speaker = speaker;
        }
    }

    fn unit<'a>(
        &mut self,
        interaction: &str,
        unit: Unit,
        calls: &mut impl Iterator<Item = &'a Answer>,
    ) {
        let Unit { parts, native, .. } = unit;
        if parts.is_empty() {
            let raw = native.map(|native| native.raw);
            self.blocks.extend(raw.map(|raw| match is_reasoning(&raw) {
                true => Block::Reasoning(raw, interaction.to_owned()),
                false => Block::Raw(raw),
            }));
            return;
        }
        for part in parts {
            let block = match part {
                // Claude refuses blocks of white space.
                Content::Text(text) if text.trim().is_empty() => continue,
                Content::Text(text) => match &native {
                    Some(native) => Block::Raw(native.raw.clone()),
                    None => Block::Text(text),
                },
                Content::Image(picture) => match &native {
                    Some(native) => Block::Raw(native.raw.clone()),
                    None => Block::raw(Piece::Image { source: ImageSource::of(&picture) }),
                },
                Content::Call(call) => {
                    let Some(answer) = calls.next() else { continue };
                    Block::raw(match &native {
                        Some(native) if call.id.as_ref() == Some(&answer.id) => native.raw.clone(),
                        Some(native) => with_text(&native.raw, "id", &answer.id),
                        None => raw_of(written(&Piece::ToolUse {
                            id: &answer.id,
                            name: &answer.name,
                            input: &call.arguments,
                        })),
                    })
                }
                Content::Result(_) => continue,
            };
            self.blocks.push(block);
        }
    }

    fn flush(&mut self) {
        // A message may not end in thinking: there is nothing it led to.
        while let Some(Block::Reasoning(_, interaction)) =
            self.blocks.pop_if(|block| matches!(block, Block::Reasoning(..)))
        {
            self.notes.dropped(&interaction, "reasoning", "nothing follows it in its turn");
        }
        let mut blocks = std::mem::take(&mut self.blocks);
        if blocks.is_empty() {
            return;
        }
        let role = match self.speaker {
            Speaker::Model => "assistant",
            Speaker::User | Speaker::System => "user",
        };
        match self.messages.last_mut() {
            // Nothing was left of the turn between.
            Some((before, written)) if *before == role => written.append(&mut blocks),
            _ => self.messages.push((role, blocks)),
        }
    }

    fn finish(mut self) -> Vec<String> {
        self.flush();
        if self.messages.first().is_some_and(|(role, _)| *role == "assistant") {
            let block = Block::Text(BEFORE_THE_MODEL.to_owned());
            self.messages.insert(0, ("user", vec![block]));
            self.notes.added("", "a first user turn", "the conversation begins with the model");
        }
        let message = |(role, mut blocks): (&'static str, Vec<Block>)| {
            let content = match (role, blocks.pop()) {
                ("user", Some(Block::Text(text))) if blocks.is_empty() => Written::Text(text),
                (_, last) => {
                    blocks.extend(last);
                    Written::Blocks(blocks.into_iter().map(Block::into_raw).collect())
                }
            };
            written(&Message { role, content })
        };
        self.messages.into_iter().map(message).collect()
    }
}

fn is_reasoning(raw: &RawValue) -> bool {
    Object::of(raw)
        .and_then(|block| block.text("type"))
        .is_some_and(|kind| matches!(kind.as_str(), "thinking" | "redacted_thinking"))
}

fn result_block(answer: Answer) -> Box<RawValue> {
    let Answer { id, result, native, .. } = answer;
    if let Some(native) = native {
        return match result.id.as_ref() == Some(&id) {
            true => native.raw,
            false => with_text(&native.raw, "tool_use_id", &id),
        };
    }
    let content = match result.images.is_empty() {
        true => Written::Text(result.text),
        false => {
            let text = Some(&result.text).filter(|text| !text.trim().is_empty());
            let text = text.map(|text| Piece::Text { text });
            let images = result.images.iter().map(|p| Piece::Image { source: ImageSource::of(p) });
            let pieces = text.into_iter().chain(images);
            Written::Blocks(pieces.map(|p| to_raw_value(&p).unwrap_or_default()).collect())
        }
    };
    let is_error = result.is_error.then_some(True);
    raw_of(written(&Piece::ToolResult { tool_use_id: &id, content, is_error }))
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: Written,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Blocks(Vec<Box<RawValue>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: ImageSource<'a>,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a RawValue,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: Written,
        #[serde(skip_serializing_if = "Option::is_none")]
        is_error: Option<True>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum ImageSource<'a> {
    Base64(Base64Source<'a>),
    Url { r#type: &'static str, url: &'a str },
}

impl<'a> ImageSource<'a> {
    fn of(picture: &'a Picture) -> Self {
        match picture {
            Picture::Data(image) => Self::Base64(Base64Source::of(image)),
            Picture::Url(url) => Self::Url { r#type: "url", url },
        }
    }
}

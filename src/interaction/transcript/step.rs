//! One interaction as people read it, whichever backend produced it.

use std::collections::BTreeMap;

use bytes::Bytes;
use pbjson_types::Timestamp;
use serde::Deserialize;

use super::super::{
    backend::{Part, normalize},
    timestamp,
};
use crate::wire::pb::{Interaction, Role, UsageMetadata};
use crate::wire::{Code, Status, chunk::Kind, json_weight, status::code_name};

/// One interaction of a transcript.
#[derive(Debug, Clone)]
pub struct Step {
    /// Its id.
    pub id: String,
    /// Who produced it: `user`, `model`, `system`, or `tools` for results.
    pub speaker: &'static str,
    /// The model, where it is said.
    pub model: String,
    /// When it was created, RFC 3339; empty where that is not said.
    pub at: String,
    /// How it ended, where it did not end well.
    pub failure: Option<String>,
    /// What the model was told beforehand, where that is said.
    pub instructions: Vec<String>,
    /// What it holds, in order.
    pub blocks: Vec<Block>,
    /// Tokens spent, as one line; empty where that is not said.
    pub usage: String,
}

/// A part of a step.
#[derive(Debug, Clone)]
pub enum Block {
    /// A text.
    Text(String),
    /// A picture.
    Image {
        /// What the bytes are.
        media_type: String,
        /// The encoded picture.
        data: Bytes,
    },
    /// A picture that is elsewhere.
    ImageAt(String),
    /// A call that the model made.
    Call {
        /// Its id.
        id: String,
        /// The action.
        name: String,
        /// JSON.
        arguments: String,
    },
    /// How a call ended.
    Result {
        /// The call's id.
        id: String,
        /// The action, where the call was seen: see [`Step::name_results`].
        name: String,
        /// `OK`, or the status it ended with.
        status: String,
        /// Whether that is a failure.
        outcome: Outcome,
        /// What it narrated; empty for nothing.
        log: String,
        /// What the model was told.
        content: String,
    },
}

/// Whether a call did its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did.
    Done,
    /// It did not.
    Failed,
}

#[derive(Deserialize)]
struct StoredStatus {
    #[serde(default)]
    code: i32,
    #[serde(default)]
    message: String,
}

impl Step {
    /// Reads an interaction.
    pub fn new(interaction: &Interaction) -> Self {
        let statuses: BTreeMap<String, StoredStatus> = metadata(interaction, "tool_statuses");
        let logs: BTreeMap<String, String> = metadata(interaction, "tool_logs");
        let mut blocks: Vec<Block> = normalize(interaction)
            .parts
            .into_iter()
            .map(|part| block(part, &statuses, &logs))
            .collect();
        let told: Vec<String> = blocks.iter().filter_map(Block::result_id).collect();
        // Calls that the content says nothing of: without a backend it has none.
        for (id, status) in statuses.iter().filter(|(id, _)| !told.contains(id)) {
            blocks.push(Block::Result {
                id: id.clone(),
                name: String::new(),
                status: summary(status),
                outcome: if status.code == 0 { Outcome::Done } else { Outcome::Failed },
                log: logs.get(id).cloned().unwrap_or_default(),
                content: String::new(),
            });
        }
        let has_results = blocks.iter().any(|block| block.result_id().is_some());
        let speaker = match interaction.role() {
            Role::User | Role::Unspecified if has_results => "tools",
            Role::User | Role::Unspecified => "user",
            Role::Model => "model",
            Role::System => "system",
        };
        let status = interaction.status.clone().map(Status::from);
        Self {
            id: interaction.id.clone(),
            speaker,
            model: model(interaction),
            at: interaction.created_at_millis.and_then(moment).unwrap_or_default(),
            instructions: instructions(interaction),
            failure: status.filter(|status| !status.is_ok()).map(|status| status.summary()),
            blocks,
            usage: interaction.usage_metadata.as_ref().map(usage).unwrap_or_default(),
        }
    }
}

impl Step {
    /// Says when it was appended, where it does not say itself when it was created.
    pub fn appended_at(&mut self, at: Option<Timestamp>) {
        if self.at.is_empty() {
            let second = at.map(|at| Timestamp { nanos: 0, ..at });
            self.at = second.and_then(timestamp::write).unwrap_or_default();
        }
    }

    /// Says which action each result is of, as the calls of this step and of those
    /// before it have it; `names` is kept from step to step: call id → action.
    pub fn name_results(&mut self, names: &mut BTreeMap<String, String>) {
        for block in &mut self.blocks {
            match block {
                Block::Call { id, name, .. } => {
                    names.insert(id.clone(), name.clone());
                }
                Block::Result { id, name, .. } => {
                    *name = names.get(id).cloned().unwrap_or_default();
                }
                Block::Text(_) | Block::Image { .. } | Block::ImageAt(_) => {}
            }
        }
    }
}

/// The model, as the interaction or else the provider's own reply says it.
fn model(interaction: &Interaction) -> String {
    #[derive(Deserialize)]
    struct Reply {
        #[serde(alias = "modelVersion")]
        model: String,
    }
    let reply = || match interaction.content.as_slice() {
        [only] if interaction.role() == Role::Model => json_weight::read(only.data()).ok(),
        _ => None,
    };
    match interaction.model.is_empty() {
        true => reply().map(|Reply { model }| model).unwrap_or_default(),
        false => interaction.model.clone(),
    }
}

fn instructions(interaction: &Interaction) -> Vec<String> {
    let texts = interaction.system_instructions.iter();
    texts
        .map(|chunk| match Kind::of(chunk.media_type()) {
            Kind::Text | Kind::Json => String::from_utf8_lossy(chunk.data()).into_owned(),
            Kind::Image | Kind::Audio | Kind::Bytes => {
                format!("[{}, {} bytes]", chunk.media_type(), chunk.data().len())
            }
        })
        .collect()
}

impl Block {
    fn result_id(&self) -> Option<String> {
        match self {
            Self::Result { id, .. } => Some(id.clone()),
            _ => None,
        }
    }
}

fn block(
    part: Part,
    statuses: &BTreeMap<String, StoredStatus>,
    logs: &BTreeMap<String, String>,
) -> Block {
    match part {
        Part::Text { text } => Block::Text(text),
        Part::Image(image) => Block::Image { media_type: image.media_type, data: image.data },
        Part::ImageUrl { url } => Block::ImageAt(url),
        Part::ToolCall { id, name, arguments } => {
            Block::Call { id, name, arguments: arguments.get().to_owned() }
        }
        Part::ToolResult { call_id, content, is_error } => {
            let status = statuses.get(&call_id);
            let failed = is_error || status.is_some_and(|status| status.code != 0);
            let by_itself = if failed { "failed" } else { "OK" };
            Block::Result {
                status: status.map_or_else(|| by_itself.to_owned(), summary),
                outcome: if failed { Outcome::Failed } else { Outcome::Done },
                log: logs.get(&call_id).cloned().unwrap_or_default(),
                id: call_id,
                name: String::new(),
                content,
            }
        }
    }
}

/// Whether a result's status has all that the model was told.
pub(super) fn says(status: &str, content: &str) -> bool {
    let content = content.trim();
    let content = content.strip_prefix("error: ").unwrap_or(content);
    status == content || status.split_once(": ").is_some_and(|(_, message)| message == content)
}

fn summary(status: &StoredStatus) -> String {
    let name = code_name(Code::from_i32(status.code));
    if status.message.is_empty() { name.to_owned() } else { format!("{name}: {}", status.message) }
}

/// What the metadata holds under a name; what it should not hold is nothing.
fn metadata<T: for<'de> Deserialize<'de> + Default>(interaction: &Interaction, key: &str) -> T {
    let value = interaction.backend_specific_metadata.get(key);
    value.and_then(|value| json_weight::read(value).ok()).unwrap_or_default()
}

fn moment(millis: i64) -> Option<String> {
    timestamp::write(Timestamp { seconds: millis.div_euclid(1000), nanos: 0 })
}

fn usage(usage: &UsageMetadata) -> String {
    let UsageMetadata {
        input_tokens,
        output_tokens,
        total_tokens,
        cached_input_tokens,
        cache_write_tokens,
        reasoning_tokens,
    } = usage;
    let counters = [
        (input_tokens, "in"),
        (cached_input_tokens, "in from a cache"),
        (cache_write_tokens, "written to a cache"),
        (output_tokens, "out"),
        (reasoning_tokens, "of them reasoning"),
        (total_tokens, "in all"),
    ];
    let said =
        counters.iter().filter_map(|(count, what)| count.map(|count| format!("{count} {what}")));
    said.collect::<Vec<_>>().join(", ")
}

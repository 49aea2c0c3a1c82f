//! What every backend does, and which one speaks a dialect.

use serde_json::value::RawValue;

use super::{
    Dialect, ReplyCall, ToolResult,
    claude::Claude,
    claude_code::ClaudeCode,
    codex::Codex,
    gemini::{GenerateContent, Interactions},
    gpt::{Chat, Functions, Responses},
    notes::Notes,
    ollama::Ollama,
    pairing::Turn,
    raw::Object,
    turn::Source,
    unit::Unit,
    vllm::Vllm,
};
use crate::wire::pb::UsageMetadata;

/// One provider's way of writing a conversation.
pub(super) trait Shape {
    /// The calls among a reply's pieces, in the order the model made them: the
    /// content blocks, tool calls, parts, steps or items of the reply, whichever
    /// the dialect has. Other pieces are passed over.
    fn calls(&self, pieces: &[&RawValue]) -> Vec<ReplyCall>;

    /// The tokens that a whole response says were spent. None where it has no
    /// counters.
    fn usage(&self, response: &Object) -> Option<UsageMetadata>;

    /// Reads one of the things that a turn of the dialect is made of, a message, a
    /// block, a part, a step or an item, into what every provider can be told of
    /// it. What this dialect does not know has no unit.
    fn read(&self, raw: &RawValue, object: &Object, source: Source, units: &mut Vec<Unit>);

    /// What to append for the provider, each one JSON text. Results are in the
    /// order of their calls, and there is at least one.
    fn messages(&self, results: &[ToolResult]) -> Vec<String>;

    /// A whole conversation, each message one JSON text. Units hold only what
    /// the dialect takes, native ones only of its own family, and each call has
    /// its answer. What cannot be written all the same is noted.
    fn history(&self, turns: Vec<Turn>, notes: &mut Notes) -> Vec<String>;
}

/// The backend that speaks a dialect.
pub(super) fn shape_of(dialect: Dialect) -> &'static dyn Shape {
    match dialect {
        Dialect::Claude => &Claude,
        Dialect::ClaudeCode => &ClaudeCode,
        Dialect::Codex => &Codex,
        Dialect::GeminiInteractions => &Interactions,
        Dialect::GeminiGenerateContent => &GenerateContent,
        Dialect::GptChat => &Chat,
        Dialect::GptFunctions => &Functions,
        Dialect::GptResponses => &Responses,
        Dialect::Ollama => &Ollama,
        Dialect::Vllm => &Vllm,
    }
}

/// What to append to the provider's conversation after a round of tool calls:
/// each one JSON text, in order; none for no results.
///
/// Results stand in the order given, which is the order of the calls. Pictures
/// never stand between two results.
pub fn messages(dialect: Dialect, results: &[ToolResult]) -> Vec<String> {
    if results.is_empty() { vec![] } else { shape_of(dialect).messages(results) }
}

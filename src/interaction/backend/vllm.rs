//! vLLM's OpenAI-compatible chat: OpenAI's shape, under its own name.

use serde_json::value::RawValue;

use super::{
    ReplyCall, ToolResult, chat, notes::Notes, pairing::Turn, raw::Object, shape::Shape,
    turn::Source, unit::Unit,
};
use crate::wire::pb::UsageMetadata;

/// vLLM. Pieces are `tool_calls`.
pub(super) struct Vllm;

impl Shape for Vllm {
    fn calls(&self, pieces: &[&RawValue]) -> Vec<ReplyCall> {
        chat::calls(pieces)
    }

    fn usage(&self, response: &Object) -> Option<UsageMetadata> {
        chat::usage(response)
    }

    fn read(&self, _raw: &RawValue, object: &Object, source: Source, units: &mut Vec<Unit>) {
        chat::read_message(object, source, units);
    }

    fn messages(&self, results: &[ToolResult]) -> Vec<String> {
        chat::messages(results)
    }

    fn history(&self, turns: Vec<Turn>, notes: &mut Notes) -> Vec<String> {
        chat::write(turns, chat::Style::Alternating, notes)
    }
}

//! vLLM's OpenAI-compatible chat: OpenAI's shape, under its own name.

use serde_json::value::RawValue;

use super::{ReplyCall, ToolResult, chat, notes::Notes, pairing::Turn, shape::Shape};

/// vLLM. Pieces are `tool_calls`.
pub(super) struct Vllm;

impl Shape for Vllm {
    fn calls(&self, pieces: &[&RawValue]) -> Vec<ReplyCall> {
        chat::calls(pieces)
    }

    fn messages(&self, results: &[ToolResult]) -> Vec<String> {
        chat::messages(results)
    }

    fn history(&self, turns: Vec<Turn>, notes: &mut Notes) -> Vec<String> {
        chat::write(turns, chat::Style::Alternating, notes)
    }
}

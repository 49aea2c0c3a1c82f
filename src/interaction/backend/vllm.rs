//! vLLM's OpenAI-compatible chat: OpenAI's shape, under its own name.

use serde_json::value::RawValue;

use super::{ReplyCall, ToolResult, chat, shape::Shape};

/// vLLM. Pieces are `tool_calls`.
pub(super) struct Vllm;

impl Shape for Vllm {
    fn calls(&self, pieces: &[&RawValue]) -> Vec<ReplyCall> {
        chat::calls(pieces)
    }

    fn messages(&self, results: &[ToolResult]) -> Vec<String> {
        chat::messages(results)
    }
}

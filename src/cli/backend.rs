//! The providers, as flags name them.

use clap::ValueEnum;

use crate::wire::pb;

/// A provider's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Backend {
    #[value(alias = "anthropic")]
    Claude,
    ClaudeCode,
    Codex,
    #[value(alias = "google")]
    Gemini,
    #[value(alias = "openai")]
    Gpt,
    Ollama,
    Vllm,
}

impl From<Backend> for pb::Backend {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Claude => Self::Claude,
            Backend::ClaudeCode => Self::ClaudeCode,
            Backend::Codex => Self::Codex,
            Backend::Gemini => Self::Gemini,
            Backend::Gpt => Self::Gpt,
            Backend::Ollama => Self::Ollama,
            Backend::Vllm => Self::Vllm,
        }
    }
}

//! Which provider, and which of its message shapes.

use crate::wire::pb::Backend;

/// A provider's shape, including which of its dialects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Anthropic Messages.
    Claude,
    /// Claude Code, through its agent SDK: results are MCP results.
    ClaudeCode,
    /// OpenAI Codex: results are MCP results, images go with the resumed turn.
    Codex,
    /// Gemini's Interactions API: steps.
    GeminiInteractions,
    /// Gemini's generateContent: contents of parts.
    GeminiGenerateContent,
    /// OpenAI chat completions with tool calls.
    GptChat,
    /// OpenAI chat completions with the older `function_call`: one call a reply,
    /// without an id, whose result is paired by name.
    GptFunctions,
    /// OpenAI Responses: items.
    GptResponses,
    /// Ollama chat.
    Ollama,
    /// vLLM's OpenAI-compatible chat.
    Vllm,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Dialect; 10] = [
        Dialect::Claude,
        Dialect::ClaudeCode,
        Dialect::Codex,
        Dialect::GeminiInteractions,
        Dialect::GeminiGenerateContent,
        Dialect::GptChat,
        Dialect::GptFunctions,
        Dialect::GptResponses,
        Dialect::Ollama,
        Dialect::Vllm,
    ];

    /// The backend it belongs to.
    pub fn backend(self) -> Backend {
        match self {
            Dialect::Claude => Backend::Claude,
            Dialect::ClaudeCode => Backend::ClaudeCode,
            Dialect::Codex => Backend::Codex,
            Dialect::GeminiInteractions | Dialect::GeminiGenerateContent => Backend::Gemini,
            Dialect::GptChat | Dialect::GptFunctions | Dialect::GptResponses => Backend::Gpt,
            Dialect::Ollama => Backend::Ollama,
            Dialect::Vllm => Backend::Vllm,
        }
    }

    /// The dialect whose history it reads and writes: Claude Code keeps Claude's
    /// messages, Codex keeps the items of OpenAI Responses, and older function
    /// calls are chat.
    pub(super) fn family(self) -> Dialect {
        match self {
            Dialect::Claude | Dialect::ClaudeCode => Dialect::Claude,
            Dialect::Codex | Dialect::GptResponses => Dialect::GptResponses,
            Dialect::GptChat | Dialect::GptFunctions => Dialect::GptChat,
            Dialect::GeminiInteractions
            | Dialect::GeminiGenerateContent
            | Dialect::Ollama
            | Dialect::Vllm => self,
        }
    }

    /// What a backend means where no reply tells the dialect: gpt is chat,
    /// gemini is Interactions. None for an unspecified backend.
    pub fn default_of(backend: Backend) -> Option<Dialect> {
        match backend {
            Backend::Unspecified => None,
            Backend::Claude => Some(Dialect::Claude),
            Backend::ClaudeCode => Some(Dialect::ClaudeCode),
            Backend::Codex => Some(Dialect::Codex),
            Backend::Gemini => Some(Dialect::GeminiInteractions),
            Backend::Gpt => Some(Dialect::GptChat),
            Backend::Ollama => Some(Dialect::Ollama),
            Backend::Vllm => Some(Dialect::Vllm),
        }
    }

    /// What it is called among its backend's dialects: `chat`, `responses` or
    /// `functions` of gpt, `interactions` or `generate_content` of gemini; empty
    /// where the backend has but one.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::GptChat => "chat",
            Dialect::GptResponses => "responses",
            Dialect::GptFunctions => "functions",
            Dialect::GeminiInteractions => "interactions",
            Dialect::GeminiGenerateContent => "generate_content",
            Dialect::Claude
            | Dialect::ClaudeCode
            | Dialect::Codex
            | Dialect::Ollama
            | Dialect::Vllm => "",
        }
    }

    /// A backend's dialect of a [name](Self::name); without one the
    /// [default](Self::default_of). None where the backend has no such dialect.
    pub fn named(backend: Backend, name: &str) -> Option<Dialect> {
        if name.is_empty() {
            return Self::default_of(backend);
        }
        let of_backend = |dialect: &Dialect| dialect.backend() == backend;
        Self::ALL.into_iter().filter(of_backend).find(|dialect| dialect.name() == name)
    }

    /// Whether a result must carry an id even where the reply gave none. Where
    /// not, an id that the provider never gave must not be sent to it: it would
    /// look for the call that has it.
    pub fn needs_id(self) -> bool {
        match self {
            Dialect::Claude
            | Dialect::GeminiInteractions
            | Dialect::GptChat
            | Dialect::GptResponses
            | Dialect::Vllm => true,
            Dialect::ClaudeCode
            | Dialect::Codex
            | Dialect::GeminiGenerateContent
            | Dialect::GptFunctions
            | Dialect::Ollama => false,
        }
    }
}

/// A backend's name, as metadata and the command line have it: `claude`,
/// `claude_code`, `codex`, `gemini`, `gpt`, `ollama`, `vllm`. None for an
/// unspecified one.
pub fn backend_name(backend: Backend) -> Option<&'static str> {
    match backend {
        Backend::Unspecified => None,
        Backend::Claude => Some("claude"),
        Backend::ClaudeCode => Some("claude_code"),
        Backend::Codex => Some("codex"),
        Backend::Gemini => Some("gemini"),
        Backend::Gpt => Some("gpt"),
        Backend::Ollama => Some("ollama"),
        Backend::Vllm => Some("vllm"),
    }
}

/// A name that is no backend's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no backend is named {0:?}: it is one of claude (anthropic), claude_code, codex, gemini (google), \
     gpt (openai), ollama, vllm"
)]
pub struct UnknownBackend(pub String);

/// Reads a backend's name; case does not count, `-` is the same as `_`, and its
/// provider's name will do: anthropic, google, openai.
///
/// # Errors
/// Where no backend has it.
pub fn parse_backend(name: &str) -> Result<Backend, UnknownBackend> {
    let wanted = name.trim().to_ascii_lowercase().replace('-', "_");
    let wanted =
        ALIASES.iter().find(|(alias, _)| *alias == wanted).map_or(&*wanted, |(_, name)| name);
    Dialect::ALL
        .into_iter()
        .map(Dialect::backend)
        .find(|backend| backend_name(*backend) == Some(wanted))
        .ok_or_else(|| UnknownBackend(name.chars().take(64).collect()))
}

/// What some call the provider, and the name of its backend.
const ALIASES: [(&str, &str); 3] =
    [("anthropic", "claude"), ("google", "gemini"), ("openai", "gpt")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backends_name_is_read_back_and_its_default_dialect_is_its_own() {
        for dialect in Dialect::ALL {
            let backend = dialect.backend();
            let name = backend_name(backend).expect("a dialect's backend is specified");
            assert_eq!(parse_backend(name), Ok(backend));
            assert_eq!(Dialect::default_of(backend).map(Dialect::backend), Some(backend));
            assert_eq!(Dialect::named(backend, dialect.name()), Some(dialect));
        }
        assert_eq!(Dialect::named(Backend::Gpt, ""), Some(Dialect::GptChat));
        assert_eq!(Dialect::named(Backend::Claude, "chat"), None);
        assert_eq!(Dialect::named(Backend::Unspecified, ""), None);
        assert_eq!(parse_backend("Claude-Code"), Ok(Backend::ClaudeCode));
        assert_eq!(parse_backend("anthropic"), Ok(Backend::Claude));
        assert_eq!(parse_backend("Google"), Ok(Backend::Gemini));
        assert_eq!(parse_backend("OpenAI"), Ok(Backend::Gpt));
        assert_eq!(Dialect::default_of(Backend::Gpt), Some(Dialect::GptChat));
        assert_eq!(Dialect::default_of(Backend::Gemini), Some(Dialect::GeminiInteractions));
        assert_eq!(Dialect::default_of(Backend::Unspecified), None);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = parse_backend("mistral").expect_err("no such backend").to_string();
        assert!(error.contains("\"mistral\"") && error.contains("claude_code"), "{error}");
        assert!(parse_backend("").is_err());
    }
}

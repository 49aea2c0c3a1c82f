//! Call ids and names as a provider takes them: the same ones every time the
//! history is sent, and no two calls of one id.

use std::collections::{HashMap, HashSet};

use super::Dialect;
use crate::action::{MAX_TOOL_NAME_LEN, tool_name};

/// The longest id OpenAI's chat completions take, in characters.
const MAX_CHAT_ID: usize = 40;
/// The longest id that the others are sent, in characters; OpenAI Responses and
/// Claude take no longer one.
const MAX_ID: usize = 64;
/// vLLM has no limit, and gives ids of 46 characters itself.
const MAX_SERVER_ID: usize = 255;

/// Gives calls their ids, in the order of the history. An id depends on those
/// before it alone, so that it stays as the history grows.
pub(super) struct CallIds {
    max_len: usize,
    /// Whether even an id from the same provider must be of plain characters.
    is_strict: bool,
    /// Whether names may hold anything.
    any_name: bool,
    used: HashSet<String>,
    /// The last number tried after a text.
    tried: HashMap<String, usize>,
}

impl CallIds {
    pub(super) fn of(dialect: Dialect) -> Self {
        Self {
            max_len: match dialect {
                Dialect::GptChat | Dialect::GptFunctions => MAX_CHAT_ID,
                Dialect::Vllm => MAX_SERVER_ID,
                Dialect::Claude
                | Dialect::ClaudeCode
                | Dialect::Codex
                | Dialect::GeminiInteractions
                | Dialect::GeminiGenerateContent
                | Dialect::GptResponses
                | Dialect::Ollama => MAX_ID,
            },
            is_strict: dialect.family() == Dialect::Claude,
            any_name: dialect == Dialect::Ollama,
            used: HashSet::new(),
            tried: HashMap::new(),
        }
    }

    /// The id for a call, from its own or, without one, its name.
    pub(super) fn assign(&mut self, own: Option<&str>, name: &str, is_native: bool) -> String {
        let wanted = own.unwrap_or(name);
        let is_plain = wanted.bytes().all(is_plain) || (is_native && !self.is_strict);
        let fits = !wanted.is_empty() && wanted.chars().count() <= self.max_len;
        let id = match is_plain && fits {
            true => wanted.to_owned(),
            false if wanted.is_empty() => "call".to_owned(),
            false => {
                let hash = format!("-{:08x}", fnv1a(wanted));
                format!("{}{hash}", plain(wanted, self.max_len - hash.len()))
            }
        };
        if self.used.insert(id.clone()) {
            return id;
        }
        loop {
            let number = self.tried.entry(id.clone()).or_insert(1);
            *number += 1;
            let suffix = format!("_{number}");
            let room = self.max_len.saturating_sub(suffix.len());
            let start: String = id.chars().take(room).collect();
            let numbered = start + &suffix;
            if self.used.insert(numbered.clone()) {
                return numbered;
            }
        }
    }

    /// A function's name as it is sent.
    pub(super) fn name(&self, name: &str, is_native: bool) -> String {
        if name.is_empty() {
            return "unnamed".to_owned();
        }
        if is_native || self.any_name {
            return name.to_owned();
        }
        // As the provider is told of the action.
        let name = tool_name(name);
        // Gemini wants a letter or an underscore first.
        match name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_') {
            true => name.into_owned(),
            false => format!("_{}", &name[..name.len().min(MAX_TOOL_NAME_LEN - 1)]),
        }
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn plain(text: &str, max_len: usize) -> String {
    let plain = |c: char| if u8::try_from(c).is_ok_and(is_plain) { c } else { '_' };
    text.chars().take(max_len).map(plain).collect()
}

/// FNV-1a, 32 bit: equal in every version of this program.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_taken_as_it_is_stays_and_others_become_plain_and_unique() {
        let mut ids = CallIds::of(Dialect::GptChat);
        let mut check = |own: Option<&str>, name: &str, expected: &str| {
            let id = ids.assign(own, name, false);
            assert_eq!(id, expected, "{own:?}");
            assert!(id.chars().count() <= MAX_CHAT_ID);
        };
        check(Some("toolu_01"), "n", "toolu_01");
        check(Some("toolu_01"), "n", "toolu_01_2");
        check(Some("toolu_01_2"), "n", "toolu_01_2_2");
        check(Some("functions.x:0"), "n", "functions_x_0-eb63f972");
        check(None, "look_up", "look_up");
        check(None, "look_up", "look_up_2");
        check(None, "", "call");
        check(
            Some(&"a".repeat(41)),
            "n",
            &format!("{}-{:08x}", "a".repeat(31), fnv1a(&"a".repeat(41))),
        );
        check(Some("é"), "n", &format!("_-{:08x}", fnv1a("é")));
    }

    #[test]
    fn a_providers_own_id_goes_back_to_it_unless_it_has_rules() {
        let check = |dialect, expected: &str| {
            let id = CallIds::of(dialect).assign(Some("functions.x:0"), "n", true);
            assert_eq!(id, expected, "{dialect:?}");
        };
        check(Dialect::Vllm, "functions.x:0");
        check(Dialect::Claude, "functions_x_0-eb63f972");
    }

    #[test]
    fn names_are_plain_and_begin_with_a_letter() {
        let ids = CallIds::of(Dialect::Claude);
        let check = |name: &str, expected: &str| assert_eq!(ids.name(name, false), expected);
        check("look_up", "look_up");
        check("a#b", "a_b_8187fc8f7f00");
        check("1st", "_1st");
        check("", "unnamed");
        assert_eq!(ids.name(&"é".repeat(300), false).len(), MAX_TOOL_NAME_LEN);
    }
}

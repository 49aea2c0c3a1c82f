//! Which actions a model may call: patterns matched whole against names.

use regex_automata::meta::Regex;
use regex_syntax::{
    ParserBuilder,
    hir::{Hir, Look},
};
use thiserror::Error;

use crate::wire::{Reason, Status};

/// The longest pattern, in bytes.
pub const MAX_PATTERN_BYTES: usize = 4096;
/// How many patterns a list has at most.
pub const MAX_PATTERNS: usize = 256;
/// How much memory one compiled pattern may take.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// Patterns, any of which lets a name pass. Matching takes time linear in the
/// name. An empty list lets nothing pass.
#[derive(Debug, Clone, Default)]
pub struct AllowList {
    patterns: Vec<Pattern>,
}

#[derive(Debug, Clone)]
enum Pattern {
    /// A pattern that is a plain name: by far the most common.
    Name(String),
    Regex(Box<Regex>),
}

/// Why a pattern was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatternError {
    /// It is no regular expression.
    #[error("pattern {pattern:?} is not a regular expression: {cause}")]
    Syntax {
        /// The start of the pattern.
        pattern: String,
        /// What is wrong with it.
        cause: String,
    },
    /// It is longer than [`MAX_PATTERN_BYTES`], or would take too much memory.
    #[error("pattern {pattern:?} is too large")]
    TooLarge {
        /// The start of the pattern.
        pattern: String,
    },
    /// There are more than [`MAX_PATTERNS`].
    #[error("there are {0} patterns; at most {MAX_PATTERNS} are taken")]
    TooMany(usize),
}

impl From<PatternError> for Status {
    fn from(error: PatternError) -> Self {
        Status::of(Reason::InvalidPattern, error.to_string())
    }
}

impl AllowList {
    /// A list of patterns. Each may hold several, separated by commas outside
    /// brackets, braces, parentheses and escapes; blanks around one do not count.
    ///
    /// # Errors
    /// Names the first pattern that is no regular expression, or too large.
    pub fn new<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, PatternError> {
        let mut list = Self::default();
        let mut number = 0;
        for patterns in patterns {
            for pattern in split(patterns.as_ref()) {
                number += 1;
                if number > MAX_PATTERNS {
                    return Err(PatternError::TooMany(number));
                }
                list.patterns.push(Pattern::new(pattern)?);
            }
        }
        Ok(list)
    }

    /// Whether a pattern matches the whole name.
    pub fn allows(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| match pattern {
            Pattern::Name(allowed) => allowed == name,
            Pattern::Regex(regex) => regex.is_match(name),
        })
    }

    /// Whether it lets nothing pass.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }
}

impl Pattern {
    fn new(pattern: &str) -> Result<Self, PatternError> {
        let shown = || pattern.chars().take(100).collect::<String>();
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(PatternError::TooLarge { pattern: shown() });
        }
        if pattern.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Ok(Self::Name(pattern.to_owned()));
        }
        // The anchors go around the parsed pattern: put around its text, they
        // would change what `a)|(b` or a trailing comment means.
        let hir =
            ParserBuilder::new().nest_limit(100).build().parse(pattern).map_err(|error| {
                PatternError::Syntax { pattern: shown(), cause: cause_of(&error) }
            })?;
        let whole = Hir::concat(vec![Hir::look(Look::Start), hir, Hir::look(Look::End)]);
        let config = Regex::config()
            .nfa_size_limit(Some(MAX_COMPILED_BYTES))
            .onepass_size_limit(Some(MAX_COMPILED_BYTES))
            .hybrid_cache_capacity(MAX_COMPILED_BYTES);
        let regex = Regex::builder().configure(config).build_from_hir(&whole);
        match regex {
            Ok(regex) => Ok(Self::Regex(Box::new(regex))),
            Err(_) => Err(PatternError::TooLarge { pattern: shown() }),
        }
    }
}

/// The one line of a syntax error that says what is wrong.
fn cause_of(error: &regex_syntax::Error) -> String {
    match error {
        regex_syntax::Error::Parse(error) => error.kind().to_string(),
        regex_syntax::Error::Translate(error) => error.kind().to_string(),
        other => other.to_string(),
    }
}

/// Splits at commas outside brackets, braces, parentheses and escapes; blank
/// parts are left out.
fn split(patterns: &str) -> impl Iterator<Item = &str> {
    let mut parts = vec![];
    let (mut start, mut depth, mut class, mut escaped) = (0, 0_usize, false, false);
    for (at, byte) in patterns.bytes().enumerate() {
        if escaped {
            escaped = false;
            continue;
        }
        match byte {
            b'\\' => escaped = true,
            b']' => class = false,
            _ if class => {}
            b'[' => class = true,
            b'(' | b'{' => depth += 1,
            b')' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&patterns[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&patterns[start..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_names_only() {
        let check = |pattern: &str, name: &str, expected: bool| {
            let list = AllowList::new([pattern]).expect(pattern);
            assert_eq!(list.allows(name), expected, "{pattern} {name}");
        };
        check("echo", "echo", true);
        check("echo", "echoes", false);
        check("a|ab", "ab", true);
        check("v\\d{1,3}, other", "v12", true);
        check("v\\d{1,3}, other", "other", true);
        check("[a,b]+", "ab", true);
        check("a\\,b", "a,b", true);
        check("(?x) a b # comment", "ab", true);
        check("(?x) a b # comment", "abc", false);
        check(".*", "anything", true);
        check(" , ", "", false);
        check(" , ", "x", false);
        check("^echo$", "echo", true);
    }

    #[test]
    fn what_is_no_pattern_or_too_large_is_refused() {
        let check = |pattern: &str, expected: &str| {
            let error = AllowList::new([pattern]).expect_err(pattern).to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("(unclosed", "\"(unclosed\" is not a regular expression: unclosed group");
        check("a)|(b", "is not a regular expression");
        check(&"a".repeat(5000), "too large");
        check("(((a{100}){100}){100})", "too large");
        check(&"(".repeat(1000), "not a regular expression");
        let many = vec!["a"; 257];
        assert_eq!(AllowList::new(many).expect_err("many"), PatternError::TooMany(257));
    }

    #[test]
    fn matching_is_linear_on_patterns_that_backtrack() {
        let list = AllowList::new(["(a+)+b"]).expect("valid");
        assert!(!list.allows(&"a".repeat(255)));
    }
}

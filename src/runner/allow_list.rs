//! Which actions a model may call: patterns matched whole against names.

use regex_automata::meta::Regex;
use regex_syntax::{
    ast::{self, Ast, ClassSetItem},
    hir::{Hir, Look, translate::Translator},
};
use thiserror::Error;

use crate::wire::{Reason, Status};

/// The longest pattern, in bytes.
pub const MAX_PATTERN_BYTES: usize = 4096;
/// How many patterns a list has at most.
pub const MAX_PATTERNS: usize = 256;
/// How long all patterns of a list may be together, plain names apart, in bytes.
/// It bounds the time that reading them takes.
pub const MAX_LIST_BYTES: usize = 16 * 1024;
/// How many classes beyond ASCII, such as `\w`, all patterns of a list may have
/// together. Those written with `\p` or as a range past ASCII count eight each.
/// Folding their case can take longer than reading kilobytes of anything else.
pub const MAX_LIST_CLASSES: usize = 64;
/// What a class counts that may hold any character there is.
const WIDE_CLASS: usize = 8;
/// How much memory one compiled pattern may take.
const MAX_COMPILED_BYTES: usize = 1 << 20;
/// How much memory all compiled patterns of a list may take together.
const MAX_LIST_COMPILED_BYTES: usize = 4 << 20;

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
    /// All together are longer than [`MAX_LIST_BYTES`], have more than
    /// [`MAX_LIST_CLASSES`], or would take too much memory.
    #[error("the patterns are too large together; {pattern:?} is one too many")]
    ListTooLarge {
        /// The start of the pattern that was one too many.
        pattern: String,
    },
    /// There are more than [`MAX_PATTERNS`].
    #[error("there are more than {MAX_PATTERNS} patterns")]
    TooMany,
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
        let mut spent = Spent::default();
        for patterns in patterns {
            for pattern in split(patterns.as_ref()) {
                number += 1;
                if number > MAX_PATTERNS {
                    return Err(PatternError::TooMany);
                }
                list.patterns.push(Pattern::new(pattern, &mut spent)?);
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
    fn new(pattern: &str, spent: &mut Spent) -> Result<Self, PatternError> {
        let shown = || start_of(pattern);
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(PatternError::TooLarge { pattern: shown() });
        }
        if is_plain(pattern) {
            return Ok(Self::Name(pattern.to_owned()));
        }
        let too_much = || PatternError::ListTooLarge { pattern: shown() };
        spent.text_bytes += pattern.len();
        if spent.text_bytes > MAX_LIST_BYTES {
            return Err(too_much());
        }
        let syntax = |error: regex_syntax::Error| PatternError::Syntax {
            pattern: shown(),
            cause: cause_of(&error),
        };
        let parsed = ast::parse::ParserBuilder::new().nest_limit(100).build().parse(pattern);
        let ast = parsed.map_err(|error| syntax(error.into()))?;
        spent.classes += classes_of(&ast);
        if spent.classes > MAX_LIST_CLASSES {
            return Err(too_much());
        }
        // The anchors go around the parsed pattern: put around its text, they
        // would change what `a)|(b` or a trailing comment means.
        let translated = Translator::new().translate(pattern, &ast);
        let hir = translated.map_err(|error| syntax(error.into()))?;
        let whole = Hir::concat(vec![Hir::look(Look::Start), hir, Hir::look(Look::End)]);
        let config = Regex::config()
            .nfa_size_limit(Some(MAX_COMPILED_BYTES))
            .onepass_size_limit(Some(MAX_COMPILED_BYTES))
            .hybrid_cache_capacity(MAX_COMPILED_BYTES);
        let regex = Regex::builder().configure(config).build_from_hir(&whole);
        let regex = regex.map_err(|_| PatternError::TooLarge { pattern: shown() })?;
        spent.compiled_bytes += regex.memory_usage();
        if spent.compiled_bytes > MAX_LIST_COMPILED_BYTES {
            return Err(too_much());
        }
        Ok(Self::Regex(Box::new(regex)))
    }
}

/// What the patterns of a list have taken so far, plain names apart.
#[derive(Debug, Default)]
struct Spent {
    text_bytes: usize,
    classes: usize,
    compiled_bytes: usize,
}

/// How many classes a pattern has that reach beyond ASCII, wide ones weighed.
fn classes_of(ast: &Ast) -> usize {
    struct Count(usize);
    impl ast::Visitor for Count {
        type Output = usize;
        type Err = std::convert::Infallible;

        fn finish(self) -> Result<usize, Self::Err> {
            Ok(self.0)
        }

        fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
            self.0 += match ast {
                Ast::ClassUnicode(_) => WIDE_CLASS,
                Ast::ClassPerl(_) => 1,
                _ => 0,
            };
            Ok(())
        }

        fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
            self.0 += match item {
                ClassSetItem::Unicode(_) => WIDE_CLASS,
                ClassSetItem::Perl(_) => 1,
                ClassSetItem::Range(range) if !range.end.c.is_ascii() => WIDE_CLASS,
                _ => 0,
            };
            Ok(())
        }
    }
    let Ok(count) = ast::visit(ast, Count(0));
    count
}

/// Whether a pattern is a name that matches itself.
fn is_plain(pattern: &str) -> bool {
    pattern.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The start of a pattern, for an error message.
fn start_of(pattern: &str) -> String {
    pattern.chars().take(100).collect()
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
        assert_eq!(AllowList::new(many).expect_err("many"), PatternError::TooMany);
    }

    #[test]
    fn a_list_is_bounded_as_a_whole() {
        let check = |pattern: &str, number: usize, expected: bool| {
            let list = AllowList::new(vec![pattern; number]);
            let refused = matches!(list, Err(PatternError::ListTooLarge { .. }));
            assert_eq!(refused, expected, "{number} of {pattern}: {list:?}");
        };
        check("browser_[a-z]+(_v\\d)?", 64, false);
        check("browser_[a-z]+(_v[0-9])?", 256, false);
        check(&"n".repeat(255), 256, false);
        check("browser_[a-z]+(_v\\d)?", 65, true);
        check("(?i)[\\x{80}-\\x{FF}&&a]", 8, false);
        check("(?i)[\\x{80}-\\x{FF}&&a]", 9, true);
        check(&format!("{}.*", "n".repeat(200)), 256, true);
        check("\\w{20}", 60, true);
    }

    #[test]
    fn matching_is_linear_on_patterns_that_backtrack() {
        let list = AllowList::new(["(a+)+b"]).expect("valid");
        assert!(!list.allows(&"a".repeat(255)));
    }
}

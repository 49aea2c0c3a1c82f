//! Names: the identifiers of nodes, ports, actions, calls and attributes.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

use thiserror::Error;

/// The longest name, in characters.
pub const MAX_NAME_LEN: usize = 255;

/// A valid identifier: 1–255 characters of `[A-Za-z0-9_#-]`, the first and last
/// of `[A-Za-z0-9_]`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Checks `text` and makes it a name.
    ///
    /// # Errors
    /// [`NameError`] says which rule it breaks.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check(text)?;
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is one of the protocol's own: begins with `__` and is longer
    /// than four characters.
    pub fn is_reserved(&self) -> bool {
        self.0.len() > 4 && self.0.starts_with("__")
    }
}

/// Whether `text` is a valid name.
pub fn is_name(text: &str) -> bool {
    check(text).is_ok()
}

/// A text that should be a name, as messages show it: as long as a name may be.
pub fn shown(text: &str) -> &str {
    start_of(text, MAX_NAME_LEN)
}

/// The first characters of a text, all of them where there are no more.
pub fn start_of(text: &str, most_chars: usize) -> &str {
    match text.char_indices().nth(most_chars) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// It has no characters.
    #[error("a name must not be empty")]
    Empty,
    /// It has more than [`MAX_NAME_LEN`] characters.
    #[error("a name has at most {MAX_NAME_LEN} characters, this one has {0}")]
    TooLong(usize),
    /// It has a character outside `[A-Za-z0-9_#-]`.
    #[error("{text:?} has the character {character:?}; a name has only [A-Za-z0-9_#-]")]
    BadCharacter {
        /// The text, cut to 64 characters.
        text: String,
        /// The first character that does not belong.
        character: char,
    },
    /// It begins or ends with `#` or `-`.
    #[error("{0:?} must begin and end with one of [A-Za-z0-9_]")]
    BadEdge(String),
}

fn check(text: &str) -> Result<(), NameError> {
    let bytes = text.as_bytes();
    let edge = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let shown = || start_of(text, 64).to_owned();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return Err(NameError::Empty);
    };
    if bytes.len() > MAX_NAME_LEN {
        return Err(NameError::TooLong(text.chars().count()));
    }
    if let Some(character) =
        text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '#' | '-')))
    {
        return Err(NameError::BadCharacter { text: shown(), character });
    }
    if !edge(first) || !edge(last) {
        return Err(NameError::BadEdge(shown()));
    }
    Ok(())
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        let check = |text: &str, valid: bool| assert_eq!(is_name(text), valid, "{text:?}");
        check("echo", true);
        check("call-1#word", true);
        check("__reserved__", true);
        check("_", true);
        check(&"a".repeat(255), true);
        check(&"a".repeat(256), false);
        check("", false);
        check("-x", false);
        check("x#", false);
        check("a b", false);
        check("ünïcode", false);
        check("functions.x:0", false);
    }

    #[test]
    fn a_long_text_is_shown_as_far_as_a_name_goes() {
        assert_eq!(shown(&"é".repeat(300)), "é".repeat(255));
        assert_eq!(shown("functions.x:0"), "functions.x:0");
        assert_eq!(start_of("éa", 2), "éa");
    }

    #[test]
    fn reserved_names_are_longer_than_four() {
        assert!(Name::new("__list").expect("valid").is_reserved());
        assert!(!Name::new("____").expect("valid").is_reserved());
    }
}

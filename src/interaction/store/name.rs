//! What a store finds things by: conversation names and interaction ids. Both
//! engines can hold any of them and order them alike, byte by byte.

use std::fmt;

use super::error::RecordError;

/// The longest name or id, in characters.
pub(super) const MAX_LEN: usize = 255;

/// A conversation's name: 1–255 characters, no control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConversationName(String);

/// The id of a kept interaction: 1–255 characters, no control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(String);

impl ConversationName {
    /// Checks `text` and makes it a name.
    ///
    /// # Errors
    /// [`RecordError::BadName`].
    pub fn new(text: impl Into<String>) -> Result<Self, RecordError> {
        Self::of_field("conversation", text.into())
    }

    /// The same, for a field of another name.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_field(field: &'static str, text: String) -> Result<Self, RecordError> {
        checked(field, text).map(Self)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl RecordId {
    /// Checks `text` and makes it an id.
    ///
    /// # Errors
    /// [`RecordError::BadName`].
    pub fn new(text: impl Into<String>) -> Result<Self, RecordError> {
        Self::of_field("id", text.into())
    }

    /// The same, for a field of another name.
    pub(super) fn of_field(field: &'static str, text: String) -> Result<Self, RecordError> {
        checked(field, text).map(Self)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn checked(field: &'static str, text: String) -> Result<String, RecordError> {
    let fault = match text.chars().count() {
        0 => "must not be empty",
        len if len > MAX_LEN => "has more than 255 characters",
        _ if text.chars().any(char::is_control) => "has a control character",
        _ => return Ok(text),
    };
    Err(RecordError::BadName { field, fault })
}

impl fmt::Display for ConversationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_to_255_characters_none_of_them_control() {
        let check = |text: &str, valid: bool| {
            assert_eq!(ConversationName::new(text).is_ok(), valid, "{text:?}");
            assert_eq!(RecordId::new(text).is_ok(), valid, "{text:?}");
        };
        check("user@example.org / 2026-11-30 ü", true);
        check(&"é".repeat(255), true);
        check(&"é".repeat(256), false);
        check("", false);
        check("a\0b", false);
        check("a\nb", false);
    }
}

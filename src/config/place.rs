//! Where in the file something is, for whoever has to mend it.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// A key of the file that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{at}: {key}{message}")]
pub struct KeyError {
    /// Where.
    pub at: Place,
    /// The key, with `: ` after it; empty where the line has none.
    pub key: String,
    /// What is wrong.
    pub message: String,
}

/// The text that spans point into.
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    pub(super) file: &'a Path,
}

impl Source<'_> {
    pub(super) fn place(&self, offset: usize) -> Place {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Place { file: self.file.to_owned(), line }
    }

    pub(super) fn error(&self, error: &toml::de::Error) -> KeyError {
        let start = error.span().map_or(0, |span| span.start);
        self.fault(start, error.message().trim().to_owned())
    }

    /// The key stands before the `=` of its line; what is after it may be secret.
    pub(super) fn fault(&self, offset: usize, message: String) -> KeyError {
        let at = self.place(offset);
        let line = self.text.lines().nth(at.line - 1).unwrap_or_default();
        let is_header = line.trim_start().starts_with('[');
        let key = line.split_once('=').map(|(key, _)| key).or(is_header.then_some(line));
        let key = key.map(str::trim);
        let key = key.filter(|key| key.len() <= 64 && !message.contains(&format!("`{key}`")));
        KeyError { at, key: key.map_or(String::new(), |key| format!("{key}: ")), message }
    }
}

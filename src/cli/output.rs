//! Where a result goes: standard output or a file. Nothing else is written there.

use std::{
    fs::File,
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
};

use super::exit::Failure;

/// The place of the result. A file is made by the first write, so that a call
/// that fails before leaves what was there.
pub(super) struct Output {
    path: Option<PathBuf>,
    file: Option<File>,
}

impl Output {
    /// Writes to a file, or to standard output without one.
    pub(super) fn to(path: Option<PathBuf>) -> Self {
        Self { path, file: None }
    }

    /// Writes to standard output.
    pub(super) fn stdout() -> Self {
        Self::to(None)
    }

    /// Whether a person looks at it.
    pub(super) fn is_terminal(&self) -> bool {
        self.path.is_none() && io::stdout().is_terminal()
    }

    /// Whether it is a file, which gets bytes exactly as they are.
    pub(super) fn is_file(&self) -> bool {
        self.path.is_some()
    }

    /// Writes bytes, at once.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = match (&self.path, &mut self.file) {
            (None, _) => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes).and_then(|()| stdout.flush())
            }
            (Some(_), Some(file)) => file.write_all(bytes),
            (Some(path), none) => {
                File::create(path).and_then(|file| none.insert(file).write_all(bytes))
            }
        };
        written.map_err(|source| match (&self.path, source.kind()) {
            (None, io::ErrorKind::BrokenPipe) => Failure::BrokenPipe,
            (None, _) => Failure::Write { name: "standard output".to_owned(), source },
            (Some(path), _) => Failure::Write { name: path.display().to_string(), source },
        })
    }

    /// Writes a text and ends its line.
    pub(super) fn line(&mut self, text: &str) -> Result<(), Failure> {
        let mut line = String::with_capacity(text.len() + 1);
        line.push_str(text);
        line.push('\n');
        self.write(line.as_bytes())
    }
}

/// Tells the user something, on standard error. Nobody listening is no failure.
pub(super) fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

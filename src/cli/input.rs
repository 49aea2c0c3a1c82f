//! What a command reads: a file, or standard input for `-`.

use std::{fmt, io, path::PathBuf, str::FromStr};

use bytes::Bytes;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::client::MAX_MESSAGE_BYTES;

/// Where to read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// Standard input, `-`.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl FromStr for Source {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "-" { Self::Stdin } else { Self::File(text.into()) })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("standard input"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// Why nothing was read.
#[derive(Debug, Error)]
pub enum InputError {
    /// It cannot be read.
    #[error("cannot read {name}: {source}")]
    Read {
        /// The file, or standard input.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// It is larger than any message may be.
    #[error("{name} is larger than {MAX_MESSAGE_BYTES} bytes, the most that can be sent")]
    TooLarge {
        /// The file, or standard input.
        name: String,
    },
    /// There is nothing in it.
    #[error("{name} is empty")]
    Empty {
        /// The file, or standard input.
        name: String,
    },
    /// It should be text and is not.
    #[error("{name} is not UTF-8 text")]
    NotText {
        /// The file, or standard input.
        name: String,
    },
}

impl Source {
    /// Reads all of it.
    pub(super) async fn read(&self) -> Result<Bytes, InputError> {
        let failed = |source| InputError::Read { name: self.to_string(), source };
        let bytes = match self {
            Self::Stdin => read_bounded(tokio::io::stdin()).await,
            Self::File(path) => {
                let file = tokio::fs::File::open(path).await.map_err(failed)?;
                read_bounded(file).await
            }
        };
        let bytes = bytes.map_err(failed)?;
        if bytes.len() > MAX_MESSAGE_BYTES {
            return Err(InputError::TooLarge { name: self.to_string() });
        }
        Ok(bytes.into())
    }

    /// Reads all of it as text.
    pub(super) async fn read_text(&self) -> Result<String, InputError> {
        let bytes = self.read().await?;
        String::from_utf8(bytes.into()).map_err(|_| InputError::NotText { name: self.to_string() })
    }
}

async fn read_bounded(input: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(MAX_MESSAGE_BYTES as u64 + 1).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

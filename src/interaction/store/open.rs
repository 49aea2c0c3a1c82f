//! Opens the store that a text names.

use std::{path::PathBuf, sync::Arc};

use thiserror::Error;

use super::{
    Store, StoreError,
    postgres::{self, PostgresStore},
    sqlite::{self, SqliteStore},
};

/// Why a store was not opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The text names an engine that is not here.
    #[error("{0:?} is no store: give a path, or postgres://USER@HOST/DATABASE")]
    UnknownEngine(String),
    /// SQLite without a file, of which each connection would have its own.
    #[error("{0:?} would keep nothing: give a file, in a temporary folder where it is to go")]
    InMemory(String),
    /// The file could not be opened.
    #[error(transparent)]
    Sqlite(#[from] sqlite::OpenError),
    /// The server could not be reached, or holds something else.
    #[error(transparent)]
    Postgres(#[from] postgres::OpenError),
    /// The engine failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Opens a store: `postgres://…` or `postgresql://…` a server, anything else
/// without a scheme the path of a SQLite file, which is made at first use.
///
/// # Errors
/// Where it cannot be opened, or was written by a newer program.
pub async fn open(place: &str) -> Result<Arc<dyn Store>, OpenError> {
    if is_in_memory(place) {
        return Err(OpenError::InMemory(place.to_owned()));
    }
    match place.split_once("://") {
        Some(("postgres" | "postgresql", _)) => Ok(Arc::new(PostgresStore::connect(place).await?)),
        Some(("sqlite" | "file", path)) => Ok(Arc::new(SqliteStore::open(path).await?)),
        Some(_) => Err(OpenError::UnknownEngine(place.to_owned())),
        None => Ok(Arc::new(SqliteStore::open(PathBuf::from(place)).await?)),
    }
}

/// The ways in which SQLite is told to keep everything in memory.
fn is_in_memory(place: &str) -> bool {
    let path = place.strip_prefix("sqlite:").or_else(|| place.strip_prefix("file:"));
    let path = path.unwrap_or(place).trim_start_matches("//");
    path.is_empty() || path.starts_with(":memory:") || path.contains("mode=memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interaction::store::ConversationName;

    #[tokio::test]
    async fn a_file_is_written_and_read_at_one_place_however_it_is_said() {
        for scheme in ["", "file:", "file://", "sqlite://"] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("store.db");
            let store = open(&format!("{scheme}{}", path.display())).await.expect("opens");
            let name = ConversationName::new("none").expect("a name");
            let missing = store.delete(&name).await.expect_err("there is none");
            assert!(matches!(missing, StoreError::UnknownConversation(_)), "{scheme}: {missing}");
            let listed = store.conversations("", None, 10).await;
            assert!(listed.is_ok(), "{scheme}: {listed:?}");
            assert!(path.is_file(), "{scheme}");
        }
    }

    #[tokio::test]
    async fn a_store_that_would_keep_nothing_is_refused() {
        for place in [
            "",
            ":memory:",
            "file::memory:?cache=shared",
            "sqlite://:memory:",
            "file:a?mode=memory",
        ] {
            let Err(error) = open(place).await else { panic!("{place:?} was opened") };
            assert!(matches!(error, OpenError::InMemory(_)), "{place:?}: {error}");
        }
    }
}

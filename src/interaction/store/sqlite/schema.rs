//! The file: how it is opened, its tables, and how older files become new ones.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use thiserror::Error;

/// What marks a file as ours: `a11s`.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"a11s");

/// What makes each version out of the one before; the first makes it out of
/// nothing. A line that was released is never changed.
const MIGRATIONS: [&str; 1] = [include_str!("v1.sql")];

/// How long a connection waits for another process that writes, in milliseconds.
const BUSY_MILLIS: u32 = 10_000;

/// Why a file was not opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// It is not ours.
    #[error("{0:?} is a database of another program")]
    Foreign(PathBuf),
    /// A newer program wrote it.
    #[error("{path:?} has version {found}, and this program knows {known}: use a newer one")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: usize,
        /// The newest one known here.
        known: usize,
    },
    /// It cannot be opened or written.
    #[error("{path:?}: {error}")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Why.
        error: rusqlite::Error,
    },
}

/// Opens the connection that writes: makes the file, or brings it up to date.
pub(super) fn open_to_write(path: &Path) -> Result<Connection, OpenError> {
    let failed = |error| OpenError::Sqlite { path: path.to_owned(), error };
    let mut connection = Connection::open(path).map_err(failed)?;
    set_up(&connection).map_err(failed)?;
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let number = |sql: &str| transaction.query_row(sql, [], |row| row.get::<_, i64>(0));
    let version = number("PRAGMA user_version").map_err(failed)?;
    let application = number("PRAGMA application_id").map_err(failed)?;
    let tables = number("SELECT count(*) FROM sqlite_schema").map_err(failed)?;
    if tables > 0 && application != i64::from(APPLICATION_ID) {
        return Err(OpenError::Foreign(path.to_owned()));
    }
    let found = usize::try_from(version).unwrap_or_default();
    let known = MIGRATIONS.len();
    if found > known {
        return Err(OpenError::Newer { path: path.to_owned(), found, known });
    }
    for migration in &MIGRATIONS[found..] {
        transaction.execute_batch(migration).map_err(failed)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
    transaction.pragma_update(None, "user_version", known as i64).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    // After the check: it changes the file, and must not change another's.
    connection.pragma_update(None, "journal_mode", "wal").map_err(failed)?;
    Ok(connection)
}

/// Opens a connection that reads.
pub(super) fn open_to_read(path: &Path) -> rusqlite::Result<Connection> {
    // As the one that writes, so that a path means the same to both.
    let flags = OpenFlags::default().difference(OpenFlags::SQLITE_OPEN_CREATE);
    let connection = Connection::open_with_flags(path, flags)?;
    set_up(&connection)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "busy_timeout", BUSY_MILLIS)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // What was answered outlives a loss of power, not only of the process.
    connection.pragma_update(None, "synchronous", "full")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

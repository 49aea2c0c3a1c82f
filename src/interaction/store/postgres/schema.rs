//! The tables: how they are made, and how older ones become new ones.

use std::path::PathBuf;

use thiserror::Error;

use super::{
    super::error::StoreError,
    failure::with_causes,
    pool::{From, Pool, column},
};

/// What makes each version out of the one before; the first makes it out of
/// nothing. A line that was released is never changed.
const MIGRATIONS: [&str; 1] = [include_str!("v1.sql")];

/// What those lock that make the tables, so that one does: `a11s`.
const LOCK: i64 = i32::from_be_bytes(*b"a11s") as i64;

/// Why a database was not opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The URL cannot be read.
    #[error("the URL of the store cannot be read: {0}")]
    BadUrl(String),
    /// What `sslrootcert` names cannot be trusted.
    #[error("sslrootcert {path:?}: {fault}")]
    RootCertificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: String,
    },
    /// A newer program made the tables.
    #[error("the store has version {found}, and this program knows {known}: use a newer one")]
    Newer {
        /// Their version.
        found: usize,
        /// The newest one known here.
        known: usize,
    },
    /// The server could not be reached, or refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OpenError {
    pub(super) fn bad_url(error: tokio_postgres::Error) -> Self {
        Self::BadUrl(with_causes(&error))
    }
}

/// Makes the tables, or brings them up to date.
pub(super) async fn migrate(pool: &Pool) -> Result<(), OpenError> {
    let mut connection = pool.borrow(From::Any).await?;
    let mut tx = connection.begin().await?;
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    tx.batch("CREATE TABLE IF NOT EXISTS a11_store (version BIGINT NOT NULL)").await?;
    let row = tx.one("SELECT max(version) FROM a11_store", &[]).await?;
    let version = match &row {
        Some(row) => column::<Option<i64>>(row, 0)?,
        None => None,
    };
    let found = usize::try_from(version.unwrap_or_default()).unwrap_or_default();
    let known = MIGRATIONS.len();
    if found > known {
        return Err(OpenError::Newer { found, known });
    }
    if found < known {
        for migration in &MIGRATIONS[found..] {
            tx.batch(migration).await?;
        }
        tx.execute("DELETE FROM a11_store", &[]).await?;
        tx.execute("INSERT INTO a11_store (version) VALUES ($1)", &[&(known as i64)]).await?;
    }
    tx.commit().await?;
    Ok(())
}

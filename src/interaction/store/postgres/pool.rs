//! Connections: few, made when they are needed and again when they broke.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Client, Row, Statement, Transaction, types::ToSql};

use super::{super::error::StoreError, address::Address, failure::failed};

/// How many connections a store has at the most.
const MOST_CONNECTIONS: usize = 8;

pub(super) struct Pool {
    address: Arc<Address>,
    free: Arc<Mutex<Vec<Session>>>,
    slots: Arc<Semaphore>,
}

/// A connection, and what was prepared on it.
struct Session {
    client: Client,
    statements: HashMap<&'static str, Statement>,
}

/// A connection that is in use; free again when dropped.
pub(super) struct Borrowed {
    session: Option<Session>,
    free: Arc<Mutex<Vec<Session>>>,
    _slot: OwnedSemaphorePermit,
}

/// A transaction; undone unless it is committed.
pub(super) struct Tx<'a> {
    transaction: Transaction<'a>,
    statements: &'a mut HashMap<&'static str, Statement>,
}

/// Which connection is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// A free one, or a new one.
    Any,
    /// One that was just made.
    New,
}

pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

impl Pool {
    pub(super) fn new(address: Arc<Address>) -> Self {
        let slots = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        Self { address, free: Arc::default(), slots }
    }

    pub(super) async fn borrow(&self, from: From) -> Result<Borrowed, StoreError> {
        let slot = self.slots.clone().acquire_owned().await.map_err(StoreError::unavailable)?;
        if from == From::New {
            // What ended one has most likely ended those that wait too.
            self.free.lock().clear();
        }
        let free = loop {
            match self.free.lock().pop() {
                Some(session) if session.client.is_closed() => {}
                other => break other,
            }
        };
        let session = match free {
            Some(session) => session,
            None => self.connect().await?,
        };
        Ok(Borrowed { session: Some(session), free: self.free.clone(), _slot: slot })
    }

    async fn connect(&self) -> Result<Session, StoreError> {
        let Address { config, tls } = self.address.as_ref();
        let (client, connection) = config.connect(tls.clone()).await.map_err(failed)?;
        // Ends when the client is dropped.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::warn!(%error, "a connection of the store ended");
            }
        });
        Ok(Session { client, statements: HashMap::new() })
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(session) = self.session.take().filter(|session| !session.client.is_closed()) {
            self.free.lock().push(session);
        }
    }
}

impl Borrowed {
    pub(super) async fn begin(&mut self) -> Result<Tx<'_>, StoreError> {
        let gone = || StoreError::unavailable("the connection is gone");
        let Session { client, statements } = self.session.as_mut().ok_or_else(gone)?;
        let transaction = client.transaction().await.map_err(failed)?;
        Ok(Tx { transaction, statements })
    }
}

impl Tx<'_> {
    async fn prepared(&mut self, sql: &'static str) -> Result<Statement, StoreError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.transaction.prepare(sql).await.map_err(failed)?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    pub(super) async fn all(
        &mut self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepared(sql).await?;
        self.transaction.query(&statement, values).await.map_err(failed)
    }

    pub(super) async fn one(
        &mut self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Option<Row>, StoreError> {
        let statement = self.prepared(sql).await?;
        self.transaction.query_opt(&statement, values).await.map_err(failed)
    }

    pub(super) async fn execute(
        &mut self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<u64, StoreError> {
        let statement = self.prepared(sql).await?;
        self.transaction.execute(&statement, values).await.map_err(failed)
    }

    /// Two changes that wait for the server once.
    pub(super) async fn execute_both(
        &mut self,
        first: (&'static str, Values<'_>),
        second: (&'static str, Values<'_>),
    ) -> Result<(), StoreError> {
        let (one, two) = (self.prepared(first.0).await?, self.prepared(second.0).await?);
        let both = futures::future::try_join(
            self.transaction.execute(&one, first.1),
            self.transaction.execute(&two, second.1),
        );
        both.await.map_err(failed)?;
        Ok(())
    }

    /// Several statements without values.
    pub(super) async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        self.transaction.batch_execute(sql).await.map_err(failed)
    }

    pub(super) async fn commit(self) -> Result<(), StoreError> {
        self.transaction.commit().await.map_err(failed)
    }
}

/// A column of a row.
pub(super) fn column<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    index: usize,
) -> Result<T, StoreError> {
    row.try_get(index).map_err(failed)
}

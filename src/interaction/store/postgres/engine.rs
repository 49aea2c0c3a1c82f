//! The store over its connections.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;
use tokio_postgres::Config;
use uuid::Uuid;

use super::{
    super::{
        conversations::{After, Appended, Conversation, Conversations, Fork},
        error::StoreError,
        name::{ConversationName, RecordId},
        record::{Record, Stored},
        rounds::{HeldRound, Opened, Rounds},
        ticks::Ticks,
    },
    journal,
    pool::Pool,
    schema::{OpenError, migrate},
    statements,
};

/// A store in a PostgreSQL database. Any number of processes can share it.
pub struct PostgresStore {
    pool: Pool,
    ticks: Ticks,
}

impl PostgresStore {
    /// Reaches a server by its URL, and makes the tables or brings them up to
    /// date. They are made in the first schema of the search path.
    ///
    /// # Errors
    /// Where it cannot be reached, or a newer program made the tables.
    pub async fn connect(url: &str) -> Result<Self, OpenError> {
        let mut config: Config = url.parse().map_err(OpenError::BadUrl)?;
        if config.get_application_name().is_none() {
            config.application_name(env!("CARGO_PKG_NAME"));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        let pool = Pool::new(config);
        migrate(&pool).await?;
        Ok(Self { pool, ticks: Ticks::default() })
    }
}

/// Unless the URL says how long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL has a password.
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}

/// One transaction on a free connection.
macro_rules! transaction {
    ($store:expr, |$tx:ident| $body:expr) => {{
        let mut connection = $store.pool.borrow().await?;
        let mut transaction = connection.begin().await?;
        let $tx = &mut transaction;
        let result = $body?;
        transaction.commit().await?;
        Ok::<_, StoreError>(result)
    }};
}

#[async_trait]
impl Conversations for PostgresStore {
    async fn append(
        &self,
        conversation: &ConversationName,
        record: Record,
    ) -> Result<Appended, StoreError> {
        let name = conversation.as_str();
        let appended = transaction!(self, |tx| statements::append(tx, name, &record).await)?;
        self.ticks.tick(name);
        Ok(appended)
    }

    async fn get(
        &self,
        conversation: &ConversationName,
        id: &RecordId,
    ) -> Result<Stored, StoreError> {
        let found = transaction!(self, |tx| async {
            let key = statements::key(tx, conversation.as_str()).await?;
            statements::find(tx, key, id.as_str()).await
        }
        .await)?;
        found.ok_or_else(|| StoreError::UnknownInteraction(id.to_string()))
    }

    async fn list(
        &self,
        conversation: &ConversationName,
        after: After,
    ) -> Result<Vec<Stored>, StoreError> {
        transaction!(self, |tx| statements::list(tx, conversation.as_str(), after).await)
    }

    async fn conversation(&self, name: &ConversationName) -> Result<Conversation, StoreError> {
        transaction!(self, |tx| statements::conversation(tx, name.as_str()).await)
    }

    async fn conversations(
        &self,
        prefix: &str,
        after: Option<&ConversationName>,
        limit: usize,
    ) -> Result<Vec<Conversation>, StoreError> {
        if prefix.contains('\0') {
            // No name has it, and the server takes no text that has.
            return Ok(vec![]);
        }
        let after = after.map_or("", ConversationName::as_str);
        transaction!(self, |tx| statements::conversations(tx, prefix, after, limit).await)
    }

    async fn forks(
        &self,
        conversation: &ConversationName,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Fork>, StoreError> {
        transaction!(self, |tx| statements::forks(tx, conversation.as_str(), after, limit).await)
    }

    async fn delete(&self, conversation: &ConversationName) -> Result<u64, StoreError> {
        let deleted = transaction!(self, |tx| statements::delete(tx, conversation.as_str()).await)?;
        self.ticks.tick(conversation.as_str());
        Ok(deleted)
    }

    fn changes(&self, conversation: &ConversationName) -> watch::Receiver<()> {
        self.ticks.listen(conversation.as_str())
    }
}

#[async_trait]
impl Rounds for PostgresStore {
    async fn open_round(
        &self,
        conversation: &ConversationName,
        turn: Record,
        owner: Uuid,
        lease: Duration,
    ) -> Result<Opened, StoreError> {
        let name = conversation.as_str();
        let opened = transaction!(self, |tx| journal::open(tx, name, &turn, owner, lease).await)?;
        // Only where it may have appended: whoever waits for the round asks again
        // at each tick.
        if matches!(opened, Opened::Held(_)) {
            self.ticks.tick(name);
        }
        Ok(opened)
    }

    async fn renew(&self, round: &HeldRound, lease: Duration) -> Result<(), StoreError> {
        transaction!(self, |tx| journal::renew(tx, round, lease).await)
    }

    async fn begin_call(&self, round: &HeldRound, call: &str) -> Result<(), StoreError> {
        transaction!(self, |tx| journal::begin(tx, round, call).await)
    }

    async fn end_call(
        &self,
        round: &HeldRound,
        call: &str,
        outcome: Bytes,
    ) -> Result<(), StoreError> {
        transaction!(self, |tx| journal::end(tx, round, call, &outcome).await)
    }

    async fn finish_round(
        &self,
        round: &HeldRound,
        results: Record,
        summary: Bytes,
    ) -> Result<(), StoreError> {
        transaction!(self, |tx| journal::finish(tx, round, &results, &summary).await)?;
        self.ticks.tick(round.key.conversation.as_str());
        Ok(())
    }
}

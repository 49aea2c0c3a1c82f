//! The store over its connections.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;
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
    address::Address,
    bell::Bell,
    failure::is_of_connection,
    journal,
    pool::{From, Pool},
    schema::{OpenError, migrate},
    statements,
};

/// A store in a PostgreSQL database. Any number of processes can share it.
pub struct PostgresStore {
    pool: Pool,
    ticks: Arc<Ticks>,
    bell: Bell,
}

impl PostgresStore {
    /// Reaches a server by its URL, and makes the tables or brings them up to
    /// date. They are made in the first schema of the search path.
    ///
    /// # Errors
    /// Where it cannot be reached, or a newer program made the tables.
    pub async fn connect(url: &str) -> Result<Self, OpenError> {
        let address = Arc::new(Address::read(url)?);
        let pool = Pool::new(address.clone());
        migrate(&pool).await?;
        let ticks = Arc::<Ticks>::default();
        let bell = Bell::start(address, ticks.clone());
        Ok(Self { pool, ticks, bell })
    }

    /// Tells all who share the store that a conversation changed.
    fn tell(&self, conversation: &str) {
        self.ticks.tick(conversation);
        self.bell.ring(conversation);
    }
}

/// How often what others changed is looked for, where they cannot be heard.
const POLL: Duration = Duration::from_secs(1);

/// The same where they are heard: a process that died may have told nobody.
const POLL_WHILE_HEARD: Duration = Duration::from_secs(10);

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL has a password.
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}

/// How often a transaction is begun again whose connection failed: a server that
/// restarts may break the new one as well.
const REDONE: u32 = 3;

/// One transaction on a free connection; where the connection fails, again on a
/// new one, at most [`REDONE`] times. That may find done what was done just before its connection failed:
/// each body does the same again, or says so.
macro_rules! transaction {
    ($store:expr, |$tx:ident| $body:expr) => {{
        let (mut from, mut left) = (From::Any, REDONE);
        loop {
            let mut connection = $store.pool.borrow(from).await?;
            let ended = match connection.begin().await {
                Err(error) => Err(error),
                Ok(mut transaction) => {
                    let $tx = &mut transaction;
                    match $body {
                        Err(error) => Err(error),
                        Ok(result) => transaction.commit().await.map(|()| result),
                    }
                }
            };
            match ended {
                Err(error) if left > 0 && is_of_connection(&error) => {
                    left -= 1;
                    from = From::New;
                }
                ended => break ended,
            }
        }
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
        self.tell(name);
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
        self.tell(conversation.as_str());
        Ok(deleted)
    }

    fn changes(&self, conversation: &ConversationName) -> watch::Receiver<()> {
        self.ticks.listen(conversation.as_str())
    }

    fn poll_interval(&self) -> Duration {
        if self.bell.is_heard() { POLL_WHILE_HEARD } else { POLL }
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
            self.tell(name);
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
        self.tell(round.key.conversation.as_str());
        Ok(())
    }
}

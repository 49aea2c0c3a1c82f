//! The store over its writer and its readers.

use std::{path::Path, time::Duration};

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
    journal,
    readers::Readers,
    schema::{OpenError, open_to_write},
    statements,
    writer::Writer,
};

/// A store in one SQLite file. More than one process can have it open.
#[derive(Debug)]
pub struct SqliteStore {
    writer: Writer,
    readers: Readers,
    ticks: Ticks,
}

impl SqliteStore {
    /// Opens a file, or makes it, or brings it up to date. Beside it stand two
    /// more, `-wal` and `-shm`, while it is open.
    ///
    /// # Errors
    /// Where it cannot be opened, is another program's, or a newer one's.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref().to_owned();
        let failed = {
            let path = path.clone();
            move |error: Box<dyn std::error::Error + Send + Sync>| OpenError::Sqlite {
                path,
                error: rusqlite::Error::ToSqlConversionFailure(error),
            }
        };
        let opening = path.clone();
        let opened = tokio::task::spawn_blocking(move || open_to_write(&opening)).await;
        let connection = match opened {
            Ok(opened) => opened?,
            Err(error) => return Err(failed(error.into())),
        };
        let writer = Writer::start(connection).map_err(|error| failed(error.into()))?;
        Ok(Self { writer, readers: Readers::new(path), ticks: Ticks::default() })
    }
}

#[async_trait]
impl Conversations for SqliteStore {
    async fn append(
        &self,
        conversation: &ConversationName,
        record: Record,
    ) -> Result<Appended, StoreError> {
        let name = conversation.clone();
        let appended = self
            .writer
            .write(move |connection| statements::append(connection, name.as_str(), &record))
            .await?;
        self.ticks.tick(conversation.as_str());
        Ok(appended)
    }

    async fn get(
        &self,
        conversation: &ConversationName,
        id: &RecordId,
    ) -> Result<Stored, StoreError> {
        let (name, id) = (conversation.clone(), id.clone());
        let read = move |connection: &_| {
            let key = statements::key(connection, name.as_str())?;
            statements::find(connection, key, id.as_str())?
                .ok_or_else(|| StoreError::UnknownInteraction(id.to_string()))
        };
        self.readers.read(read).await
    }

    async fn list(
        &self,
        conversation: &ConversationName,
        after: After,
    ) -> Result<Vec<Stored>, StoreError> {
        let name = conversation.clone();
        self.readers
            .read(move |connection| statements::list(connection, name.as_str(), after))
            .await
    }

    async fn conversation(&self, name: &ConversationName) -> Result<Conversation, StoreError> {
        let name = name.clone();
        self.readers
            .read(move |connection| statements::conversation(connection, name.as_str()))
            .await
    }

    async fn conversations(
        &self,
        prefix: &str,
        after: Option<&ConversationName>,
        limit: usize,
    ) -> Result<Vec<Conversation>, StoreError> {
        let prefix = prefix.to_owned();
        let after = after.map_or_else(String::new, ToString::to_string);
        let read =
            move |connection: &_| statements::conversations(connection, &prefix, &after, limit);
        self.readers.read(read).await
    }

    async fn forks(
        &self,
        conversation: &ConversationName,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Fork>, StoreError> {
        let name = conversation.clone();
        let read = move |connection: &_| statements::forks(connection, name.as_str(), after, limit);
        self.readers.read(read).await
    }

    async fn delete(&self, conversation: &ConversationName) -> Result<u64, StoreError> {
        let name = conversation.clone();
        let deleted = self
            .writer
            .write(move |connection| statements::delete(connection, name.as_str()))
            .await?;
        self.ticks.tick(conversation.as_str());
        Ok(deleted)
    }

    fn changes(&self, conversation: &ConversationName) -> watch::Receiver<()> {
        self.ticks.listen(conversation.as_str())
    }

    fn poll_interval(&self) -> Duration {
        Duration::from_secs(1)
    }
}

#[async_trait]
impl Rounds for SqliteStore {
    async fn open_round(
        &self,
        conversation: &ConversationName,
        turn: Record,
        owner: Uuid,
        lease: Duration,
    ) -> Result<Opened, StoreError> {
        let name = conversation.clone();
        let opened = self
            .writer
            .write(move |connection| journal::open(connection, name.as_str(), &turn, owner, lease))
            .await?;
        // Only where it may have appended: whoever waits for the round asks again
        // at each tick.
        if matches!(opened, Opened::Held(_)) {
            self.ticks.tick(conversation.as_str());
        }
        Ok(opened)
    }

    async fn renew(&self, round: &HeldRound, lease: Duration) -> Result<(), StoreError> {
        let round = round.clone();
        self.writer.write(move |connection| journal::renew(connection, &round, lease)).await
    }

    async fn begin_call(&self, round: &HeldRound, call: &str) -> Result<(), StoreError> {
        let (round, call) = (round.clone(), call.to_owned());
        self.writer.write(move |connection| journal::begin(connection, &round, &call)).await
    }

    async fn end_call(
        &self,
        round: &HeldRound,
        call: &str,
        outcome: Bytes,
    ) -> Result<(), StoreError> {
        let (round, call) = (round.clone(), call.to_owned());
        self.writer.write(move |connection| journal::end(connection, &round, &call, &outcome)).await
    }

    async fn finish_round(
        &self,
        round: &HeldRound,
        results: Record,
        summary: Bytes,
    ) -> Result<(), StoreError> {
        let held = round.clone();
        self.writer
            .write(move |connection| journal::finish(connection, &held, &results, &summary))
            .await?;
        self.ticks.tick(round.key.conversation.as_str());
        Ok(())
    }
}

//! The contract of a store of conversations.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::{
    error::StoreError,
    name::{ConversationName, RecordId},
    record::{Record, Stored},
};

/// Keeps conversations. What a call answered with is durable.
#[async_trait]
pub trait Conversations: Send + Sync + 'static {
    /// Appends a record; the first one makes the conversation. The same
    /// interaction again is the record that is there.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] where another interaction has the id,
    /// [`StoreError::MissingPrevious`] where what it follows is not there.
    async fn append(
        &self,
        conversation: &ConversationName,
        record: Record,
    ) -> Result<Appended, StoreError>;

    /// One interaction by its id.
    ///
    /// # Errors
    /// Where there is none, or no such conversation.
    async fn get(
        &self,
        conversation: &ConversationName,
        id: &RecordId,
    ) -> Result<Stored, StoreError>;

    /// Interactions in order, as many as the page allows and at least one where
    /// there is one.
    ///
    /// # Errors
    /// Where there is no such conversation.
    async fn list(
        &self,
        conversation: &ConversationName,
        after: After,
    ) -> Result<Vec<Stored>, StoreError>;

    /// One conversation.
    ///
    /// # Errors
    /// Where there is none of that name.
    async fn conversation(&self, name: &ConversationName) -> Result<Conversation, StoreError>;

    /// Conversations whose name begins so, by name, after a name.
    ///
    /// # Errors
    /// Only those of the engine.
    async fn conversations(
        &self,
        prefix: &str,
        after: Option<&ConversationName>,
        limit: usize,
    ) -> Result<Vec<Conversation>, StoreError>;

    /// Interactions that more than one other follows, in order, after a position.
    ///
    /// # Errors
    /// Where there is no such conversation.
    async fn forks(
        &self,
        conversation: &ConversationName,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Fork>, StoreError>;

    /// Deletes a conversation with all its rounds; how many interactions it had.
    ///
    /// # Errors
    /// Where there is no such conversation.
    async fn delete(&self, conversation: &ConversationName) -> Result<u64, StoreError>;

    /// Changes whenever this process changes the conversation, and where the engine
    /// can tell when another does; now and then without any change.
    fn changes(&self, conversation: &ConversationName) -> watch::Receiver<()>;

    /// How often to look for what other processes changed and [`changes`] does not
    /// tell of. It may be another one each time it is asked.
    ///
    /// [`changes`]: Self::changes
    fn poll_interval(&self) -> Duration;
}

/// A part of a conversation.
#[derive(Debug, Clone, Copy)]
pub struct After {
    /// What comes after this position.
    pub position: u64,
    /// How many interactions at the most.
    pub count: usize,
    /// It ends with the interaction that reaches this many bytes.
    pub bytes: usize,
}

impl After {
    /// The page after a position, of at most 100 interactions, and 4 MiB
    /// or the one that goes beyond.
    pub fn position(position: u64) -> Self {
        Self { position, count: 100, bytes: 4 << 20 }
    }
}

/// What came of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Where the record is, from 1.
    pub position: u64,
    /// When it was appended first, in milliseconds since the Unix epoch.
    pub at_millis: i64,
    /// Whether it was there already.
    pub existed: Existed,
}

/// Whether a record was there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existed {
    /// It was.
    Yes,
    /// It is new.
    No,
}

/// A conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// Its name.
    pub name: String,
    /// How many interactions it has.
    pub length: u64,
    /// When the first one was appended, in milliseconds since the Unix epoch.
    pub created_at_millis: i64,
    /// When the last one was appended.
    pub updated_at_millis: i64,
}

/// An interaction that more than one other follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// Its id.
    pub id: String,
    /// Its position.
    pub position: u64,
    /// Those that follow it, in order; the first 1,000.
    pub next_ids: Vec<String>,
}

/// How many followers of one interaction are listed.
pub(super) const MOST_FOLLOWERS: usize = 1000;

//! A store that tells each step of its journal, before and after it is taken.

use std::{fmt, sync::Arc, time::Duration};

use a11_grpc::interaction::store::{
    After, Appended, Conversation, ConversationName, Conversations, Fork, HeldRound, Opened,
    Record, RecordId, Rounds, Store, StoreError, Stored,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::watch;
use uuid::Uuid;

/// A step of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub name: &'static str,
    pub moment: Moment,
    /// The call it is about; empty for the round.
    pub call: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Nothing of it is recorded.
    Before,
    /// It is recorded, and nobody has been told so.
    After,
}

/// The names of the steps, in their order.
pub const STEPS: [&str; 4] = ["turn appended", "call begun", "call ended", "round finished"];

/// What goes on beside them.
pub const RENEWED: &str = "lease renewed";

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, moment, .. } = self;
        write!(f, "{moment:?} {name}")
    }
}

/// What is done at a step; the step waits for it.
type Hook = Arc<dyn Fn(Step) -> BoxFuture<'static, ()> + Send + Sync>;

pub struct Steps {
    store: Arc<dyn Store>,
    hook: Hook,
}

impl Steps {
    pub fn of(store: Arc<dyn Store>, hook: Hook) -> Arc<dyn Store> {
        Arc::new(Self { store, hook })
    }

    async fn tell<T>(
        &self,
        name: &'static str,
        call: &str,
        step: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let at = |moment| Step { name, moment, call: call.to_owned() };
        (self.hook)(at(Moment::Before)).await;
        let taken = step.await?;
        (self.hook)(at(Moment::After)).await;
        Ok(taken)
    }
}

#[async_trait]
impl Rounds for Steps {
    async fn open_round(
        &self,
        conversation: &ConversationName,
        turn: Record,
        owner: Uuid,
        lease: Duration,
    ) -> Result<Opened, StoreError> {
        let step = self.store.open_round(conversation, turn, owner, lease);
        self.tell(STEPS[0], "", step).await
    }

    async fn renew(&self, round: &HeldRound, lease: Duration) -> Result<(), StoreError> {
        self.tell(RENEWED, "", self.store.renew(round, lease)).await
    }

    async fn begin_call(&self, round: &HeldRound, call: &str) -> Result<(), StoreError> {
        self.tell(STEPS[1], call, self.store.begin_call(round, call)).await
    }

    async fn end_call(
        &self,
        round: &HeldRound,
        call: &str,
        outcome: Bytes,
    ) -> Result<(), StoreError> {
        self.tell(STEPS[2], call, self.store.end_call(round, call, outcome)).await
    }

    async fn finish_round(
        &self,
        round: &HeldRound,
        results: Record,
        summary: Bytes,
    ) -> Result<(), StoreError> {
        self.tell(STEPS[3], "", self.store.finish_round(round, results, summary)).await
    }
}

#[async_trait]
impl Conversations for Steps {
    async fn append(
        &self,
        conversation: &ConversationName,
        record: Record,
    ) -> Result<Appended, StoreError> {
        self.store.append(conversation, record).await
    }

    async fn get(
        &self,
        conversation: &ConversationName,
        id: &RecordId,
    ) -> Result<Stored, StoreError> {
        self.store.get(conversation, id).await
    }

    async fn list(
        &self,
        conversation: &ConversationName,
        after: After,
    ) -> Result<Vec<Stored>, StoreError> {
        self.store.list(conversation, after).await
    }

    async fn conversation(&self, name: &ConversationName) -> Result<Conversation, StoreError> {
        self.store.conversation(name).await
    }

    async fn conversations(
        &self,
        prefix: &str,
        after: Option<&ConversationName>,
        limit: usize,
    ) -> Result<Vec<Conversation>, StoreError> {
        self.store.conversations(prefix, after, limit).await
    }

    async fn forks(
        &self,
        conversation: &ConversationName,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Fork>, StoreError> {
        self.store.forks(conversation, after, limit).await
    }

    async fn delete(&self, conversation: &ConversationName) -> Result<u64, StoreError> {
        self.store.delete(conversation).await
    }

    fn changes(&self, conversation: &ConversationName) -> watch::Receiver<()> {
        self.store.changes(conversation)
    }

    fn poll_interval(&self) -> Duration {
        self.store.poll_interval()
    }
}

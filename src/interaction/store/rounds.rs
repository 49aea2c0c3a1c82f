//! The contract of a journal: which calls of a turn have begun, what came of
//! them, and who runs them.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

use super::{
    error::StoreError,
    name::{ConversationName, RecordId},
    record::Record,
};

/// Keeps rounds: the calls of one turn, held by one runner at a time.
///
/// A holder holds until its lease is over and another takes the round; from then
/// on nothing it records is taken. What a call answered with is durable.
#[async_trait]
pub trait Rounds: Send + Sync + 'static {
    /// Appends the turn, and takes its round: where it is new, where it is the
    /// holder's own, or where the lease of its holder is over.
    ///
    /// # Errors
    /// As appending the turn.
    async fn open_round(
        &self,
        conversation: &ConversationName,
        turn: Record,
        owner: Uuid,
        lease: Duration,
    ) -> Result<Opened, StoreError>;

    /// Holds on for another lease from now.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] where another holds the round, or it is finished
    /// or deleted; so too the following.
    async fn renew(&self, round: &HeldRound, lease: Duration) -> Result<(), StoreError>;

    /// Records that a call begins. Again for one that had begun: it begins anew.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]; the call must not begin then.
    async fn begin_call(&self, round: &HeldRound, call: &str) -> Result<(), StoreError>;

    /// Records what came of a call.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]; what came of it counts for nothing then.
    async fn end_call(
        &self,
        round: &HeldRound,
        call: &str,
        outcome: Bytes,
    ) -> Result<(), StoreError>;

    /// Appends the turn of results and finishes the round, both or neither. The
    /// records of its calls are let go of: `summary` stands for them. Again with
    /// the same summary: it is finished already.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], and those of appending.
    async fn finish_round(
        &self,
        round: &HeldRound,
        results: Record,
        summary: Bytes,
    ) -> Result<(), StoreError>;
}

/// Which round: that of one turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RoundKey {
    /// The conversation.
    pub conversation: ConversationName,
    /// The id of the turn that made the calls.
    pub turn: RecordId,
}

/// A round that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRound {
    /// Which.
    pub key: RoundKey,
    /// By whom: a new id each time a round is run.
    pub owner: Uuid,
}

/// How a round was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// It is held now, and these calls had begun.
    Held(Vec<RecordedCall>),
    /// Another holds it, for this long unless the lease is renewed.
    Running(Duration),
    /// It is finished, with this summary.
    Finished(Bytes),
}

/// A call that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedCall {
    /// Its id.
    pub id: String,
    /// What came of it; `None` where it was cut off.
    pub outcome: Option<Bytes>,
}

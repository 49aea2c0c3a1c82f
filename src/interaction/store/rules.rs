//! What the engines decide by, once for all of them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{
    conversations::{Appended, Existed},
    error::StoreError,
    record::{Record, Stored},
    rounds::RoundKey,
};
use bytes::Bytes;
use uuid::Uuid;

/// What an append finds where its id is taken.
///
/// # Errors
/// [`StoreError::Conflict`] where the two are not the same once decoded.
pub(super) fn same(there: &Stored, record: &Record) -> Result<Appended, StoreError> {
    // Equal bytes of one type need no reading.
    let equal_bytes = there.bytes == record.bytes && there.media_type == record.media_type;
    if equal_bytes || there.interaction()? == record.interaction {
        let Stored { position, appended_at_millis: at_millis, .. } = *there;
        return Ok(Appended { position, at_millis, existed: Existed::Yes });
    }
    Err(StoreError::Conflict(there.id.clone()))
}

/// A round as it is recorded.
pub(super) struct RoundRow {
    pub(super) owner: String,
    pub(super) lease_until_millis: i64,
    /// Of a finished one.
    pub(super) summary: Option<Bytes>,
}

/// What is to be done with a round that is asked for.
pub(super) enum Decision {
    /// It is taken.
    Take,
    /// Another runs it, for this long.
    Wait(Duration),
    /// It is finished.
    Finished(Bytes),
}

/// Who has a round that was recorded before.
pub(super) fn decide(row: RoundRow, owner: Uuid, now_millis: i64) -> Decision {
    if let Some(summary) = row.summary {
        return Decision::Finished(summary);
    }
    if row.owner == owner.to_string() || row.lease_until_millis <= now_millis {
        return Decision::Take;
    }
    let left = row.lease_until_millis.saturating_sub(now_millis);
    Decision::Wait(Duration::from_millis(u64::try_from(left).unwrap_or_default()))
}

/// Whether a round is to be finished, or was already by the same holder.
///
/// # Errors
/// [`StoreError::LeaseLost`] where it was finished otherwise.
pub(super) fn finish(
    key: &RoundKey,
    there: Option<Vec<u8>>,
    summary: &[u8],
) -> Result<Finish, StoreError> {
    match there {
        None => Ok(Finish::Now),
        Some(there) if there == summary => Ok(Finish::Already),
        Some(_) => Err(lost(key)),
    }
}

/// What is to be done to finish a round.
pub(super) enum Finish {
    /// It is to be finished.
    Now,
    /// Nothing.
    Already,
}

/// When a lease that begins now is over.
pub(super) fn lease_end(now_millis: i64, lease: Duration) -> i64 {
    now_millis.saturating_add(i64::try_from(lease.as_millis()).unwrap_or(i64::MAX))
}

pub(super) fn lost(key: &RoundKey) -> StoreError {
    StoreError::LeaseLost(key.turn.as_str().to_owned())
}

/// Milliseconds since the Unix epoch.
pub(super) fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A number as the engines hold it; they have no larger one.
pub(super) fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A count of the engines, which are never negative.
pub(super) fn count(column: i64) -> u64 {
    u64::try_from(column).unwrap_or_default()
}

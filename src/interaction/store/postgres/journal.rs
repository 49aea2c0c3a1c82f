//! Rounds in SQL. Each function runs inside a transaction of its caller.

use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use super::{
    super::{
        error::StoreError,
        record::Record,
        rounds::{HeldRound, Opened, RecordedCall},
        rules::{Decision, RoundRow, decide, lease_end, lost},
    },
    pool::{Tx, column},
    statements::{append, key},
};

pub(super) async fn open(
    tx: &mut Tx<'_>,
    name: &str,
    turn: &Record,
    owner: Uuid,
    lease: Duration,
) -> Result<Opened, StoreError> {
    // Locks the conversation, so that one opens at a time.
    append(tx, name, turn).await?;
    let (conversation, turn) = (key(tx, name).await?, turn.id.as_str());
    let now = now(tx).await?;
    let (owner_text, until) = (owner.to_string(), lease_end(now, lease));
    let sql = "SELECT key, owner, lease_until, summary FROM a11_round \
               WHERE conversation = $1 AND turn = $2 FOR UPDATE";
    let Some(row) = tx.one(sql, &[&conversation, &turn]).await? else {
        let sql = "INSERT INTO a11_round (conversation, turn, owner, lease_until) \
                   VALUES ($1, $2, $3, $4)";
        tx.execute(sql, &[&conversation, &turn, &owner_text, &until]).await?;
        return Ok(Opened::Held(vec![]));
    };
    let round: i64 = column(&row, 0)?;
    let summary: Option<Vec<u8>> = column(&row, 3)?;
    let row = RoundRow {
        owner: column(&row, 1)?,
        lease_until_millis: column(&row, 2)?,
        summary: summary.map(Bytes::from),
    };
    match decide(row, owner, now) {
        Decision::Wait(left) => Ok(Opened::Running(left)),
        Decision::Finished(summary) => Ok(Opened::Finished(summary)),
        Decision::Take => {
            let sql = "UPDATE a11_round SET owner = $2, lease_until = $3 WHERE key = $1";
            tx.execute(sql, &[&round, &owner_text, &until]).await?;
            let sql = "SELECT id, outcome FROM a11_call WHERE round = $1";
            let mut calls = vec![];
            for row in tx.all(sql, &[&round]).await? {
                let outcome: Option<Vec<u8>> = column(&row, 1)?;
                let id = String::from_utf8(column(&row, 0)?)
                    .map_err(|_| StoreError::BrokenRound(turn.to_owned()))?;
                calls.push(RecordedCall { id, outcome: outcome.map(Bytes::from) });
            }
            Ok(Opened::Held(calls))
        }
    }
}

/// The server's clock, which all that share the store share.
async fn now(tx: &mut Tx<'_>) -> Result<i64, StoreError> {
    let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let row = tx.one(sql, &[]).await?.ok_or_else(|| StoreError::unavailable("no clock"))?;
    column(&row, 0)
}

/// The key of a round that is still its holder's, and stays so until the
/// transaction ends; calls of one round do not wait for each other.
async fn held(tx: &mut Tx<'_>, round: &HeldRound) -> Result<i64, StoreError> {
    let HeldRound { key, owner } = round;
    let sql = "SELECT a11_round.key FROM a11_round \
               JOIN a11_conversation ON a11_conversation.key = a11_round.conversation \
               WHERE name = $1 AND turn = $2 AND owner = $3 AND summary IS NULL \
               FOR SHARE OF a11_round";
    let (name, turn) = (key.conversation.as_str(), key.turn.as_str());
    match tx.one(sql, &[&name, &turn, &owner.to_string()]).await? {
        Some(row) => column(&row, 0),
        None => Err(lost(key)),
    }
}

pub(super) async fn renew(
    tx: &mut Tx<'_>,
    round: &HeldRound,
    lease: Duration,
) -> Result<(), StoreError> {
    let HeldRound { key, owner } = round;
    let until = lease_end(now(tx).await?, lease);
    // In one statement: a shared lock that wants more would meet another's.
    let sql = "UPDATE a11_round SET lease_until = $4 FROM a11_conversation \
               WHERE a11_conversation.key = a11_round.conversation \
               AND name = $1 AND turn = $2 AND owner = $3 AND summary IS NULL";
    let (name, turn) = (key.conversation.as_str(), key.turn.as_str());
    match tx.execute(sql, &[&name, &turn, &owner.to_string(), &until]).await? {
        0 => Err(lost(key)),
        _ => Ok(()),
    }
}

pub(super) async fn begin(
    tx: &mut Tx<'_>,
    round: &HeldRound,
    call: &str,
) -> Result<(), StoreError> {
    let key = held(tx, round).await?;
    let sql = "INSERT INTO a11_call (round, id) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    tx.execute(sql, &[&key, &call.as_bytes()]).await?;
    Ok(())
}

pub(super) async fn end(
    tx: &mut Tx<'_>,
    round: &HeldRound,
    call: &str,
    outcome: &[u8],
) -> Result<(), StoreError> {
    let key = held(tx, round).await?;
    let sql = "INSERT INTO a11_call (round, id, outcome) VALUES ($1, $2, $3) \
               ON CONFLICT (round, id) DO UPDATE SET outcome = excluded.outcome";
    tx.execute(sql, &[&key, &call.as_bytes(), &outcome]).await?;
    Ok(())
}

pub(super) async fn finish(
    tx: &mut Tx<'_>,
    round: &HeldRound,
    results: &Record,
    summary: &[u8],
) -> Result<(), StoreError> {
    // Looked at without a lock, to say what is wrong; then the conversation is
    // locked first, as by all that lock both, and the round is looked at again.
    let HeldRound { key, owner } = round;
    let sql = "SELECT summary FROM a11_round \
               JOIN a11_conversation ON a11_conversation.key = a11_round.conversation \
               WHERE name = $1 AND turn = $2 AND owner = $3";
    let (name, turn) = (key.conversation.as_str(), key.turn.as_str());
    let found = tx.one(sql, &[&name, &turn, &owner.to_string()]).await?;
    let found: Option<Vec<u8>> = column(&found.ok_or_else(|| lost(key))?, 0)?;
    match found {
        None => {}
        // Done already, on a connection that broke before it could say so.
        Some(there) if there == summary => return Ok(()),
        Some(_) => return Err(lost(key)),
    }
    append(tx, name, results).await?;
    let sql = "UPDATE a11_round SET summary = $4 FROM a11_conversation \
               WHERE a11_conversation.key = a11_round.conversation \
               AND name = $1 AND turn = $2 AND owner = $3 AND summary IS NULL \
               RETURNING a11_round.key";
    let row = tx.one(sql, &[&name, &turn, &owner.to_string(), &summary]).await?;
    let round: i64 = column(&row.ok_or_else(|| lost(key))?, 0)?;
    tx.execute("DELETE FROM a11_call WHERE round = $1", &[&round]).await?;
    Ok(())
}

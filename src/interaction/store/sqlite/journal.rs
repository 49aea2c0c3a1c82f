//! Rounds in SQL. Each function runs inside a transaction of its caller.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::Connection;
use uuid::Uuid;

use super::{
    super::{
        error::StoreError,
        record::Record,
        rounds::{HeldRound, Opened, RecordedCall},
        rules::{
            Decision, Finish, RoundRow, decide, finish as finishing, lease_end, lost, now_millis,
        },
    },
    statements::{append, execute, failed, key, one},
};

pub(super) fn open(
    connection: &Connection,
    name: &str,
    turn: &Record,
    owner: Uuid,
    lease: Duration,
) -> Result<Opened, StoreError> {
    append(connection, name, turn)?;
    let (conversation, turn) = (key(connection, name)?, turn.id.as_str());
    let now = now_millis();
    let until = lease_end(now, lease);
    let found = one(
        connection,
        "SELECT key, owner, lease_until, summary FROM round WHERE conversation = ?1 AND turn = ?2",
        &[&conversation, &turn],
        |row| {
            let summary: Option<Vec<u8>> = row.get(3)?;
            let summary = summary.map(Bytes::from);
            let row_key: i64 = row.get(0)?;
            Ok((row_key, RoundRow { owner: row.get(1)?, lease_until_millis: row.get(2)?, summary }))
        },
    )?;
    let Some((round, row)) = found else {
        execute(
            connection,
            "INSERT INTO round (conversation, turn, owner, lease_until) VALUES (?1, ?2, ?3, ?4)",
            &[&conversation, &turn, &owner.to_string(), &until],
        )?;
        return Ok(Opened::Held(vec![]));
    };
    match decide(row, owner, now) {
        Decision::Wait(left) => Ok(Opened::Running(left)),
        Decision::Finished(summary) => Ok(Opened::Finished(summary)),
        Decision::Take => {
            execute(
                connection,
                "UPDATE round SET owner = ?2, lease_until = ?3 WHERE key = ?1",
                &[&round, &owner.to_string(), &until],
            )?;
            let mut statement = connection
                .prepare_cached("SELECT id, outcome FROM call WHERE round = ?1")
                .map_err(failed)?;
            let calls = statement.query_map([round], |row| {
                let outcome: Option<Vec<u8>> = row.get(1)?;
                Ok(RecordedCall { id: row.get(0)?, outcome: outcome.map(Bytes::from) })
            });
            let calls = calls.and_then(Iterator::collect).map_err(failed)?;
            Ok(Opened::Held(calls))
        }
    }
}

/// The key of a round that is still its holder's.
fn held(connection: &Connection, round: &HeldRound) -> Result<i64, StoreError> {
    let HeldRound { key, owner } = round;
    one(
        connection,
        "SELECT round.key FROM round JOIN conversation ON conversation.key = round.conversation \
         WHERE name = ?1 AND turn = ?2 AND owner = ?3 AND summary IS NULL",
        &[&key.conversation.as_str(), &key.turn.as_str(), &owner.to_string()],
        |row| row.get(0),
    )?
    .ok_or_else(|| lost(key))
}

pub(super) fn renew(
    connection: &Connection,
    round: &HeldRound,
    lease: Duration,
) -> Result<(), StoreError> {
    let key = held(connection, round)?;
    let until = lease_end(now_millis(), lease);
    execute(connection, "UPDATE round SET lease_until = ?2 WHERE key = ?1", &[&key, &until])?;
    Ok(())
}

pub(super) fn begin(
    connection: &Connection,
    round: &HeldRound,
    call: &str,
) -> Result<(), StoreError> {
    let key = held(connection, round)?;
    let sql = "INSERT INTO call (round, id) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    execute(connection, sql, &[&key, &call])?;
    Ok(())
}

pub(super) fn end(
    connection: &Connection,
    round: &HeldRound,
    call: &str,
    outcome: &[u8],
) -> Result<(), StoreError> {
    let key = held(connection, round)?;
    let sql = "INSERT INTO call (round, id, outcome) VALUES (?1, ?2, ?3) \
               ON CONFLICT (round, id) DO UPDATE SET outcome = excluded.outcome";
    execute(connection, sql, &[&key, &call, &outcome])?;
    Ok(())
}

pub(super) fn finish(
    connection: &Connection,
    round: &HeldRound,
    results: &Record,
    summary: &[u8],
) -> Result<(), StoreError> {
    let HeldRound { key, owner } = round;
    let there = one(
        connection,
        "SELECT summary FROM round JOIN conversation ON conversation.key = round.conversation \
         WHERE name = ?1 AND turn = ?2 AND owner = ?3",
        &[&key.conversation.as_str(), &key.turn.as_str(), &owner.to_string()],
        |row| row.get(0),
    )?;
    let there = there.ok_or_else(|| lost(key))?;
    let Finish::Now = finishing(key, there, summary)? else { return Ok(()) };
    let key = held(connection, round)?;
    append(connection, round.key.conversation.as_str(), results)?;
    execute(connection, "UPDATE round SET summary = ?2 WHERE key = ?1", &[&key, &summary])?;
    execute(connection, "DELETE FROM call WHERE round = ?1", &[&key])?;
    Ok(())
}

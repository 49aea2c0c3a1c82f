//! Conversations in SQL. Each function runs inside a transaction of its caller.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};

use super::super::{
    conversations::{After, Appended, Conversation, Existed, Fork, MOST_FOLLOWERS},
    error::StoreError,
    record::{Record, Stored},
    rules::{column, count, now_millis, same},
};

/// Any failure of the engine.
pub(super) fn failed(error: rusqlite::Error) -> StoreError {
    StoreError::unavailable(error)
}

/// One row, or none.
pub(super) fn one<T>(
    connection: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    statement.query_row(values, read).optional().map_err(failed)
}

/// How many rows it changed.
pub(super) fn execute(
    connection: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
) -> Result<usize, StoreError> {
    connection.prepare_cached(sql).and_then(|mut sql| sql.execute(values)).map_err(failed)
}

fn all<T>(
    connection: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    mut goes_on: impl FnMut(&T) -> bool,
) -> Result<Vec<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query(values).map_err(failed)?;
    let mut found = vec![];
    while let Some(row) = rows.next().map_err(failed)? {
        let item = read(row).map_err(failed)?;
        if !goes_on(&item) {
            break;
        }
        found.push(item);
    }
    Ok(found)
}

pub(super) fn key(connection: &Connection, name: &str) -> Result<i64, StoreError> {
    one(connection, "SELECT key FROM conversation WHERE name = ?1", &[&name], |row| row.get(0))?
        .ok_or_else(|| StoreError::UnknownConversation(name.to_owned()))
}

pub(super) fn append(
    connection: &Connection,
    name: &str,
    record: &Record,
) -> Result<Appended, StoreError> {
    let now = now_millis();
    let id = record.id.as_str();
    let found =
        one(connection, "SELECT key, length FROM conversation WHERE name = ?1", &[&name], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        })?;
    if let Some((key, _)) = found
        && let Some(there) = find(connection, key, id)?
    {
        return same(&there, record);
    }
    let previous = record.previous_text();
    if !previous.is_empty() {
        let sql = "SELECT 1 FROM interaction WHERE conversation = ?1 AND id = ?2";
        let there = match found {
            Some((key, _)) => one(connection, sql, &[&key, &previous], |_| Ok(()))?,
            None => None,
        };
        there.ok_or_else(|| StoreError::MissingPrevious(previous.to_owned()))?;
    }
    let (key, length) = match found {
        Some(found) => found,
        None => {
            let sql = "INSERT INTO conversation (name, length, created_at, updated_at) \
                       VALUES (?1, 0, ?2, ?2)";
            execute(connection, sql, &[&name, &now])?;
            (connection.last_insert_rowid(), 0)
        }
    };
    let position = length + 1;
    execute(
        connection,
        "UPDATE conversation SET length = ?2, updated_at = ?3 WHERE key = ?1",
        &[&key, &position, &now],
    )?;
    execute(
        connection,
        "INSERT INTO interaction \
         (conversation, position, id, previous_id, appended_at, media_type, data) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![key, position, id, previous, now, record.media_type, record.bytes.as_ref()],
    )?;
    Ok(Appended { position: count(position), at_millis: now, existed: Existed::No })
}

const STORED: &str = "SELECT position, id, appended_at, media_type, data FROM interaction";

fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    Ok(Stored {
        position: count(row.get(0)?),
        id: row.get(1)?,
        appended_at_millis: row.get(2)?,
        media_type: row.get(3)?,
        bytes: Bytes::from(row.get::<_, Vec<u8>>(4)?),
    })
}

pub(super) fn find(
    connection: &Connection,
    key: i64,
    id: &str,
) -> Result<Option<Stored>, StoreError> {
    one(connection, &format!("{STORED} WHERE conversation = ?1 AND id = ?2"), &[&key, &id], stored)
}

pub(super) fn list(
    connection: &Connection,
    name: &str,
    after: After,
) -> Result<Vec<Stored>, StoreError> {
    let key = key(connection, name)?;
    let sql =
        format!("{STORED} WHERE conversation = ?1 AND position > ?2 ORDER BY position LIMIT ?3");
    let After { position, count, bytes } = after;
    let mut left = Some(bytes);
    let fits = |record: &Stored| match left {
        None => false,
        Some(room) => {
            left = room.checked_sub(record.bytes.len()).filter(|room| *room > 0);
            true
        }
    };
    all(connection, &sql, &[&key, &column(position), &column(count as u64)], stored, fits)
}

const CONVERSATION: &str = "SELECT name, length, created_at, updated_at FROM conversation";

fn conversation_row(row: &Row<'_>) -> rusqlite::Result<Conversation> {
    Ok(Conversation {
        name: row.get(0)?,
        length: count(row.get(1)?),
        created_at_millis: row.get(2)?,
        updated_at_millis: row.get(3)?,
    })
}

pub(super) fn conversation(
    connection: &Connection,
    name: &str,
) -> Result<Conversation, StoreError> {
    one(connection, &format!("{CONVERSATION} WHERE name = ?1"), &[&name], conversation_row)?
        .ok_or_else(|| StoreError::UnknownConversation(name.to_owned()))
}

pub(super) fn conversations(
    connection: &Connection,
    prefix: &str,
    after: &str,
    limit: usize,
) -> Result<Vec<Conversation>, StoreError> {
    let sql = format!("{CONVERSATION} WHERE name >= ?1 AND name > ?2 ORDER BY name LIMIT ?3");
    let begins = |conversation: &Conversation| conversation.name.starts_with(prefix);
    all(connection, &sql, &[&prefix, &after, &column(limit as u64)], conversation_row, begins)
}

pub(super) fn forks(
    connection: &Connection,
    name: &str,
    after: u64,
    limit: usize,
) -> Result<Vec<Fork>, StoreError> {
    let key = key(connection, name)?;
    let sql = "SELECT id, position FROM interaction AS origin \
               WHERE conversation = ?1 AND position > ?2 AND 2 = (SELECT count(*) FROM (\
                 SELECT 1 FROM interaction AS next WHERE next.conversation = ?1 \
                 AND next.previous_id = origin.id AND next.previous_id <> '' LIMIT 2)) \
               ORDER BY position LIMIT ?3";
    let fork = |row: &Row<'_>| {
        Ok(Fork { id: row.get(0)?, position: count(row.get(1)?), next_ids: vec![] })
    };
    let values: &[&dyn ToSql] = &[&key, &column(after), &column(limit as u64)];
    let mut forks = all(connection, sql, values, fork, |_| true)?;
    let sql = "SELECT id FROM interaction \
               WHERE conversation = ?1 AND previous_id = ?2 AND previous_id <> '' \
               ORDER BY position LIMIT ?3";
    for fork in &mut forks {
        let values: &[&dyn ToSql] = &[&key, &fork.id, &column(MOST_FOLLOWERS as u64)];
        fork.next_ids = all(connection, sql, values, |row| row.get(0), |_| true)?;
    }
    Ok(forks)
}

pub(super) fn delete(connection: &Connection, name: &str) -> Result<u64, StoreError> {
    let key = key(connection, name)?;
    let length = one(
        connection,
        "DELETE FROM conversation WHERE key = ?1 RETURNING length",
        &[&key],
        |row| row.get(0),
    )?;
    Ok(count(length.unwrap_or_default()))
}

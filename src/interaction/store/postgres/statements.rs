//! Conversations in SQL. Each function runs inside a transaction of its caller.

use bytes::Bytes;
use tokio_postgres::Row;

use super::{
    super::{
        conversations::{After, Appended, Conversation, Existed, Fork, MOST_FOLLOWERS},
        error::StoreError,
        record::{Record, Stored},
        rules::{self, count, same},
    },
    pool::{Tx, column},
};

pub(super) async fn key(tx: &mut Tx<'_>, name: &str) -> Result<i64, StoreError> {
    match tx.one("SELECT key FROM a11_conversation WHERE name = $1", &[&name]).await? {
        Some(row) => column(&row, 0),
        None => Err(StoreError::UnknownConversation(name.to_owned())),
    }
}

/// The conversation's key and length, and the time by the server's clock, which
/// all that share the store share. The row is locked: who appends after, waits.
async fn lock(tx: &mut Tx<'_>, name: &str) -> Result<Option<(i64, i64, i64)>, StoreError> {
    let sql = "SELECT key, length, (extract(epoch FROM clock_timestamp()) * 1000)::bigint \
               FROM a11_conversation WHERE name = $1 FOR UPDATE";
    let row = tx.one(sql, &[&name]).await?;
    row.map(|row| Ok((column(&row, 0)?, column(&row, 1)?, column(&row, 2)?))).transpose()
}

pub(super) async fn append(
    tx: &mut Tx<'_>,
    name: &str,
    record: &Record,
) -> Result<Appended, StoreError> {
    let (id, previous) = (record.id.as_str(), record.previous_text());
    let (key, length, now) = match lock(tx, name).await? {
        Some(found) => found,
        None => {
            // Another may have made it meanwhile: then it is locked as it is.
            let sql = "WITH clock AS (\
                         SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) \
                       INSERT INTO a11_conversation (name, length, created_at, updated_at) \
                       SELECT $1, 0, now, now FROM clock \
                       ON CONFLICT (name) DO UPDATE SET name = excluded.name \
                       RETURNING key, length, (SELECT now FROM clock)";
            let row = tx.one(sql, &[&name]).await?;
            let row = row.ok_or_else(|| StoreError::unavailable("nothing was inserted"))?;
            (column(&row, 0)?, column(&row, 1)?, column(&row, 2)?)
        }
    };
    if length > 0
        && let Some(there) = find(tx, key, id).await?
    {
        return same(&there, record);
    }
    if !previous.is_empty() {
        let sql = "SELECT 1 FROM a11_interaction WHERE conversation = $1 AND id = $2";
        let there = tx.one(sql, &[&key, &previous]).await?;
        there.ok_or_else(|| StoreError::MissingPrevious(previous.to_owned()))?;
    }
    let position = length + 1;
    tx.execute_both(
        (
            "UPDATE a11_conversation SET length = $2, updated_at = $3 WHERE key = $1",
            &[&key, &position, &now],
        ),
        (
            "INSERT INTO a11_interaction \
             (conversation, position, id, previous_id, appended_at, media_type, data) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
            &[&key, &position, &id, &previous, &now, &record.media_type, &record.bytes.as_ref()],
        ),
    )
    .await?;
    Ok(Appended { position: count(position), at_millis: now, existed: Existed::No })
}

fn stored(row: &Row) -> Result<Stored, StoreError> {
    Ok(Stored {
        position: count(column(row, 0)?),
        id: column(row, 1)?,
        appended_at_millis: column(row, 2)?,
        media_type: column(row, 3)?,
        bytes: Bytes::from(column::<Vec<u8>>(row, 4)?),
    })
}

pub(super) async fn find(
    tx: &mut Tx<'_>,
    key: i64,
    id: &str,
) -> Result<Option<Stored>, StoreError> {
    let sql = "SELECT position, id, appended_at, media_type, data FROM a11_interaction \
               WHERE conversation = $1 AND id = $2";
    tx.one(sql, &[&key, &id]).await?.as_ref().map(stored).transpose()
}

pub(super) async fn list(
    tx: &mut Tx<'_>,
    name: &str,
    after: After,
) -> Result<Vec<Stored>, StoreError> {
    let key = key(tx, name).await?;
    // What the earlier ones of the page come to is counted by the server, so that
    // what goes beyond the page is not sent.
    let sql = "SELECT position, id, appended_at, media_type, data FROM (\
                 SELECT *, sum(octet_length(data)) OVER (ORDER BY position) \
                   - octet_length(data) AS before \
                 FROM (SELECT * FROM a11_interaction \
                       WHERE conversation = $1 AND position > $2 \
                       ORDER BY position LIMIT $3) AS page) AS counted \
               WHERE position - 1 = $2 OR before < $4 ORDER BY position";
    let After { position, count, bytes } = after;
    let values = [position, count as u64, bytes as u64].map(rules::column);
    let rows = tx.all(sql, &[&key, &values[0], &values[1], &values[2]]).await?;
    rows.iter().map(stored).collect()
}

fn conversation_row(row: &Row) -> Result<Conversation, StoreError> {
    Ok(Conversation {
        name: column(row, 0)?,
        length: count(column(row, 1)?),
        created_at_millis: column(row, 2)?,
        updated_at_millis: column(row, 3)?,
    })
}

pub(super) async fn conversation(tx: &mut Tx<'_>, name: &str) -> Result<Conversation, StoreError> {
    let sql = "SELECT name, length, created_at, updated_at FROM a11_conversation WHERE name = $1";
    match tx.one(sql, &[&name]).await? {
        Some(row) => conversation_row(&row),
        None => Err(StoreError::UnknownConversation(name.to_owned())),
    }
}

pub(super) async fn conversations(
    tx: &mut Tx<'_>,
    prefix: &str,
    after: &str,
    limit: usize,
) -> Result<Vec<Conversation>, StoreError> {
    let sql = "SELECT name, length, created_at, updated_at FROM a11_conversation \
               WHERE name >= $1 AND name > $2 ORDER BY name LIMIT $3";
    let rows = tx.all(sql, &[&prefix, &after, &rules::column(limit as u64)]).await?;
    let found: Vec<Conversation> = rows.iter().map(conversation_row).collect::<Result<_, _>>()?;
    Ok(found.into_iter().take_while(|found| found.name.starts_with(prefix)).collect())
}

pub(super) async fn forks(
    tx: &mut Tx<'_>,
    name: &str,
    after: u64,
    limit: usize,
) -> Result<Vec<Fork>, StoreError> {
    let key = key(tx, name).await?;
    let sql = "SELECT id, position FROM a11_interaction AS origin \
               WHERE conversation = $1 AND position > $2 AND 2 = (SELECT count(*) FROM (\
                 SELECT 1 FROM a11_interaction AS next WHERE next.conversation = $1 \
                 AND next.previous_id = origin.id AND next.previous_id <> '' LIMIT 2) AS two) \
               ORDER BY position LIMIT $3";
    let values = [after, limit as u64].map(rules::column);
    let rows = tx.all(sql, &[&key, &values[0], &values[1]]).await?;
    let sql = "SELECT id FROM a11_interaction \
               WHERE conversation = $1 AND previous_id = $2 AND previous_id <> '' \
               ORDER BY position LIMIT $3";
    let most = rules::column(MOST_FOLLOWERS as u64);
    let mut forks = Vec::with_capacity(rows.len());
    for row in &rows {
        let id: String = column(row, 0)?;
        let next = tx.all(sql, &[&key, &id, &most]).await?;
        let next_ids = next.iter().map(|row| column(row, 0)).collect::<Result<_, _>>()?;
        forks.push(Fork { id, position: count(column(row, 1)?), next_ids });
    }
    Ok(forks)
}

pub(super) async fn delete(tx: &mut Tx<'_>, name: &str) -> Result<u64, StoreError> {
    let sql = "DELETE FROM a11_conversation WHERE name = $1 RETURNING length";
    match tx.one(sql, &[&name]).await? {
        Some(row) => Ok(count(column(&row, 0)?)),
        None => Err(StoreError::UnknownConversation(name.to_owned())),
    }
}

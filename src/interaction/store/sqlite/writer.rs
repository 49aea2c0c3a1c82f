//! The thread that writes: what waits for it becomes one transaction, and is
//! answered once that is on the disk.

use std::thread;

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::super::error::StoreError;

/// How many changes wait at the most, and how many one transaction takes.
const MOST_WAITING: usize = 256;

/// Answers whoever asked for a change, once it is known whether it was committed.
type Answer = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
/// Makes a change, or is told why there is no transaction to make it in.
type Change = Box<dyn FnOnce(Result<&Connection, StoreError>) -> Answer + Send>;

/// A handle to the thread, which ends when the handle is dropped, after what was
/// asked before.
#[derive(Debug)]
pub(super) struct Writer {
    changes: Option<mpsc::Sender<Change>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(connection: Connection) -> std::io::Result<Self> {
        let (changes, waiting) = mpsc::channel(MOST_WAITING);
        let thread = thread::Builder::new()
            .name("a11-store".to_owned())
            .spawn(move || write_all(connection, waiting))?;
        Ok(Self { changes: Some(changes), thread: Some(thread) })
    }

    /// Makes a change, whole or not at all. It is made even where nobody waits
    /// for the answer any more.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let change: Change = Box::new(move |connection| {
            let made = connection.and_then(|connection| alone(connection, change));
            Box::new(move |committed| {
                // Nobody may wait any more.
                answer.send(made.and_then(|made| committed.map(|()| made))).ok();
            })
        });
        let gone = || StoreError::unavailable("the thread that writes has ended");
        let changes = self.changes.as_ref().ok_or_else(gone)?;
        changes.send(change).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.changes = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// One change of a transaction: what it did is undone where it fails.
fn alone<T>(
    connection: &Connection,
    change: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let execute =
        |sql: &str| connection.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
    execute("SAVEPOINT change").map_err(StoreError::unavailable)?;
    let made = change(connection);
    if made.is_err() {
        execute("ROLLBACK TO change").map_err(StoreError::unavailable)?;
    }
    execute("RELEASE change").map_err(StoreError::unavailable)?;
    made
}

fn write_all(mut connection: Connection, mut waiting: mpsc::Receiver<Change>) {
    let mut batch = Vec::with_capacity(MOST_WAITING);
    while waiting.blocking_recv_many(&mut batch, MOST_WAITING) > 0 {
        let mut answers = Vec::with_capacity(batch.len());
        let committed = commit(&mut connection, batch.drain(..), &mut answers);
        for answer in answers {
            answer(committed.clone());
        }
    }
}

fn commit(
    connection: &mut Connection,
    batch: impl Iterator<Item = Change>,
    answers: &mut Vec<Answer>,
) -> Result<(), StoreError> {
    let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let transaction = match begun {
        Ok(transaction) => transaction,
        Err(error) => {
            let error = StoreError::unavailable(error);
            answers.extend(batch.map(|change| change(Err(error.clone()))));
            return Err(error);
        }
    };
    answers.extend(batch.map(|change| change(Ok(&transaction))));
    transaction.commit().map_err(StoreError::unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_database_that_another_process_writes_is_said_to_be_busy() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || Connection::open(folder.path().join("store")).expect("opens");
        let other = open();
        other.execute_batch("CREATE TABLE t (n); BEGIN IMMEDIATE").expect("holds the lock");
        let connection = open();
        connection.busy_timeout(std::time::Duration::ZERO).expect("is set");
        let writer = Writer::start(connection).expect("starts");
        let write = || {
            writer.write(|connection| {
                connection.execute("INSERT INTO t VALUES (1)", []).map_err(StoreError::unavailable)
            })
        };
        for error in [write().await, write().await].map(|busy| busy.expect_err("is busy")) {
            assert!(error.to_string().contains("database is locked"), "{error}");
        }
        other.execute_batch("COMMIT").expect("lets go");
        assert_eq!(write().await.expect("is written"), 1);
    }
}

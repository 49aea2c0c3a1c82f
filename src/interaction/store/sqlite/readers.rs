//! Connections that read, each on a blocking thread while it does.

use std::{path::PathBuf, sync::Arc};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::{super::error::StoreError, schema::open_to_read};

/// How many read at once.
const MOST_AT_ONCE: usize = 8;

#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    free: Arc<Mutex<Vec<Connection>>>,
    slots: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, free: Arc::default(), slots: Arc::new(Semaphore::new(MOST_AT_ONCE)) }
    }

    /// Reads what is committed at one moment.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let slot = self.slots.clone().acquire_owned().await.map_err(StoreError::unavailable)?;
        let (free, path) = (self.free.clone(), self.path.clone());
        let task = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            let connection = match free.lock().pop() {
                Some(connection) => connection,
                None => open_to_read(&path).map_err(StoreError::unavailable)?,
            };
            let result = {
                let transaction =
                    connection.unchecked_transaction().map_err(StoreError::unavailable)?;
                read(&transaction)
            };
            free.lock().push(connection);
            result
        });
        task.await.map_err(StoreError::unavailable)?
    }
}

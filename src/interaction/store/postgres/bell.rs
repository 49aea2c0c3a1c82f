//! Tells the processes that share the database of changed conversations, and
//! hears of theirs: LISTEN and NOTIFY, on a connection of its own.
//!
//! Told after the change, not in its transaction: a transaction that notifies
//! makes all others of the server's that do wait for its commit. A process that
//! dies in between has told nobody, for which watchers look now and then.

use std::{
    collections::HashSet,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::sleep};
use tokio_postgres::{AsyncMessage, Client};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    super::{error::StoreError, ticks::Ticks},
    address::Address,
    failure::failed,
};

/// How many conversations wait to be told of; past that they are looked for.
const MOST_WAITING: usize = 1024;

/// How long after a lost connection another is tried; twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A handle; the connection ends when it is dropped.
pub(super) struct Bell {
    shared: Arc<Shared>,
    _stop: DropGuard,
}

#[derive(Default)]
struct Shared {
    /// Conversations that changed here, and were not told of yet.
    changed: Mutex<HashSet<String>>,
    wake: Notify,
    is_heard: AtomicBool,
}

impl Bell {
    pub(super) fn start(address: Arc<Address>, ticks: Arc<Ticks>) -> Self {
        let shared = Arc::<Shared>::default();
        let stop = CancellationToken::new();
        let keep = shared.clone().keep(address, ticks);
        // Nothing is lost where it is dropped in the middle.
        tokio::spawn(stop.clone().run_until_cancelled_owned(keep));
        Self { shared, _stop: stop.drop_guard() }
    }

    /// Tells other processes that a conversation changed, soon.
    pub(super) fn ring(&self, conversation: &str) {
        let mut changed = self.shared.changed.lock();
        if changed.len() < MOST_WAITING && !changed.contains(conversation) {
            changed.insert(conversation.to_owned());
            self.shared.wake.notify_one();
        }
    }

    /// Whether other processes are heard at the moment.
    pub(super) fn is_heard(&self) -> bool {
        self.shared.is_heard.load(Ordering::Relaxed)
    }
}

impl Shared {
    async fn keep(self: Arc<Self>, address: Arc<Address>, ticks: Arc<Ticks>) {
        let mut wait = FIRST_WAIT;
        loop {
            let ended = self.listen(&address, &ticks).await;
            if self.is_heard.swap(false, Ordering::Relaxed) {
                wait = FIRST_WAIT;
                // They are to look again, and more often from now on.
                ticks.tick_all();
            }
            if let Err(error) = ended {
                tracing::debug!(%error, "other processes' changes are not heard");
            }
            sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// Listens and tells until the connection ends.
    async fn listen(&self, address: &Address, ticks: &Ticks) -> Result<(), StoreError> {
        let Address { config, tls } = address;
        let (client, mut connection) = config.connect(tls.clone()).await.map_err(failed)?;
        let own = AtomicI32::new(0);
        let hear = async {
            while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
                match message.map_err(failed)? {
                    // What this process changed it knows.
                    AsyncMessage::Notification(told)
                        if told.process_id() != own.load(Ordering::Relaxed) =>
                    {
                        ticks.tick(told.payload());
                    }
                    _ => {}
                }
            }
            Ok(())
        };
        tokio::select! {
            ended = hear => ended,
            ended = self.tell(&client, &own, ticks) => ended,
        }
    }

    async fn tell(
        &self,
        client: &Client,
        own: &AtomicI32,
        ticks: &Ticks,
    ) -> Result<(), StoreError> {
        let row = client.query_one("SELECT pg_backend_pid()", &[]).await.map_err(failed)?;
        own.store(row.try_get(0).map_err(failed)?, Ordering::Relaxed);
        client.batch_execute("LISTEN a11_changes").await.map_err(failed)?;
        let sql = "SELECT pg_notify('a11_changes', name) FROM unnest($1::text[]) AS name";
        let notify = client.prepare(sql).await.map_err(failed)?;
        self.is_heard.store(true, Ordering::Relaxed);
        // What was missed until now.
        ticks.tick_all();
        loop {
            let changed: Vec<String> = self.changed.lock().drain().collect();
            match changed.is_empty() {
                true => self.wake.notified().await,
                false => {
                    if let Err(error) = client.execute(&notify, &[&changed]).await {
                        // Told on the next connection.
                        self.changed.lock().extend(changed);
                        return Err(failed(error));
                    }
                }
            }
        }
    }
}

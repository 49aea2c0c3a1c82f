//! A round that is held: its calls are recorded, and the lease is renewed.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{
    super::{collect::Collected, journal::Journal},
    stored,
};
use crate::action::ActionSchema;
use crate::interaction::store::{HeldRound, RecordedCall, Store, StoreError};
use crate::wire::{Reason, Status};

/// How often a lease is renewed before it is over.
const RENEWALS: u32 = 3;

pub(super) struct Held {
    store: Arc<dyn Store>,
    pub(super) round: HeldRound,
    /// Calls that had begun before this run; `None` where they were cut off.
    before: BTreeMap<String, Option<Bytes>>,
    stop: CancellationToken,
    /// Why the round cannot be recorded any more.
    failure: Mutex<Option<Status>>,
}

impl Held {
    pub(super) fn new(
        store: Arc<dyn Store>,
        round: HeldRound,
        calls: Vec<RecordedCall>,
        stop: CancellationToken,
    ) -> Self {
        let before = calls.into_iter().map(|RecordedCall { id, outcome }| (id, outcome)).collect();
        Self { store, round, before, stop, failure: Mutex::default() }
    }

    /// Why the round could not be recorded, if so.
    pub(super) fn failure(&self) -> Option<Status> {
        self.failure.lock().clone()
    }

    /// What is not recorded must not go on.
    fn fail(&self, error: StoreError) -> Status {
        let status = Status::from(error);
        self.failure.lock().get_or_insert_with(|| status.clone());
        self.stop.cancel();
        status
    }

    /// Renews the lease as long as it is polled. Where that does not succeed in
    /// time the calls are stopped: another may take the round.
    pub(super) async fn keep(&self, lease: Duration) -> Infallible {
        let mut due = interval((lease / RENEWALS).max(Duration::from_millis(1)));
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut over = Instant::now() + lease;
        loop {
            // Both are cancel safe.
            tokio::select! {
                _ = due.tick() => {}
                () = sleep_until(over) => break,
            }
            let asked = Instant::now();
            match timeout_at(over, self.store.renew(&self.round, lease)).await {
                Ok(Ok(())) => over = asked + lease,
                Ok(Err(error @ StoreError::LeaseLost(_))) => {
                    self.fail(error);
                    return std::future::pending().await;
                }
                Ok(Err(error)) => tracing::warn!(%error, "a lease was not renewed"),
                Err(_) => break,
            }
        }
        self.fail(StoreError::LeaseLost(self.round.key.turn.to_string()));
        std::future::pending().await
    }
}

#[async_trait]
impl Journal for Held {
    async fn recorded(
        &self,
        call: &str,
        schema: Option<&ActionSchema>,
    ) -> Result<Option<Collected>, Status> {
        match self.before.get(call) {
            None => Ok(None),
            Some(Some(outcome)) => match stored::read_call(outcome.clone()) {
                Some(collected) => Ok(Some(collected)),
                None => Err(self.fail(StoreError::BrokenRound(self.round.key.turn.to_string()))),
            },
            Some(None) if schema.is_some_and(ActionSchema::is_idempotent) => Ok(None),
            Some(None) => {
                let collected = Collected::refused(Status::of(
                    Reason::OutcomeUnknown,
                    "unknown: the call was cut off by a crash, and may or may not have done its work",
                ));
                self.end(call, &collected).await?;
                Ok(Some(collected))
            }
        }
    }

    async fn begin(&self, call: &str) -> Result<(), Status> {
        if self.stop.is_cancelled() {
            return Err(self.stopped().await);
        }
        self.store.begin_call(&self.round, call).await.map_err(|error| self.fail(error))
    }

    async fn end(&self, call: &str, collected: &Collected) -> Result<(), Status> {
        // A call that was stopped because the round is lost has not ended: whoever
        // takes the round decides what becomes of it.
        if let Some(failure) = self.failure().filter(|_| !collected.status.is_ok()) {
            return Err(failure);
        }
        let outcome = stored::write_call(collected);
        self.store.end_call(&self.round, call, outcome).await.map_err(|error| self.fail(error))
    }

    async fn stopped(&self) -> Status {
        self.stop.cancelled().await;
        let left = || Status::of(Reason::Cancelled, "cancelled: nobody waited for it any more");
        self.failure().unwrap_or_else(left)
    }
}

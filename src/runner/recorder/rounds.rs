//! Takes a turn's round and runs it, waits for whoever does, or finds it done.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use uuid::Uuid;

use super::super::{collect::CallEvent, execute::execute_recorded, plan::Plan, round::Round};
use super::{held::Held, stored};
use crate::action::Scope;
use crate::interaction::store::{
    ConversationName, HeldRound, MAX_RECORD_BYTES, Opened, Record, RecordError, RecordId, RoundKey,
    Store, StoreError,
};
use crate::wire::{Reason, Status};

/// How long a runner that died holds its rounds.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// The largest turn of results, beside what is of the turn itself.
const MAX_TURN_BYTES: usize = MAX_RECORD_BYTES - 64 * 1024;

/// How often a round that another process runs is looked at.
const POLL: Duration = Duration::from_millis(500);

/// Runs rounds and records them. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    store: Arc<dyn Store>,
    lease: Duration,
    /// What runs here. It is stopped when the last who waits has left.
    running: Arc<Mutex<HashMap<RoundKey, Weak<DropGuard>>>>,
    tasks: TaskTracker,
}

/// Where a round is recorded.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The conversation.
    pub conversation: ConversationName,
    /// The turn that makes the calls.
    pub turn: Record,
}

impl Recorder {
    /// Records in a store, under leases of [`DEFAULT_LEASE`].
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::with_lease(store, DEFAULT_LEASE)
    }

    /// The same, with another lease.
    pub fn with_lease(store: Arc<dyn Store>, lease: Duration) -> Self {
        Self { store, lease, running: Arc::default(), tasks: TaskTracker::new() }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The tasks that record; each ends soon after the last who waited for its
    /// round has left.
    pub fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Appends the turn, runs its calls and appends their results. Where the
    /// turn's calls run already, waits for them; where they have ended, nothing
    /// runs and the same results are returned. `events` tells of what runs here.
    ///
    /// When the future is dropped and nobody else waits for the round, its calls
    /// are cancelled, and that is recorded.
    ///
    /// # Errors
    /// Those of the store; DEADLINE_EXCEEDED where a round that runs elsewhere did
    /// not end in the time that the plan gives.
    pub async fn execute(
        &self,
        scope: &Scope,
        plan: Plan,
        recording: Recording,
        events: Option<mpsc::Sender<CallEvent>>,
    ) -> Result<Round, Status> {
        let Recording { conversation, turn } = recording;
        let owner = Uuid::new_v4();
        let key = RoundKey { conversation: conversation.clone(), turn: turn.id().clone() };
        let end = plan.limits.end();
        plan.bound_turn(MAX_TURN_BYTES);
        let mut changes = self.store.changes(&conversation);
        let mut _interest = None;
        let calls = loop {
            changes.mark_unchanged();
            _interest = self.running.lock().get(&key).and_then(Weak::upgrade);
            match self.store.open_round(&conversation, turn.clone(), owner, self.lease).await? {
                Opened::Held(calls) => break calls,
                Opened::Finished(summary) => return self.finished(&key, summary).await,
                Opened::Running(left) => {
                    let now = Instant::now();
                    let wait = left.min(POLL).max(Duration::from_millis(1));
                    if end.is_some_and(|end| end <= now) {
                        return Err(Status::of(
                            Reason::Deadline,
                            "the calls of this turn run elsewhere, and did not end in time",
                        ));
                    }
                    let wait = end.map_or(wait, |end| wait.min(end - now));
                    // Out of time is a reason to look as good as a change is.
                    timeout(wait, changes.changed()).await.ok();
                }
            }
        };
        let stop = CancellationToken::new();
        let interest = Arc::new(stop.clone().drop_guard());
        self.running.lock().insert(key.clone(), Arc::downgrade(&interest));
        let held = Held::new(self.store.clone(), HeldRound { key, owner }, calls, stop);
        let task = self.clone().run(scope.clone(), plan, held, events);
        // A task of its own: what is recorded is whole even if the caller leaves.
        let ended = self.tasks.spawn(task).await;
        ended.unwrap_or_else(|error| {
            Err(Status::of(Reason::HandlerPanicked, format!("the round broke: {error}")))
        })
    }

    async fn run(
        self,
        scope: Scope,
        plan: Plan,
        held: Held,
        events: Option<mpsc::Sender<CallEvent>>,
    ) -> Result<Round, Status> {
        let round = async {
            let mut round = tokio::select! {
                round = execute_recorded(&scope, plan, events, &held) => round,
                never = held.keep(self.lease) => match never {},
            };
            if let Some(failure) = held.failure() {
                return Err(failure);
            }
            let results = Record::from_interaction(&round.interaction)?;
            round.interaction = results.interaction().clone();
            let summary = stored::write_round(&round);
            self.store.finish_round(&held.round, results, summary).await?;
            Ok(round)
        };
        let round = round.await;
        self.running.lock().remove(&held.round.key);
        round
    }

    /// A round that has ended, as it was returned first.
    async fn finished(&self, key: &RoundKey, summary: bytes::Bytes) -> Result<Round, Status> {
        let broken = || StoreError::BrokenRound(key.turn.to_string());
        let finished = stored::read_round(summary).ok_or_else(broken)?;
        let id = RecordId::new(finished.turn.as_str()).map_err(|_: RecordError| broken())?;
        let results = self.store.get(&key.conversation, &id).await?;
        Ok(finished.with(results.interaction()?).ok_or_else(broken)?)
    }
}

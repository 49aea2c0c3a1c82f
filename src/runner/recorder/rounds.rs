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
    running: Running,
    tasks: TaskTracker,
}

/// The rounds that run here. One is stopped when the last who waits for it has left.
#[derive(Clone, Default)]
struct Running(Arc<Mutex<HashMap<RoundKey, Weak<DropGuard>>>>);

impl Running {
    fn begin(&self, key: RoundKey, interest: &Arc<DropGuard>) {
        self.0.lock().insert(key, Arc::downgrade(interest));
    }

    /// Keeps a round running for one more who waits for it.
    fn interest(&self, key: &RoundKey) -> Option<Arc<DropGuard>> {
        self.0.lock().get(key).and_then(Weak::upgrade)
    }

    /// Notes the end of a run: of this one, and not of another that took its round
    /// over when it had lost its lease.
    fn end(&self, key: &RoundKey, interest: &Weak<DropGuard>) {
        let mut running = self.0.lock();
        if running.get(key).is_some_and(|current| current.ptr_eq(interest)) {
            running.remove(key);
        }
    }
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
        Self { store, lease, running: Running::default(), tasks: TaskTracker::new() }
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
            _interest = self.running.interest(&key);
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
        self.running.begin(key.clone(), &interest);
        let own = Arc::downgrade(&interest);
        let held = Held::new(self.store.clone(), HeldRound { key, owner }, calls, stop);
        let task = self.clone().run(scope.clone(), plan, held, own, events);
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
        interest: Weak<DropGuard>,
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
        self.running.end(&held.round.key, &interest);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_lost_its_round_does_not_end_the_one_that_took_it_over() {
        let running = Running::default();
        let key = RoundKey {
            conversation: ConversationName::new("talk").expect("a name"),
            turn: RecordId::new("turn").expect("an id"),
        };
        let interest = || Arc::new(CancellationToken::new().drop_guard());
        let (first, second) = (interest(), interest());
        running.begin(key.clone(), &first);
        running.begin(key.clone(), &second);
        running.end(&key, &Arc::downgrade(&first));
        let current = running.interest(&key).expect("it runs");
        assert!(Arc::ptr_eq(&current, &second));
        running.end(&key, &Arc::downgrade(&second));
        assert!(running.interest(&key).is_none());
    }
}

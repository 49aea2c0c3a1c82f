//! The handle of a session that tasks share.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    future::poll_fn,
    sync::{Arc, Weak},
    task::Poll,
    time::Instant,
};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    hosting,
    state::{CallState, State, Work},
};
use crate::action::{Handlers, Host, Registry};
use crate::session::core::{Connection, Core, NewCall};
use crate::session::run_nodes::RunNodes;
use crate::wire::{Reason, Status, pb};

/// What is done with the actions that the other side publishes.
pub trait Publications: Send + Sync {
    /// Serves them; answers those that it refuses.
    fn publish(&self, session: &Session, actions: Vec<pb::ActionSchema>) -> Vec<pb::RefusedAction>;

    /// Serves them no longer.
    fn withdraw(&self, session: &Session, names: Vec<String>);

    /// The session is over, for this reason.
    fn ended(&self, session: &Session, status: &Status);
}

/// What a session works with.
pub struct SessionParts {
    /// Its id.
    pub id: String,
    /// Who the other side is, for people and logs.
    pub peer: String,
    /// The actions that the other side may call.
    pub registry: Arc<Registry>,
    /// Counts the handlers that run for it.
    pub handlers: Arc<Handlers>,
    /// What is done with what it publishes; nothing where it is gone.
    pub publications: Weak<dyn Publications>,
    /// Runs its tasks.
    pub tasks: TaskTracker,
    /// Where the calls that the other side makes can be reached; `None`: nowhere.
    pub runs: Option<RunNodes>,
}

/// A session. Cheap to clone; it lives until it ends, whoever holds it.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    parts: SessionParts,
    state: Mutex<State>,
    over: CancellationToken,
}

impl Session {
    /// A session over a core that has been opened.
    pub fn new(core: Core, parts: SessionParts) -> Self {
        let state = State {
            core,
            calls: HashMap::new(),
            publishing: Default::default(),
            attachments: 0,
            work: VecDeque::new(),
            is_worked_on: false,
            changed: Arc::default(),
        };
        Self(Arc::new(Inner { parts, state: Mutex::new(state), over: CancellationToken::new() }))
    }

    /// Its id: what `a11://SESSION` names.
    pub fn id(&self) -> &str {
        &self.0.parts.id
    }

    /// So much of its id that people tell sessions apart by it; with all of it the
    /// session's actions and nodes could be reached.
    pub fn short_id(&self) -> &str {
        self.id().get(..8).unwrap_or_default()
    }

    /// What it is for those who ask who runs an action.
    pub(super) fn as_host(&self) -> Host {
        Host::Peer { name: self.peer().to_owned(), session: self.short_id().to_owned() }
    }

    /// Who the other side is, for people and logs.
    pub fn peer(&self) -> &str {
        &self.0.parts.peer
    }

    /// Whether there is a connection now.
    pub fn is_connected(&self) -> bool {
        self.0.state.lock().core.is_connected()
    }

    /// Whether a call runs, of either side, whose end has not been sent.
    pub(crate) fn has_calls(&self) -> bool {
        self.0.state.lock().core.running_calls() > 0
    }

    /// Goes on over a connection; answers the highest number received.
    ///
    /// # Errors
    /// As [`Core::attach`].
    pub fn attach(
        &self,
        connection: Connection,
        received: u64,
        now: Instant,
    ) -> Result<u64, Status> {
        self.with(|state| {
            state.core.attach(connection, received, now)?;
            state.attachments += 1;
            Ok(state.core.received())
        })
    }

    /// The connection is gone.
    pub fn detach(&self, connection: Connection) {
        self.with(|state| state.core.detach(connection, Instant::now()));
    }

    /// The highest number received: what resuming tells the other side.
    pub fn received(&self) -> u64 {
        self.look(|state| state.core.received())
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.0.over.is_cancelled()
    }

    /// Waits for its end.
    ///
    /// Cancel safe.
    pub async fn ended(&self) {
        self.0.over.cancelled().await;
    }

    /// Ends it for good; the other side is told where there is a connection.
    pub fn end(&self, status: Status) {
        self.with(|state| state.core.end(status));
    }

    /// Publishes actions to the other side; answers those it refuses.
    ///
    /// Cancel safe: the actions are published all the same.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where they do not fit into a frame, UNAVAILABLE where
    /// the session ends.
    pub async fn publish(
        &self,
        actions: Vec<pb::ActionSchema>,
    ) -> Result<Vec<pb::RefusedAction>, Status> {
        let lost = || Status::of(Reason::PeerLost, "the session is over");
        let answer = self.with(|state| {
            if state.core.is_over() {
                return Err(lost());
            }
            state.core.publish(actions)?;
            let (publisher, answer) = oneshot::channel();
            state.publishing.push_back(publisher);
            Ok(answer)
        })?;
        answer.await.map_err(|_| lost())
    }

    /// Takes actions back.
    pub fn withdraw(&self, names: Vec<String>) {
        self.with(|state| state.core.withdraw(names));
    }

    pub(super) fn parts(&self) -> &SessionParts {
        &self.0.parts
    }

    /// Begins a call whose outputs are these nodes, or any where they are not
    /// known.
    pub(crate) fn start_call(
        &self,
        call: NewCall,
        outputs: Option<Vec<String>>,
    ) -> Result<u64, Status> {
        self.with(|state| {
            let number = state.core.start_call(call)?;
            let mut calling = CallState::default();
            if let Some(outputs) = outputs {
                calling.declare(outputs, Reason::InvalidOutput);
            }
            state.calls.insert(number, calling);
            Ok(number)
        })
    }

    /// Lets go of a call: one of ours is cancelled where it still runs.
    pub(crate) fn forget(&self, call: u64) {
        self.with(|state| {
            if state.calls.remove(&call).is_some_and(|call| call.ended.is_none()) {
                let status = Status::of(Reason::Cancelled, "the caller cancelled the call");
                state.core.cancel(call, status);
            }
        });
    }

    /// Waits until a call has ended, or is to end.
    ///
    /// Cancel safe.
    pub(crate) async fn call_ended(&self, call: u64) -> Status {
        poll_fn(|cx| {
            let mut state = self.0.state.lock();
            let Some(call) = state.calls.get_mut(&call) else {
                return Poll::Ready(Status::of(Reason::Cancelled, "the call is over"));
            };
            if let Some(status) = &call.ended {
                return Poll::Ready(status.clone());
            }
            if let Some(fault) = &call.fault {
                return Poll::Ready(fault.clone());
            }
            call.wait(cx);
            Poll::Pending
        })
        .await
    }

    /// The oldest log entry of a call, and how many were lost before it; `None`
    /// once the call has ended and all were taken.
    ///
    /// Cancel safe.
    pub(crate) async fn next_log(&self, call: u64) -> Option<(pb::LogEntry, u32)> {
        poll_fn(|cx| {
            let mut state = self.0.state.lock();
            let Some(call) = state.calls.get_mut(&call) else { return Poll::Ready(None) };
            if let Some(next) = call.next_log() {
                return Poll::Ready(Some(next));
            }
            if call.ended.is_some() {
                return Poll::Ready(None);
            }
            call.wait(cx);
            Poll::Pending
        })
        .await
    }

    /// Changes the state, acts on what follows, and wakes the connection. Where
    /// another task acts for the session already, that one goes on with it: what
    /// came first is done first, over whichever connection it came.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (result, ended, acts) = {
            let mut state = self.0.state.lock();
            let result = change(&mut state);
            let work = state.settle();
            let ended = work.iter().any(|work| matches!(work, Work::Ended(_)));
            state.work.extend(work);
            state.changed.notify_one();
            let acts = !state.work.is_empty() && !std::mem::replace(&mut state.is_worked_on, true);
            (result, ended, acts)
        };
        if ended {
            self.0.over.cancel();
        }
        if acts {
            let acting = Acting(self);
            while let Some(work) = acting.next() {
                self.act(work);
            }
        }
        result
    }

    /// Looks at the state, without a change that others could see.
    pub(super) fn look<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.state.lock())
    }

    fn act(&self, work: Work) {
        match work {
            Work::Host(frame) => {
                self.0.parts.tasks.spawn(hosting::run(self.clone(), *frame));
            }
            Work::Publish(actions) => {
                let refused = match self.0.parts.publications.upgrade() {
                    Some(publications) => publications.publish(self, actions),
                    None => refuse_all(actions),
                };
                self.with(|state| state.core.answer_publish(refused));
            }
            Work::Withdraw(names) => {
                if let Some(publications) = self.0.parts.publications.upgrade() {
                    publications.withdraw(self, names);
                }
            }
            Work::Ended(status) => {
                tracing::debug!(
                    session = self.id(),
                    status = status.to_string(),
                    "a session ended"
                );
                if let Some(publications) = self.0.parts.publications.upgrade() {
                    publications.ended(self, &status);
                }
            }
        }
    }

    /// Begins to wake another connection.
    pub(super) fn replace_waker(&self) -> Arc<Notify> {
        self.look(|state| {
            let old = std::mem::take(&mut state.changed);
            old.notify_one();
            state.changed.clone()
        })
    }

    /// Keeps the time while there is no connection: returns as soon as there has
    /// been one again, whose end is another's to wait for, or the session is over.
    pub async fn keep_until_resumed(&self) {
        let begun = self.look(|state| state.attachments);
        loop {
            let (due, changed) = self.look(|state| {
                let keeps = !state.core.is_connected() && state.attachments == begun;
                let due = state.core.next_timeout().filter(|_| keeps);
                (due, state.changed.clone())
            });
            let Some(due) = due else { return };
            // Ending it from outside ends the wait.
            tokio::select! {
                () = tokio::time::sleep_until(due.into()) => self.with(|state| {
                    if !state.core.is_connected() {
                        state.core.handle_timeout(Instant::now());
                    }
                }),
                () = changed.notified() => {}
                () = self.ended() => return,
            }
        }
    }
}

/// Acts for a session, until there is nothing to do; a panic lets another one go on.
struct Acting<'a>(&'a Session);

impl Acting<'_> {
    fn next(&self) -> Option<Work> {
        let mut state = self.0.0.state.lock();
        let work = state.work.pop_front();
        state.is_worked_on = work.is_some();
        work
    }
}

impl Drop for Acting<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.0.state.lock().is_worked_on = false;
        }
    }
}

fn refuse_all(actions: Vec<pb::ActionSchema>) -> Vec<pb::RefusedAction> {
    let status = Status::of(Reason::Unsupported, "this side serves no actions of its peer");
    let refused = actions
        .into_iter()
        .map(|action| pb::RefusedAction { name: action.name, status: Some(status.clone().into()) });
    refused.collect()
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id()).field("peer", &self.peer()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use super::*;
    use crate::session::core::{Limits, Side};
    use crate::wire::pb::{Frame, PublishFrame, WithdrawFrame, frame::Body};

    /// Writes down what it is told; publishing takes as long as the test wants.
    struct Recorder {
        told: Mutex<Vec<&'static str>>,
        began: mpsc::Sender<()>,
        go_on: Mutex<mpsc::Receiver<()>>,
    }

    impl Publications for Recorder {
        fn publish(&self, _: &Session, _: Vec<pb::ActionSchema>) -> Vec<pb::RefusedAction> {
            self.began.send(()).expect("the test waits");
            self.go_on.lock().recv().expect("the test goes on");
            self.told.lock().push("publish");
            vec![]
        }
        fn withdraw(&self, _: &Session, _: Vec<String>) {
            self.told.lock().push("withdraw");
        }
        fn ended(&self, _: &Session, _: &Status) {
            self.told.lock().push("ended");
        }
    }

    #[test]
    fn what_came_over_an_old_connection_is_done_before_what_comes_over_the_next() {
        let ((began, has_begun), (go, go_on)) = (mpsc::channel(), mpsc::channel());
        let told = Mutex::default();
        let recorder = Arc::new(Recorder { told, began, go_on: Mutex::new(go_on) });
        let publications: Arc<dyn Publications> = recorder.clone();
        let (limits, now) = (Limits::default(), Instant::now());
        let core = Core::new(Side::Acceptor, limits, limits, Duration::from_secs(60), now);
        let parts = SessionParts {
            id: "s".into(),
            peer: String::new(),
            registry: Arc::default(),
            handlers: Arc::default(),
            publications: Arc::downgrade(&publications),
            tasks: TaskTracker::new(),
            runs: None,
        };
        let session = Session::new(core, parts);
        let frame = |number, body| Frame { number, ack: 0, body: Some(body) };
        let publish = frame(1, Body::Publish(PublishFrame::default()));
        let withdraw = frame(2, Body::Withdraw(WithdrawFrame::default()));
        session.attach(Connection(1), 0, now).expect("attaches");
        thread::scope(|scope| {
            scope.spawn(|| session.with(|it| it.core.handle_frame(Connection(1), publish, now)));
            has_begun.recv().expect("it publishes");
            session.attach(Connection(2), 0, now).expect("attaches");
            session.with(|it| it.core.handle_frame(Connection(2), withdraw, now));
            session.end(Status::ok());
            // What waits for the end waits for no other task.
            assert!(session.is_over());
            go.send(()).expect("it waits");
        });
        assert_eq!(*recorder.told.lock(), ["publish", "withdraw", "ended"]);
    }
}

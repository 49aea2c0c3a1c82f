//! What a driver keeps beside the core: what came for each call and was not yet
//! taken, and who waits for it.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    task::{Context, Waker},
};

use tokio::sync::{Notify, oneshot};

use crate::session::core::{Core, Event};
use crate::wire::{NodeFragment, Reason, Status, name::shown, pb};

/// How many log entries of a call are held for whoever takes them; older ones go.
const MAX_HELD_LOGS: usize = 1024;
/// How many bytes they have in all.
const MAX_HELD_LOG_BYTES: usize = 256 * 1024;

/// The core and what came out of it.
pub(super) struct State {
    pub(super) core: Core,
    pub(super) calls: HashMap<u64, CallState>,
    /// Who published, in order, and waits for the answer.
    pub(super) publishing: VecDeque<oneshot::Sender<Vec<pb::RefusedAction>>>,
    /// What is to be done, in the order in which it came.
    pub(super) work: VecDeque<Work>,
    /// Whether a task does it.
    pub(super) is_worked_on: bool,
    /// How often there was a connection.
    pub(super) attachments: u64,
    /// Woken when there may be frames to send, or a time to keep. One for each
    /// connection, so that an old one takes no wake-up away.
    pub(super) changed: Arc<Notify>,
}

/// What came for a call.
#[derive(Default)]
pub(super) struct CallState {
    inboxes: Vec<Inbox>,
    /// The nodes that the action has; `None` until that is known.
    declared: Option<Declared>,
    logs: VecDeque<pb::LogEntry>,
    log_bytes: usize,
    displaced: u32,
    /// How the call ended, or why it is to end.
    pub(super) ended: Option<Status>,
    /// The other side broke a rule of the call.
    pub(super) fault: Option<Status>,
    /// Who waits for log entries, or for the end.
    waiting: Wakers,
    /// Who waits for room, by node.
    writing: Vec<(String, Wakers)>,
}

/// Tasks that wait for one thing. Kept apart by what they wait for: a call has as many
/// nodes as its peer likes, and a frame wakes only whom it concerns.
#[derive(Default)]
struct Wakers(Vec<Waker>);

impl Wakers {
    fn add(&mut self, cx: &Context<'_>) {
        if !self.0.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.0.push(cx.waker().clone());
        }
    }

    fn wake(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}

/// The nodes that an action has.
struct Declared {
    ids: Vec<String>,
    /// What another one is.
    otherwise: Reason,
}

impl Declared {
    fn fault(&self, id: &str) -> Option<Status> {
        if self.ids.iter().any(|known| known == id) {
            return None;
        }
        let id = shown(id);
        Some(Status::of(self.otherwise, format!("the action has no port for node {id:?}")))
    }
}

/// What came of a node. Its credit bounds it.
struct Inbox {
    id: String,
    fragments: Vec<NodeFragment>,
    end: Option<Status>,
    /// Who reads it.
    waiting: Wakers,
}

/// What a reader of a node gets.
pub(super) enum Batch {
    /// The next fragments.
    Fragments(Vec<NodeFragment>),
    /// The node was closed beside its final fragment, or ended with its call.
    End(Status),
    /// Not yet.
    Wait,
}

/// What is left to do once the lock is released.
pub(super) enum Work {
    Host(Box<pb::CallFrame>),
    Publish(Vec<pb::ActionSchema>),
    Withdraw(Vec<String>),
    Ended(Status),
}

impl State {
    /// Takes the events out of the core.
    pub(super) fn settle(&mut self) -> Vec<Work> {
        let mut work = vec![];
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Publish(actions) => work.push(Work::Publish(actions)),
                Event::Withdraw(names) => work.push(Work::Withdraw(names)),
                Event::Published(refused) => {
                    if let Some(publisher) = self.publishing.pop_front() {
                        // Whoever published may have left.
                        let _ = publisher.send(refused);
                    }
                }
                Event::Called(frame) => {
                    self.calls.insert(frame.call, CallState::default());
                    work.push(Work::Host(frame));
                }
                Event::Fragments { call, fragments } => {
                    self.on(call, |state| fragments.into_iter().for_each(|it| state.arrived(it)));
                }
                Event::Closed { call, id, status } => {
                    self.on(call, |state| match state.inbox(&id) {
                        Some(inbox) => {
                            inbox.end.get_or_insert(status);
                            inbox.waiting.wake();
                        }
                        None => state.waiting.wake(),
                    });
                }
                Event::Log { call, entry, displaced } => self.on(call, |state| {
                    state.displaced = state.displaced.saturating_add(displaced);
                    state.narrated(entry);
                    state.waiting.wake();
                }),
                Event::Broken { call, status } => self.on(call, |state| {
                    state.fault.get_or_insert(status);
                    state.waiting.wake();
                }),
                Event::Cancelled { call, status } => self.on(call, |state| {
                    state.ended.get_or_insert(status);
                    state.wake_all();
                }),
                Event::Finished { call, status } => self.on(call, |state| {
                    // A host that broke the rules has not done well, whatever it says.
                    let fault = state.fault.clone().filter(|_| status.is_ok());
                    state.ended.get_or_insert(fault.unwrap_or(status));
                    state.wake_all();
                }),
                Event::Writable { call, id } => self.on(call, |state| {
                    let writing = state.writing.iter_mut().find(|(node, _)| *node == id);
                    if let Some((_, wakers)) = writing {
                        wakers.wake();
                    }
                }),
                Event::Disconnected => self.changed.notify_one(),
                Event::Ended(status) => {
                    self.publishing.clear();
                    work.push(Work::Ended(status));
                }
            }
        }
        work
    }

    /// Changes a call, if it is still of interest.
    fn on(&mut self, call: u64, change: impl FnOnce(&mut CallState)) {
        if let Some(state) = self.calls.get_mut(&call) {
            change(state);
        }
    }
}

impl CallState {
    /// Says which nodes there are, and what others are.
    pub(super) fn declare(&mut self, ids: Vec<String>, otherwise: Reason) {
        let declared = Declared { ids, otherwise };
        let undeclared = self.inboxes.iter().find_map(|inbox| declared.fault(&inbox.id));
        self.fault = self.fault.take().or(undeclared);
        self.declared = Some(declared);
    }

    fn narrated(&mut self, entry: pb::LogEntry) {
        self.log_bytes += log_len(&entry);
        self.logs.push_back(entry);
        while self.logs.len() > MAX_HELD_LOGS || self.log_bytes > MAX_HELD_LOG_BYTES {
            let Some(oldest) = self.logs.pop_front() else { break };
            self.log_bytes -= log_len(&oldest);
            self.displaced = self.displaced.saturating_add(1);
        }
    }

    /// Takes the oldest log entry, and how many were lost before it.
    pub(super) fn next_log(&mut self) -> Option<(pb::LogEntry, u32)> {
        let entry = self.logs.pop_front()?;
        self.log_bytes -= log_len(&entry);
        Some((entry, std::mem::take(&mut self.displaced)))
    }

    fn arrived(&mut self, fragment: NodeFragment) {
        // What comes after the end of a call has no reader.
        match self.inbox(&fragment.id) {
            Some(inbox) => {
                inbox.fragments.push(fragment);
                inbox.waiting.wake();
            }
            None => self.waiting.wake(),
        }
    }

    fn wake_all(&mut self) {
        self.waiting.wake();
        self.writing.iter_mut().for_each(|(_, wakers)| wakers.wake());
        self.inboxes.iter_mut().for_each(|inbox| inbox.waiting.wake());
    }

    fn inbox(&mut self, id: &str) -> Option<&mut Inbox> {
        let place = match self.inboxes.iter().position(|inbox| inbox.id == id) {
            Some(place) => place,
            None => {
                if let Some(fault) = self.declared.as_ref().and_then(|it| it.fault(id)) {
                    self.fault.get_or_insert(fault);
                    return None;
                }
                let id = id.to_owned();
                let (fragments, waiting) = (vec![], Wakers::default());
                self.inboxes.push(Inbox { id, fragments, end: None, waiting });
                self.inboxes.len() - 1
            }
        };
        Some(&mut self.inboxes[place])
    }

    /// Takes what came of a node; where that is nothing yet, the task is woken when
    /// there is more.
    pub(super) fn take(&mut self, id: &str, cx: &Context<'_>) -> Batch {
        let ended = self.ended.clone();
        let Some(inbox) = self.inbox(id) else {
            return Batch::End(Status::of(Reason::NodeClosed, "the action has no such node"));
        };
        if !inbox.fragments.is_empty() {
            return Batch::Fragments(std::mem::take(&mut inbox.fragments));
        }
        match inbox.end.clone().or(ended) {
            Some(end) => Batch::End(end),
            None => {
                inbox.waiting.add(cx);
                Batch::Wait
            }
        }
    }

    /// Wakes the task when there is a log entry, or the call is to end.
    pub(super) fn wait(&mut self, cx: &Context<'_>) {
        self.waiting.add(cx);
    }

    /// Wakes the task when a node that was full has room, or the call is to end.
    pub(super) fn wait_for_room(&mut self, id: &str, cx: &Context<'_>) {
        match self.writing.iter_mut().find(|(node, _)| node == id) {
            Some((_, wakers)) => wakers.add(cx),
            None => {
                let mut wakers = Wakers::default();
                wakers.add(cx);
                self.writing.push((id.to_owned(), wakers));
            }
        }
    }
}

fn log_len(entry: &pb::LogEntry) -> usize {
    entry.text.len() + entry.channel.len()
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::Wake,
    };

    use super::*;
    use crate::wire::Chunk;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_comes_wakes_whom_it_concerns_and_the_end_wakes_all() {
        let woken: [Arc<Woken>; 4] = Default::default();
        let wakers = woken.clone().map(Waker::from);
        let [a, b, room, log] = wakers.each_ref().map(Context::from_waker);
        let mut call = CallState::default();
        let mut check = |happens: &dyn Fn(&mut CallState), expected: [usize; 4]| {
            // Whoever was woken takes what there is, and waits again.
            for (id, cx) in [("a", &a), ("b", &b)] {
                while matches!(call.take(id, cx), Batch::Fragments(_)) {}
            }
            call.wait_for_room("out", &room);
            call.wait(&log);
            happens(&mut call);
            let counts = woken.each_ref().map(|it| it.0.swap(0, Ordering::Relaxed));
            assert_eq!(counts, expected);
        };
        let piece = |id: &str| NodeFragment::more(id, Chunk::text("x"));
        check(&|call| call.arrived(piece("a")), [1, 0, 0, 0]);
        check(&|call| call.arrived(piece("b")), [0, 1, 0, 0]);
        check(&|call| call.wake_all(), [1, 1, 1, 1]);
        check(&|call| call.declare(vec!["a".into(), "b".into()], Reason::InvalidOutput), [0; 4]);
        check(&|call| call.arrived(piece("undeclared")), [0, 0, 0, 1]);
        check(&|call| call.arrived(piece("a")), [1, 0, 0, 0]);
    }
}

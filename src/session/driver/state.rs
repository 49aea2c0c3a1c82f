//! What a driver keeps beside the core: what came for each call and was not yet
//! taken, and who waits for it.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    task::{Context, Waker},
};

use tokio::sync::{Notify, oneshot};

use crate::session::core::{Core, Event};
use crate::wire::{NodeFragment, Reason, Status, pb};

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
    waiting: Vec<Waker>,
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
        let id: String = id.chars().take(255).collect();
        Some(Status::of(self.otherwise, format!("the action has no port for node {id:?}")))
    }
}

/// What came of a node. Its credit bounds it.
struct Inbox {
    id: String,
    fragments: Vec<NodeFragment>,
    end: Option<Status>,
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
                    self.on(call, |state| {
                        if let Some(inbox) = state.inbox(&id) {
                            inbox.end.get_or_insert(status);
                        }
                    });
                }
                Event::Log { call, entry, displaced } => self.on(call, |state| {
                    state.displaced = state.displaced.saturating_add(displaced);
                    state.narrated(entry);
                }),
                Event::Broken { call, status } => self.on(call, |state| {
                    state.fault.get_or_insert(status);
                }),
                Event::Cancelled { call, status } => self.on(call, |state| {
                    state.ended.get_or_insert(status);
                }),
                Event::Finished { call, status } => self.on(call, |state| {
                    // A host that broke the rules has not done well, whatever it says.
                    let fault = state.fault.clone().filter(|_| status.is_ok());
                    state.ended.get_or_insert(fault.unwrap_or(status));
                }),
                Event::Writable { call, id: _ } => self.on(call, |_| {}),
                Event::Disconnected => self.changed.notify_one(),
                Event::Ended(status) => {
                    self.publishing.clear();
                    work.push(Work::Ended(status));
                }
            }
        }
        work
    }

    /// Changes a call and wakes whoever waits for it.
    fn on(&mut self, call: u64, change: impl FnOnce(&mut CallState)) {
        if let Some(state) = self.calls.get_mut(&call) {
            change(state);
            state.waiting.drain(..).for_each(Waker::wake);
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
        if let Some(inbox) = self.inbox(&fragment.id) {
            inbox.fragments.push(fragment);
        }
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
                self.inboxes.push(Inbox { id, fragments: vec![], end: None });
                self.inboxes.len() - 1
            }
        };
        Some(&mut self.inboxes[place])
    }

    /// Takes what came of a node.
    pub(super) fn take(&mut self, id: &str) -> Batch {
        let ended = self.ended.clone();
        let Some(inbox) = self.inbox(id) else {
            return Batch::End(Status::of(Reason::NodeClosed, "the action has no such node"));
        };
        if !inbox.fragments.is_empty() {
            return Batch::Fragments(std::mem::take(&mut inbox.fragments));
        }
        match inbox.end.clone().or(ended) {
            Some(end) => Batch::End(end),
            None => Batch::Wait,
        }
    }

    /// Wakes the task when something changes.
    pub(super) fn wait(&mut self, cx: &Context<'_>) {
        if !self.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.waiting.push(cx.waker().clone());
        }
    }
}

fn log_len(entry: &pb::LogEntry) -> usize {
    entry.text.len() + entry.channel.len()
}

//! Nodes of a session that belong to no call: written and read from anywhere by
//! who knows the session, again after a lost connection, and kept a while for
//! late readers.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::{
    directory::Directory,
    driver::Session,
    run_nodes::{KEPT, RunNodes},
};
use crate::node::{Completeness, Node};
use crate::wire::{Name, Reason, Status};

/// How many nodes a session has at once.
pub const MAX_NODES: usize = 1024;
/// What a node counts beside what it holds.
const NODE_BYTES: usize = 1024;

/// The free nodes of a directory's sessions. Cheap to clone.
#[derive(Clone)]
pub struct FreeNodes(Arc<Inner>);

struct Inner {
    directory: Arc<Directory>,
    state: Mutex<State>,
    /// What all nodes count, those included that somebody still reads after their
    /// time.
    bytes: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    /// By session.
    nodes: HashMap<String, HashMap<Name, Kept>>,
    /// Those that nobody writes any more, in the order in which that began.
    left: BTreeMap<u64, Left>,
    next_left: u64,
    /// Those among them that nobody reads either.
    idle: BTreeSet<u64>,
    /// Whether a task waits for the first of `left`.
    is_swept: bool,
}

struct Kept {
    node: Node,
    share: Arc<Share>,
    writers: usize,
    readers: usize,
    /// Somebody writes it, or did.
    had_writer: bool,
    /// Its place in `left`.
    left: Option<u64>,
}

/// A node that nobody writes any more.
struct Left {
    session: String,
    id: Name,
    until: Instant,
}

/// What a node counts of what all may hold, for as long as anybody has it.
struct Share {
    bytes: AtomicUsize,
    of_all: Arc<AtomicUsize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

impl FreeNodes {
    /// No nodes yet.
    pub fn new(directory: Arc<Directory>) -> Self {
        Self(Arc::new(Inner { directory, state: Mutex::default(), bytes: Arc::default() }))
    }

    /// The runs whose ports can be reached, of the same directory.
    pub fn runs(&self) -> &RunNodes {
        self.0.directory.runs()
    }

    /// How many nodes there are, of all sessions.
    pub fn count(&self) -> usize {
        self.0.state.lock().nodes.values().map(HashMap::len).sum()
    }

    /// A node for a reader, made when it is first named. One that nobody has begun
    /// to write goes with its last reader.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for an id that is no name, UNAVAILABLE for a session that
    /// is not attached, RESOURCE_EXHAUSTED past [`MAX_NODES`], or past what the nodes
    /// of all sessions may hold.
    pub fn read(&self, session: &str, id: &str) -> Result<Reading, Status> {
        let id = Name::new(id).map_err(invalid)?;
        let (node, share) = self.open(session, &id, Access::Read)?;
        let session = session.to_owned();
        Ok(Reading { nodes: self.clone(), session, id, node, _share: share })
    }

    /// A node for a writer.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write(&self, session: &str, id: &str) -> Result<Writing, Status> {
        let id = Name::new(id).map_err(invalid)?;
        let (node, share) = self.open(session, &id, Access::Write)?;
        let session = session.to_owned();
        Ok(Writing { nodes: self.clone(), session, id, node, share, ended: false })
    }

    fn open(&self, session: &str, id: &Name, access: Access) -> Result<(Node, Arc<Share>), Status> {
        let attached = self.0.directory.session(session)?;
        let mut state = self.0.state.lock();
        let of_session = state.nodes.get(session);
        if of_session.is_none_or(|nodes| !nodes.contains_key(id)) {
            if of_session.is_some_and(|nodes| nodes.len() >= MAX_NODES) {
                let message = format!("a session has at most {MAX_NODES} nodes at once");
                return Err(Status::of(Reason::SessionLimit, message));
            }
            self.make_room(&mut state, NODE_BYTES)?;
        }
        let State { nodes, left, idle, .. } = &mut *state;
        let of_session = nodes.entry(session.to_owned()).or_insert_with(|| {
            self.0.directory.tasks().spawn(forget_with(Arc::downgrade(&self.0), attached));
            HashMap::new()
        });
        let kept = of_session.entry(id.clone()).or_insert_with(|| Kept {
            node: Node::default(),
            share: Share::of(&self.0.bytes),
            writers: 0,
            readers: 0,
            had_writer: false,
            left: None,
        });
        match access {
            Access::Read => {
                kept.readers += 1;
                if let Some(place) = &kept.left {
                    idle.remove(place);
                }
            }
            Access::Write => {
                kept.writers += 1;
                kept.had_writer = true;
                if let Some(place) = kept.left.take() {
                    left.remove(&place);
                    idle.remove(&place);
                }
            }
        }
        Ok((kept.node.clone(), kept.share.clone()))
    }

    /// Lets go of nodes that nobody uses, oldest first, until there is room for so
    /// much more.
    fn make_room(&self, state: &mut State, bytes: usize) -> Result<(), Status> {
        let most = self.0.directory.config().max_node_bytes;
        while self.0.bytes.load(Ordering::Relaxed).saturating_add(bytes) > most {
            let Some(first) = state.idle.pop_first() else {
                let message = format!("the nodes of all sessions hold at most {most} bytes");
                return Err(Status::of(Reason::SessionLimit, message));
            };
            state.let_go(first);
        }
        Ok(())
    }

    /// A reader is gone.
    fn reader_left(&self, reading: &Reading) {
        let mut state = self.0.state.lock();
        let State { nodes, idle, .. } = &mut *state;
        let Some(of_session) = nodes.get_mut(&reading.session) else { return };
        // Another one may have its id by now.
        let Some(kept) = of_session.get_mut(&reading.id).filter(|it| it.node.is(&reading.node))
        else {
            return;
        };
        kept.readers -= 1;
        kept.share.measure(&kept.node);
        if kept.readers > 0 {
            return;
        }
        idle.extend(kept.left);
        if !kept.had_writer {
            of_session.remove(&reading.id);
        }
    }

    /// A writer is gone. The node waits for another, or for late readers.
    fn writer_left(&self, writing: &Writing) {
        let mut state = self.0.state.lock();
        let State { nodes, left, next_left, idle, is_swept } = &mut *state;
        // Nothing is kept of a session that is over.
        let Some(of_session) = nodes.get_mut(&writing.session) else { return };
        let Some(kept) = of_session.get_mut(&writing.id).filter(|it| it.node.is(&writing.node))
        else {
            return;
        };
        kept.share.measure(&kept.node);
        kept.writers -= 1;
        if kept.writers > 0 {
            return;
        }
        *next_left += 1;
        kept.left = Some(*next_left);
        let (session, id) = (writing.session.clone(), writing.id.clone());
        left.insert(*next_left, Left { session, id, until: Instant::now() + KEPT });
        if kept.readers == 0 {
            idle.insert(*next_left);
        }
        if !std::mem::replace(is_swept, true) {
            self.0.directory.tasks().spawn(sweep(Arc::downgrade(&self.0)));
        }
    }
}

impl State {
    /// Lets go of a node that nobody writes any more.
    fn let_go(&mut self, place: u64) {
        let Some(Left { session, id, .. }) = self.left.remove(&place) else { return };
        self.idle.remove(&place);
        let gone = self.nodes.get_mut(&session).and_then(|nodes| nodes.remove(&id));
        if let Some(kept) = gone {
            let message = format!("the writer of node {id:?} left and did not come back");
            // A node that is complete or closed stays as it is.
            kept.node.fail(Status::of(Reason::PeerLost, message));
        }
    }
}

impl Share {
    fn of(all: &Arc<AtomicUsize>) -> Arc<Self> {
        all.fetch_add(NODE_BYTES, Ordering::Relaxed);
        Arc::new(Self { bytes: AtomicUsize::new(NODE_BYTES), of_all: all.clone() })
    }

    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.of_all.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts what the node holds now.
    fn measure(&self, node: &Node) {
        let bytes = NODE_BYTES + node.held_bytes();
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        // Both wrap around.
        self.of_all.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of_all.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

/// Lets go of nodes as their time comes, until none waits for it.
async fn sweep(inner: Weak<Inner>) {
    loop {
        let (due, stop) = {
            let Some(inner) = inner.upgrade() else { return };
            let mut state = inner.state.lock();
            let now = Instant::now();
            let due = loop {
                match state.left.first_key_value() {
                    Some((&place, left)) if left.until <= now => state.let_go(place),
                    Some((_, left)) => break Some(left.until),
                    None => break None,
                }
            };
            state.is_swept = due.is_some();
            let Some(due) = due else { return };
            (due, inner.directory.stop().clone())
        };
        tokio::select! {
            () = sleep_until(due) => {}
            // The sessions end, and their nodes with them.
            () = stop.cancelled() => return,
        }
    }
}

/// Lets go of the nodes of a session when it ends.
async fn forget_with(inner: Weak<Inner>, session: Session) {
    session.ended().await;
    let Some(inner) = inner.upgrade() else { return };
    let gone = {
        let mut state = inner.state.lock();
        let gone = state.nodes.remove(session.id()).unwrap_or_default();
        for place in gone.values().filter_map(|kept| kept.left) {
            state.left.remove(&place);
            state.idle.remove(&place);
        }
        gone
    };
    for kept in gone.into_values() {
        kept.node.fail(Status::of(Reason::PeerLost, "the session of the node ended"));
    }
}

/// A node that somebody reads, until this is dropped.
pub struct Reading {
    nodes: FreeNodes,
    session: String,
    id: Name,
    node: Node,
    _share: Arc<Share>,
}

impl Reading {
    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.nodes.reader_left(self);
    }
}

/// A node that somebody writes, until this is dropped.
pub struct Writing {
    nodes: FreeNodes,
    session: String,
    id: Name,
    node: Node,
    share: Arc<Share>,
    ended: bool,
}

impl Writing {
    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Counts so many bytes that are about to be written to the node, see
    /// [`written`](Self::written).
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED past what the nodes of all sessions may hold.
    pub fn make_room(&self, bytes: usize) -> Result<(), Status> {
        self.nodes.make_room(&mut self.nodes.0.state.lock(), bytes)?;
        self.share.add(bytes);
        Ok(())
    }

    /// They have been: what the node holds of them still counts.
    pub fn written(&self) {
        self.share.measure(&self.node);
    }

    /// Closes the node, with a failure where the status is one.
    pub fn close(&mut self, status: Status) {
        self.ended = true;
        self.node.end(status);
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.ended && self.node.progress().1 == Completeness::Complete {
            self.node.close();
        }
        self.nodes.writer_left(self);
    }
}

fn invalid(error: crate::wire::NameError) -> Status {
    Status::of(Reason::InvalidRequest, format!("id: {error}"))
}

#[cfg(test)]
mod tests;

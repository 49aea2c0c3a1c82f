//! Nodes of a session that belong to no call: written and read from anywhere by
//! who knows the session, again after a lost connection, and kept a while for
//! late readers.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
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

/// The free nodes of a directory's sessions. Cheap to clone.
#[derive(Clone)]
pub struct FreeNodes(Arc<Inner>);

struct Inner {
    directory: Arc<Directory>,
    /// By session.
    nodes: Mutex<HashMap<String, HashMap<Name, Kept>>>,
}

struct Kept {
    node: Node,
    writers: usize,
    readers: usize,
    /// Somebody writes it, or did.
    had_writer: bool,
    /// Until when it is kept, where nobody writes it.
    until: Option<Instant>,
    /// Whether a task waits for that time.
    is_watched: bool,
}

impl FreeNodes {
    /// No nodes yet.
    pub fn new(directory: Arc<Directory>) -> Self {
        Self(Arc::new(Inner { directory, nodes: Mutex::default() }))
    }

    /// The runs whose ports can be reached, of the same directory.
    pub fn runs(&self) -> &RunNodes {
        self.0.directory.runs()
    }

    /// How many nodes there are, of all sessions.
    pub fn count(&self) -> usize {
        self.0.nodes.lock().values().map(HashMap::len).sum()
    }

    /// A node for a reader, made when it is first named. One that nobody has begun
    /// to write goes with its last reader.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for an id that is no name, UNAVAILABLE for a session that
    /// is not attached, RESOURCE_EXHAUSTED past [`MAX_NODES`].
    pub fn read(&self, session: &str, id: &str) -> Result<Reading, Status> {
        let node = self.with(session, id, |kept| {
            kept.readers += 1;
            kept.node.clone()
        })?;
        let id = Name::new(id).map_err(invalid)?;
        Ok(Reading { nodes: self.clone(), session: session.to_owned(), id, node })
    }

    /// A node for a writer.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write(&self, session: &str, id: &str) -> Result<Writing, Status> {
        let node = self.with(session, id, |kept| {
            kept.writers += 1;
            kept.had_writer = true;
            kept.until = None;
            kept.node.clone()
        })?;
        let id = Name::new(id).map_err(invalid)?;
        Ok(Writing { nodes: self.clone(), session: session.to_owned(), id, node, ended: false })
    }

    fn with<T>(
        &self,
        session: &str,
        id: &str,
        use_it: impl FnOnce(&mut Kept) -> T,
    ) -> Result<T, Status> {
        let id = Name::new(id).map_err(invalid)?;
        let attached = self.0.directory.session(session)?;
        let mut nodes = self.0.nodes.lock();
        let of_session = nodes.entry(session.to_owned()).or_insert_with(|| {
            self.0.directory.tasks().spawn(forget_with(Arc::downgrade(&self.0), attached));
            HashMap::new()
        });
        if of_session.len() >= MAX_NODES && !of_session.contains_key(&id) {
            return Err(Status::of(
                Reason::SessionLimit,
                format!("a session has at most {MAX_NODES} nodes at once"),
            ));
        }
        let kept = of_session.entry(id).or_insert_with(|| Kept {
            node: Node::default(),
            writers: 0,
            readers: 0,
            had_writer: false,
            until: None,
            is_watched: false,
        });
        Ok(use_it(kept))
    }

    /// A reader is gone.
    fn reader_left(&self, reading: &Reading) {
        let mut nodes = self.0.nodes.lock();
        let Some(of_session) = nodes.get_mut(&reading.session) else { return };
        // Another one may have its id by now.
        let Some(kept) = of_session.get_mut(&reading.id).filter(|it| it.node.is(&reading.node))
        else {
            return;
        };
        kept.readers -= 1;
        if kept.readers == 0 && !kept.had_writer {
            of_session.remove(&reading.id);
        }
    }

    /// A writer is gone. The node waits for another, or for late readers.
    fn writer_left(&self, session: &str, id: &Name) {
        // Nothing is kept of a session that is over.
        let Ok(attached) = self.0.directory.session(session) else { return };
        let mut nodes = self.0.nodes.lock();
        let Some(kept) = nodes.get_mut(session).and_then(|nodes| nodes.get_mut(id)) else { return };
        kept.writers -= 1;
        if kept.writers > 0 {
            return;
        }
        kept.until = Some(Instant::now() + KEPT);
        // One task a node, however often its writers come and go.
        if !std::mem::replace(&mut kept.is_watched, true) {
            let watch = watch(Arc::downgrade(&self.0), attached, id.clone());
            self.0.directory.tasks().spawn(watch);
        }
    }
}

/// Lets go of a node whose time has come, unless somebody writes it again.
async fn watch(inner: Weak<Inner>, session: Session, id: Name) {
    loop {
        let (until, stop) = {
            let Some(inner) = inner.upgrade() else { return };
            let stop = inner.directory.stop().clone();
            let mut nodes = inner.nodes.lock();
            let Some(of_session) = nodes.get_mut(session.id()) else { return };
            let Some(kept) = of_session.get_mut(&id) else { return };
            kept.is_watched = kept.until.is_some();
            let Some(until) = kept.until else { return };
            if until <= Instant::now() || stop.is_cancelled() {
                let message = format!("the writer of node {id:?} left and did not come back");
                // A node that is complete or closed stays as it is.
                kept.node.fail(Status::of(Reason::PeerLost, message));
                of_session.remove(&id);
                return;
            }
            (until, stop)
        };
        tokio::select! {
            () = sleep_until(until) => {}
            () = stop.cancelled() => {}
            () = session.ended() => return,
        }
    }
}

/// Lets go of the nodes of a session when it ends.
async fn forget_with(inner: Weak<Inner>, session: Session) {
    session.ended().await;
    let Some(inner) = inner.upgrade() else { return };
    let gone = inner.nodes.lock().remove(session.id()).unwrap_or_default();
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
    ended: bool,
}

impl Writing {
    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
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
        self.nodes.writer_left(&self.session, &self.id);
    }
}

fn invalid(error: crate::wire::NameError) -> Status {
    Status::of(Reason::InvalidRequest, format!("id: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::action::{Handlers, Registry};
    use crate::node::Reader;
    use crate::session::Config;
    use crate::wire::Chunk;

    const ID: &str = "notes";

    /// Nodes, and a session that they can belong to.
    fn nodes() -> (FreeNodes, Session) {
        let registry = Arc::new(Registry::new());
        let handlers = Arc::new(Handlers::default());
        let directory = Directory::new(registry, handlers, Config::default());
        let (session, _) = directory.open("p".into(), None).expect("there is room");
        (FreeNodes::new(directory), session)
    }

    /// Writes a value and leaves.
    async fn write(nodes: &FreeNodes, session: &Session, value: &str, is_last: bool) {
        let writing = nodes.write(session.id(), ID).expect("is attached");
        let mut writer = writing.node().writer();
        writer.send(Chunk::text(value)).await.expect("is taken");
        if is_last {
            writer.finish().await.expect("ends");
        }
    }

    fn read(nodes: &FreeNodes, session: &Session) -> (Reading, Reader) {
        let reading = nodes.read(session.id(), ID).expect("is attached");
        let reader = reading.node().reader_from(0);
        (reading, reader)
    }

    /// The values of a node, and how it ended.
    async fn all(reader: &mut Reader) -> (usize, Status) {
        let mut count = 0;
        loop {
            match reader.next().await {
                Ok(Some(piece)) => count += usize::from(!piece.is_null()),
                Ok(None) => return (count, Status::ok()),
                Err(status) => return (count, status),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_is_kept_for_late_readers_for_its_time_and_no_longer() {
        let (nodes, session) = nodes();
        write(&nodes, &session, "a", true).await;
        tokio::time::sleep(KEPT - Duration::from_secs(1)).await;
        let (reading, mut reader) = read(&nodes, &session);
        assert_eq!(all(&mut reader).await, (1, Status::ok()));
        drop((reading, reader));
        assert_eq!(nodes.count(), 1);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(nodes.count(), 0);
        // Who names it now names another.
        let (_reading, reader) = read(&nodes, &session);
        assert_eq!((reader.ending(), nodes.count()), (None, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_writer_that_left_is_waited_for_and_then_its_readers_are_told() {
        let (nodes, session) = nodes();
        write(&nodes, &session, "a", false).await;
        let (_reading, mut reader) = read(&nodes, &session);
        tokio::time::sleep(KEPT - Duration::from_secs(1)).await;
        // It comes back, and has all of its time again.
        write(&nodes, &session, "b", false).await;
        let again = tokio::time::Instant::now();
        let (count, status) = all(&mut reader).await;
        assert_eq!((count, status.reason), (2, Reason::PeerLost), "{status}");
        assert!(again.elapsed() >= KEPT && again.elapsed() < KEPT + Duration::from_secs(1));
        assert_eq!(nodes.count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn writers_that_come_and_go_leave_one_task_which_ends_with_the_session() {
        let (nodes, session) = nodes();
        for _ in 0..100 {
            write(&nodes, &session, "a", false).await;
        }
        let tasks = nodes.0.directory.tasks();
        assert_eq!(tasks.len(), 2, "for the node, and for the session");
        let began = Instant::now();
        session.end(Status::ok());
        tasks.close();
        tasks.wait().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn one_writer_of_two_that_stays_is_enough() {
        let (nodes, session) = nodes();
        let stays = nodes.write(session.id(), ID).expect("is attached");
        write(&nodes, &session, "a", false).await;
        tokio::time::sleep(2 * KEPT).await;
        stays.node().writer().finish().await.expect("still takes more");
        drop(stays);
        let (_reading, mut reader) = read(&nodes, &session);
        assert_eq!(all(&mut reader).await, (1, Status::ok()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_nodes_of_a_session_go_with_it_and_their_readers_are_told() {
        let (nodes, session) = nodes();
        write(&nodes, &session, "a", false).await;
        let (_reading, mut reader) = read(&nodes, &session);
        let began = tokio::time::Instant::now();
        session.end(Status::ok());
        let (count, status) = all(&mut reader).await;
        assert_eq!((count, status.reason), (1, Reason::PeerLost), "{status}");
        assert_eq!((nodes.count(), began.elapsed()), (0, Duration::ZERO));
        let refused = nodes.read(session.id(), ID).err().expect("is gone");
        assert_eq!(refused.reason, Reason::UnknownSession);
    }
}

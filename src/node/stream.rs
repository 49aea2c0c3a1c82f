//! A node shared between tasks: the buffer, who waits for it, and how far each
//! reader is. Nothing here awaits; the lock is held for one step at a time.

use std::{fmt, sync::Arc, task::Waker};

use parking_lot::Mutex;

use super::{
    buffer::{Buffer, DEFAULT_CAPACITY, Holds, WhenRead},
    piece::Piece,
    reader::Reader,
    writer::Writer,
};
use crate::wire::Status;

/// What happens to writes once every reader that there was has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenUnread {
    /// The writer waits at the capacity: a reader may come back.
    Wait,
    /// What is written is let go: nobody will ask for it.
    Discard,
}

/// Whether the final piece and all before it are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// They are.
    Complete,
    /// Something is still to come, or never came.
    Partial,
}

/// One ordered stream. Cloning gives another handle to the same node.
#[derive(Clone)]
pub struct Node(pub(super) Arc<Mutex<Shared>>);

pub(super) struct Shared {
    pub(super) buffer: Buffer,
    /// By reader; a place is free for reuse when it is `None`.
    pub(super) readers: Vec<Option<ReaderState>>,
    pub(super) waiting_writers: Vec<Waker>,
    when_unread: WhenUnread,
    had_reader: bool,
}

pub(super) struct ReaderState {
    /// The seq of the piece that it reads next.
    pub(super) seq: u32,
    pub(super) waiting: Option<Waker>,
}

impl Node {
    /// An empty node that holds up to `capacity` bytes for its slowest reader.
    /// A chunk without a media type, and without a predecessor, gets `media_type`.
    pub fn new(capacity: usize, media_type: &str, when_unread: WhenUnread) -> Self {
        Self::of_buffer(Buffer::new(capacity, media_type.to_owned()), when_unread)
    }

    /// The same node, restricted to what may be written to it. Only before the
    /// first write.
    pub fn holding(self, holds: Holds) -> Self {
        self.0.lock().buffer.set_holds(holds);
        self
    }

    /// Says what happens to what has been read; it is kept unless this says
    /// otherwise.
    pub fn set_when_read(&self, when_read: WhenRead) {
        self.0.lock().buffer.set_when_read(when_read);
    }

    /// A closed node with all of its content, which is in order already and is
    /// taken whatever its size.
    pub fn of_pieces(pieces: Vec<Piece>) -> Self {
        Self::of_buffer(Buffer::of_pieces(pieces), WhenUnread::Discard)
    }

    fn of_buffer(buffer: Buffer, when_unread: WhenUnread) -> Self {
        Self(Arc::new(Mutex::new(Shared {
            buffer,
            readers: Vec::new(),
            waiting_writers: Vec::new(),
            when_unread,
            had_reader: false,
        })))
    }

    /// A reader from the first piece on. It may begin before, between or after
    /// the writes.
    pub fn reader(&self) -> Reader {
        self.reader_from(0)
    }

    /// A reader from `seq` on. Until that is written it has read all there is, and holds
    /// up nobody.
    pub fn reader_from(&self, seq: u32) -> Reader {
        let mut shared = self.0.lock();
        shared.had_reader = true;
        let state = ReaderState { seq, waiting: None };
        let key = match shared.readers.iter().position(Option::is_none) {
            Some(free) => {
                shared.readers[free] = Some(state);
                free
            }
            None => {
                shared.readers.push(Some(state));
                shared.readers.len() - 1
            }
        };
        drop(shared);
        Reader::new(self.clone(), key, seq)
    }

    /// A handle to write with.
    pub fn writer(&self) -> Writer {
        Writer::new(self.clone())
    }

    /// How far it is written: the seq after the last piece that is there without a
    /// gap, and whether that is all of it.
    pub fn progress(&self) -> (u32, Completeness) {
        let shared = self.0.lock();
        let completeness = match shared.buffer.is_complete() {
            true => Completeness::Complete,
            false => Completeness::Partial,
        };
        (shared.buffer.next_seq(), completeness)
    }

    /// Whether both are handles to one node.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether anything was written in order that carries a value.
    pub fn has_value(&self) -> bool {
        self.0.lock().buffer.has_value()
    }

    /// How many bytes it holds, counted as for its capacity.
    pub fn held_bytes(&self) -> usize {
        self.0.lock().buffer.held_bytes()
    }

    /// Ends the writing. Readers get what is there, then the end; over a gap
    /// they get DATA_LOSS.
    pub fn close(&self) {
        let mut shared = self.0.lock();
        shared.buffer.close();
        shared.wake_all();
    }

    /// Ends the writing as a status says: [closed](Self::close) where it is OK, else
    /// [failed](Self::fail).
    pub fn end(&self, status: Status) {
        if status.is_ok() { self.close() } else { self.fail(status) }
    }

    /// Ends the writing with a status, which every reader gets after what is
    /// there. A node that is complete or closed stays as it is.
    pub fn fail(&self, status: Status) {
        let mut shared = self.0.lock();
        if !shared.buffer.is_complete() {
            shared.buffer.fail(status);
        }
        shared.wake_all();
    }
}

impl Shared {
    /// How far the slowest reader is.
    pub(super) fn least_read(&self) -> u64 {
        let readers = self.readers.iter().flatten();
        let slowest = readers.map(|reader| self.buffer.read_before(reader.seq)).min();
        match slowest {
            Some(read) => read,
            None if self.had_reader && self.when_unread == WhenUnread::Discard => {
                self.buffer.written()
            }
            None => 0,
        }
    }

    pub(super) fn wake_readers(&mut self) {
        for reader in self.readers.iter_mut().flatten() {
            if let Some(waker) = reader.waiting.take() {
                waker.wake();
            }
        }
    }

    /// Lets go of what has been read and wakes writers that have room again.
    pub(super) fn settle(&mut self) {
        let read = self.least_read();
        self.buffer.trim(read);
        if !self.waiting_writers.is_empty() && !self.buffer.is_full(read) {
            self.wake_writers();
        }
    }

    fn wake_writers(&mut self) {
        for waker in self.waiting_writers.drain(..) {
            waker.wake();
        }
    }

    pub(super) fn wake_all(&mut self) {
        self.wake_readers();
        self.wake_writers();
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::new(DEFAULT_CAPACITY, "", WhenUnread::Wait)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Node").field(&self.0.lock().buffer).finish()
    }
}

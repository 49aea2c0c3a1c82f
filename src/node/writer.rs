//! Writing a node: in order, or at given places.

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

use super::{error::NodeError, piece::Piece, stream::Node};
use crate::wire::{Chunk, NodeFragment, Status};

/// A handle that writes to a node. Dropping it closes nothing.
#[derive(Debug, Clone)]
pub struct Writer {
    node: Node,
}

impl Writer {
    pub(super) fn new(node: Node) -> Self {
        Self { node }
    }

    /// Writes a piece after the highest so far, waiting while the readers are
    /// further behind than the node's capacity.
    ///
    /// Cancel safe: nothing is written unless it returns.
    ///
    /// # Errors
    /// INVALID_ARGUMENT past the final piece, FAILED_PRECONDITION where the node
    /// is closed, the node's own status where it failed.
    pub async fn write(&mut self, piece: Piece) -> Result<(), Status> {
        self.write_at(None, piece).await
    }

    /// Writes a chunk with more to follow.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn send(&mut self, chunk: Chunk) -> Result<(), Status> {
        self.write(Piece::more(chunk)).await
    }

    /// Writes the end, without a value.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn finish(&mut self) -> Result<(), Status> {
        self.write(Piece::end()).await
    }

    /// Writes a fragment at its own place. A fragment that comes early never
    /// waits; what may be held ahead is bounded.
    ///
    /// # Errors
    /// As [`write`](Self::write), and the node fails where the fragment
    /// contradicts what is there, or holds what none may (INVALID_ARGUMENT).
    pub async fn write_fragment(&mut self, fragment: NodeFragment) -> Result<(), Status> {
        let (seq, piece) = Piece::from_fragment(fragment)
            .map_err(Status::from)
            .inspect_err(|status| self.node.fail(status.clone()))?;
        self.write_at(seq, piece).await
    }

    /// Writes a piece at its own place, or after the highest so far, as
    /// [`write_fragment`](Self::write_fragment) does a fragment.
    ///
    /// # Errors
    /// As [`write`](Self::write), and the node fails where the piece contradicts
    /// what is there.
    pub async fn write_at(&mut self, seq: Option<u32>, piece: Piece) -> Result<(), Status> {
        let mut piece = Some(piece);
        poll_fn(|cx| self.poll_write(cx, seq, &mut piece)).await.map_err(Status::from)
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        seq: Option<u32>,
        piece: &mut Option<Piece>,
    ) -> Poll<Result<(), NodeError>> {
        let mut shared = self.node.0.lock();
        let read = shared.least_read();
        if shared.buffer.is_next(seq) && shared.buffer.is_full(read) {
            if !shared.waiting_writers.iter().any(|waker| waker.will_wake(cx.waker())) {
                shared.waiting_writers.push(cx.waker().clone());
            }
            return Poll::Pending;
        }
        let Some(piece) = piece.take() else { return Poll::Ready(Ok(())) };
        let result = shared.buffer.insert(seq, piece);
        shared.buffer.trim(read);
        match &result {
            Ok(()) => shared.wake_readers(),
            // The node may have failed with it, which other writers wait to be told.
            Err(_) => shared.wake_all(),
        }
        Poll::Ready(result)
    }

    /// Ends the writing, see [`Node::close`].
    pub fn close(&self) {
        self.node.close();
    }

    /// Ends the writing with a status, see [`Node::fail`].
    pub fn fail(&self, status: Status) {
        self.node.fail(status);
    }
}

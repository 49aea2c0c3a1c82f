//! Reading a node: piece by piece, in batches, or as one whole value.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use futures::Stream;

use super::{
    buffer::Next,
    piece::{Elsewhere, Piece},
    stream::Node,
};
use crate::wire::{Chunk, Reason, Status};

/// How a node that did not fail ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With a final fragment: what was read is all of it.
    Final,
    /// Closed without one: nothing more comes, and nobody said that it is all.
    Closed,
}

/// One reader's place in a node. Readers do not disturb each other; a slow one
/// holds up the writer, not the others.
#[derive(Debug)]
pub struct Reader {
    node: Node,
    key: usize,
    seq: u32,
    ending: Option<Ending>,
}

/// How many bytes a value has at most that is read whole, unless its reader says less:
/// as many as a message.
pub const MAX_VALUE_BYTES: usize = 64 << 20;

/// How many bytes one batch holds at most, past its first piece.
const BATCH_BYTES: u64 = 256 * 1024;

impl Reader {
    pub(super) fn new(node: Node, key: usize, seq: u32) -> Self {
        Self { node, key, seq, ending: None }
    }

    /// The next piece; `None` at the end, see [`ending`](Self::ending).
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// The status that the node failed with, OUT_OF_RANGE where the place is no
    /// longer kept.
    pub async fn next(&mut self) -> Result<Option<Piece>, Status> {
        poll_fn(|cx| self.poll_piece(cx)).await
    }

    /// Appends all that is there (at least one piece) to `batch`; false at the
    /// end.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn next_batch(&mut self, batch: &mut Vec<Piece>) -> Result<bool, Status> {
        poll_fn(|cx| self.poll_batch(cx, batch)).await
    }

    /// The node's one value, put together from its pieces; `None` where it ended
    /// without one.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED as soon as it has more than `most_bytes`,
    /// FAILED_PRECONDITION where the node was closed without a final fragment, else as
    /// [`next`](Self::next) and [`join`].
    pub async fn value(&mut self, most_bytes: usize) -> Result<Option<Chunk>, Status> {
        let mut value = Value::default();
        let mut pieces = Vec::new();
        let mut is_empty = true;
        while self.next_batch(&mut pieces).await? {
            is_empty = false;
            for piece in pieces.drain(..) {
                value.add(&piece)?;
            }
            if value.len() > most_bytes {
                let message = format!("a value that is read whole has {most_bytes} bytes at most");
                return Err(Status::of(Reason::NodeFull, message));
            }
        }
        if self.ending == Some(Ending::Closed) && !is_empty {
            return Err(Status::of(
                Reason::NotFinal,
                "the node was closed without a final fragment; its value may be incomplete",
            ));
        }
        Ok(value.end())
    }

    /// How the node ended, once a read has come to the end.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// The seq of the piece that is read next.
    pub fn seq(&self) -> u32 {
        self.seq
    }

    /// Polls for the next piece.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Piece>, Status>> {
        let mut found = None;
        let more = ready!(self.poll_pieces(cx, 1, &mut |piece| found = Some(piece)))?;
        debug_assert_eq!(more, found.is_some());
        Poll::Ready(Ok(found))
    }

    /// Polls for all that is there; ready with false at the end.
    pub fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut Vec<Piece>,
    ) -> Poll<Result<bool, Status>> {
        self.poll_pieces(cx, usize::MAX, &mut |piece| batch.push(piece))
    }

    fn poll_pieces(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        take: &mut dyn FnMut(Piece),
    ) -> Poll<Result<bool, Status>> {
        let mut shared = self.node.0.lock();
        let mut taken = 0;
        let mut enough = u64::MAX;
        while taken < most {
            match shared.buffer.next(self.seq) {
                Next::Piece(piece, read) if taken == 0 || read <= enough => {
                    if taken == 0 {
                        enough = read.saturating_add(BATCH_BYTES);
                    }
                    take(piece.clone());
                    taken += 1;
                    self.seq = self.seq.saturating_add(1);
                    if let Some(reader) = &mut shared.readers[self.key] {
                        reader.seq = self.seq;
                    }
                }
                _ if taken > 0 => break,
                Next::Piece(..) => break,
                Next::Wait => {
                    if let Some(reader) = &mut shared.readers[self.key] {
                        reader.waiting = Some(cx.waker().clone());
                    }
                    return Poll::Pending;
                }
                Next::Final => {
                    self.ending = Some(Ending::Final);
                    return Poll::Ready(Ok(false));
                }
                Next::Closed => {
                    self.ending = Some(Ending::Closed);
                    return Poll::Ready(Ok(false));
                }
                Next::Failed(status) => return Poll::Ready(Err(status)),
                Next::Trimmed(error) => return Poll::Ready(Err(error.into())),
            }
        }
        shared.settle();
        Poll::Ready(Ok(true))
    }
}

impl Stream for Reader {
    type Item = Result<Piece, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_piece(cx).map(Result::transpose)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut shared = self.node.0.lock();
        shared.readers[self.key] = None;
        shared.settle();
    }
}

/// Puts the pieces of one value together: nothing is copied where there is only
/// one. Null chunks carry nothing; no other chunk means no value. A chunk that is
/// a reference is handed on where it is the whole of it.
///
/// # Errors
/// NOT_FOUND where a part is a reference to another place.
pub fn join<'a>(pieces: impl IntoIterator<Item = &'a Piece>) -> Result<Option<Chunk>, Status> {
    let mut value = Value::default();
    for piece in pieces {
        value.add(piece)?;
    }
    Ok(value.end())
}

/// A value in the making.
#[derive(Default)]
struct Value {
    /// Its first part.
    chunk: Option<Chunk>,
    /// All of it, once there is a second part.
    data: BytesMut,
}

impl Value {
    fn add(&mut self, piece: &Piece) -> Result<(), Elsewhere> {
        if piece.is_null() {
            return Ok(());
        }
        let Some(first) = &self.chunk else {
            let chunk = match piece.chunk() {
                Some(chunk) => chunk,
                None => piece.value_chunk()?,
            };
            self.chunk = Some(chunk.clone());
            return Ok(());
        };
        let chunk = piece.value_chunk()?;
        if let Some(place) = first.reference() {
            return Err(Elsewhere::Place(place.to_owned()));
        }
        if self.data.is_empty() {
            self.data.extend_from_slice(first.data());
        }
        self.data.extend_from_slice(chunk.data());
        Ok(())
    }

    fn len(&self) -> usize {
        let first = self.chunk.as_ref().map_or(0, |chunk| chunk.data().len());
        first.max(self.data.len())
    }

    fn end(self) -> Option<Chunk> {
        let mut chunk = self.chunk?;
        if !self.data.is_empty() {
            chunk.body = Some(crate::wire::pb::chunk::Body::Data(Bytes::from(self.data)));
        }
        Some(chunk)
    }
}

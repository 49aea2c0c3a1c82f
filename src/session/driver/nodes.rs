//! Reading and writing the nodes of a session's calls, waiting for credit on the
//! one side and for what comes on the other.

use std::{future::poll_fn, task::Poll};

use super::{handle::Session, state::Batch};
use crate::node::{Ending, Piece, Reader, Writer};
use crate::session::core::{Room, cost};
use crate::wire::{NodeFragment, Reason, Status};

impl Session {
    /// What came of a node: fragments, or how it ended beside its final one.
    /// What is taken counts against the node's credit until it is consumed.
    ///
    /// Cancel safe.
    pub(crate) async fn read(&self, call: u64, id: &str) -> Result<Vec<NodeFragment>, Status> {
        poll_fn(|cx| {
            self.look(|state| {
                let Some(call) = state.calls.get_mut(&call) else {
                    return Poll::Ready(Err(Status::ok()));
                };
                match call.take(id, cx) {
                    Batch::Fragments(fragments) => Poll::Ready(Ok(fragments)),
                    Batch::End(status) => Poll::Ready(Err(status)),
                    Batch::Wait => Poll::Pending,
                }
            })
        })
        .await
    }

    /// Says that a reader took what cost this much.
    pub(crate) fn consume(&self, call: u64, id: &str, cost: u64) {
        self.look(|state| {
            // Commonly there is nothing yet to tell, and nobody to wake.
            if state.core.consume(call, id, cost) {
                state.changed.notify_one();
            }
        });
    }

    /// Writes pieces to a node, as there is room. What a call that is over would
    /// not take is let go.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED for a piece that is too large for the peer.
    pub(crate) async fn write(
        &self,
        call: u64,
        id: &str,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), Status> {
        let mut pieces = pieces.drain(..).peekable();
        poll_fn(|cx| {
            self.with(|state| {
                while pieces.peek().is_some() {
                    match state.core.room(call, id) {
                        Room::Free => {}
                        Room::Gone => return Poll::Ready(Ok(())),
                        Room::Full => {
                            let Some(call) = state.calls.get_mut(&call) else {
                                return Poll::Ready(Ok(()));
                            };
                            call.wait_for_room(id, cx);
                            return Poll::Pending;
                        }
                    }
                    let Some(Piece { payload, continued }) = pieces.next() else { break };
                    let fragment = NodeFragment {
                        id: id.to_owned(),
                        payload: Some(payload),
                        seq: None,
                        continued,
                    };
                    state.core.write(call, fragment)?;
                }
                Poll::Ready(Ok(()))
            })
        })
        .await
    }

    /// Sends a node of this side, from `reader`, to its end.
    ///
    /// # Errors
    /// As [`write`](Self::write). The node's own failure is sent.
    pub(crate) async fn send_node(
        &self,
        call: u64,
        id: &str,
        mut reader: Reader,
    ) -> Result<(), Status> {
        let mut pieces = Vec::new();
        let end = loop {
            match reader.next_batch(&mut pieces).await {
                Ok(true) => self.write(call, id, &mut pieces).await?,
                Ok(false) if reader.ending() == Some(Ending::Final) => return Ok(()),
                Ok(false) => break Status::ok(),
                Err(status) => break status,
            }
        };
        self.with(|state| state.core.close(call, id, end));
        Ok(())
    }

    /// Writes what comes of a node to `writer`, until it is closed or the call ends.
    ///
    /// # Errors
    /// INVALID_ARGUMENT, RESOURCE_EXHAUSTED for what no node takes.
    pub(crate) async fn receive_node(
        &self,
        call: u64,
        id: &str,
        mut writer: Writer,
    ) -> Result<(), Status> {
        loop {
            match self.read(call, id).await {
                Ok(fragments) => {
                    for fragment in fragments {
                        let cost = cost(&fragment);
                        let (seq, piece) = Piece::from_checked(fragment);
                        match writer.write_at(seq, piece).await {
                            Ok(()) => self.consume(call, id, cost),
                            Err(status) if is_misuse(&status) => return Err(status),
                            // A node that is closed here takes no more; its readers
                            // have been told why.
                            Err(_) => return Ok(()),
                        }
                    }
                }
                Err(status) if status.is_ok() => {
                    writer.close();
                    return Ok(());
                }
                Err(status) => {
                    writer.fail(status);
                    return Ok(());
                }
            }
        }
    }
}

/// Whether a write failed for what was written.
fn is_misuse(status: &Status) -> bool {
    matches!(status.reason, Reason::SeqConflict | Reason::PastFinal | Reason::NodeFull)
}

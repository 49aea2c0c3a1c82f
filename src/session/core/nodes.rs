//! The nodes of a session's calls, as its program writes and reads them: inputs and
//! outputs alike.

use prost::Message as _;

use super::{bounds::check_fragment, session::Core};
use crate::wire::{NodeFragment, Status};

/// Whether a node takes another piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// It does.
    Free,
    /// Not now; [`Event::Writable`](super::Event::Writable) will say when.
    Full,
    /// The call is over, nothing will be sent.
    Gone,
}

impl Core {
    /// Whether a node takes another piece.
    pub fn room(&mut self, call: u64, id: &str) -> Room {
        let window = self.peer_limits.node_window_bytes;
        let Some(running) = self.calls.get_mut(&call).filter(|call| call.ending.is_none()) else {
            return Room::Gone;
        };
        match running.outgoing(id, window) {
            Ok(node) if node.has_room() => Room::Free,
            Ok(node) => {
                node.awaited = true;
                Room::Full
            }
            Err(_) => Room::Gone,
        }
    }

    /// Writes a piece to a node, whose id it has. Ask [`room`](Self::room)
    /// before. Where the call is over the piece is let go.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED for a piece that does not fit into a frame, or one
    /// node too many; INVALID_OUTPUT, of an input INVALID_REQUEST, for one that is
    /// past its bounds otherwise.
    pub fn write(&mut self, call: u64, fragment: NodeFragment) -> Result<(), Status> {
        let window = self.peer_limits.node_window_bytes;
        if let Some(running) = self.calls.get(&call) {
            check_fragment(running.role, &fragment)?;
        }
        let encoded = fragment.encoded_len();
        self.fits(encoded)?;
        if let Some(running) = self.calls.get_mut(&call).filter(|call| call.ending.is_none()) {
            running.outgoing(&fragment.id, window)?.write(fragment, encoded);
            self.line_up(call);
        }
        Ok(())
    }

    /// Ends a node beside its final fragment: without one, or with a failure.
    pub fn close(&mut self, call: u64, id: &str, status: Status) {
        let window = self.peer_limits.node_window_bytes;
        let running = self.calls.get_mut(&call).filter(|call| call.ending.is_none());
        if let Some(Ok(node)) = running.map(|running| running.outgoing(id, window)) {
            node.close(status);
            self.line_up(call);
        }
    }

    /// The reader of a node took pieces that cost this much. True where there now
    /// is a frame to send for it.
    pub fn consume(&mut self, call: u64, id: &str, cost: u64) -> bool {
        let window = self.limits.node_window_bytes;
        let is_due = self.calls.get_mut(&call).is_some_and(|running| {
            running.incoming(id, window).is_ok_and(|node| node.consume(cost))
        });
        if is_due {
            self.credits.push_back((call, id.to_owned()));
        }
        is_due
    }
}

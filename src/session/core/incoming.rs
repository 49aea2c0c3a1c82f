//! A node that this side reads: what may still come, and what was consumed.

use super::cost::cost;
use crate::wire::{NodeFragment, Reason, Status};

#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) id: String,
    window: u64,
    received: u64,
    consumed: u64,
    granted: u64,
    /// The final fragment is there, or the node was closed.
    ended: bool,
    /// It was closed; nothing may follow.
    pub(super) is_closed: bool,
    /// The credit is to be told.
    pub(super) untold: bool,
}

impl Incoming {
    pub(super) fn new(id: String, window: u32) -> Self {
        let window = u64::from(window);
        let (received, consumed) = (0, 0);
        Self {
            id,
            window,
            received,
            consumed,
            granted: window,
            ended: false,
            is_closed: false,
            untold: false,
        }
    }

    /// Counts a piece that came.
    ///
    /// # Errors
    /// Where the credit was used up before it.
    pub(super) fn arrived(&mut self, fragment: &NodeFragment) -> Result<(), Status> {
        if self.received >= self.granted {
            return Err(Status::of(
                Reason::InvalidFrame,
                format!("node {:?} was written past its credit of {} bytes", self.id, self.granted),
            ));
        }
        self.received += cost(fragment);
        if !fragment.continued && fragment.seq.is_none() {
            self.ended = true;
        }
        Ok(())
    }

    pub(super) fn close(&mut self) {
        self.ended = true;
        self.is_closed = true;
    }

    /// Counts what the reader took; true where the credit is now to be told.
    pub(super) fn consume(&mut self, cost: u64) -> bool {
        self.consumed = self.consumed.saturating_add(cost).min(self.received);
        let due = self.consumed + self.window;
        if self.ended || due < self.granted + self.window / 2 {
            return false;
        }
        self.granted = due;
        !std::mem::replace(&mut self.untold, true)
    }

    pub(super) fn granted(&self) -> u64 {
        self.granted
    }

    /// What came and was not consumed.
    pub(super) fn held(&self) -> u64 {
        self.received - self.consumed
    }
}

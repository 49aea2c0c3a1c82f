//! A node that this side writes: what waits for credit, and how it ends.

use std::collections::VecDeque;

use super::{cost::cost, limits::MAX_WAITING_NODE_BYTES};
use crate::wire::{NodeFragment, Status};

/// Where the end of a node is.
#[derive(Debug)]
enum End {
    /// It is still written.
    Open,
    /// Closed beside its final fragment; to be told once all of it is sent.
    Closing(Status),
    /// The end has been sent, or is in what waits.
    Ended,
}

/// A piece that waits for credit, or for its turn.
#[derive(Debug)]
struct Waiting {
    fragment: NodeFragment,
    cost: u64,
    /// How many bytes it takes in a frame.
    encoded: usize,
}

#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) id: String,
    waiting: VecDeque<Waiting>,
    waiting_cost: u64,
    sent: u64,
    credit: u64,
    end: End,
    /// Its writer waits.
    pub(super) awaited: bool,
}

impl Outgoing {
    pub(super) fn new(id: String, window: u32) -> Self {
        Self {
            id,
            waiting: VecDeque::new(),
            waiting_cost: 0,
            sent: 0,
            credit: window.into(),
            end: End::Open,
            awaited: false,
        }
    }

    /// Whether its writer may go on.
    pub(super) fn has_room(&self) -> bool {
        self.waiting_cost < MAX_WAITING_NODE_BYTES
    }

    /// Adds a piece, which takes so many bytes in a frame. After the end there is none.
    pub(super) fn write(&mut self, fragment: NodeFragment, encoded: usize) {
        if !matches!(self.end, End::Open) {
            return;
        }
        if !fragment.continued {
            self.end = End::Ended;
        }
        let cost = cost(&fragment);
        self.waiting_cost += cost;
        self.waiting.push_back(Waiting { fragment, cost, encoded });
    }

    pub(super) fn close(&mut self, status: Status) {
        if matches!(self.end, End::Open) {
            self.end = End::Closing(status);
        }
    }

    pub(super) fn grant(&mut self, bytes: u64) {
        self.credit = self.credit.max(bytes);
    }

    /// Whether something can leave now.
    pub(super) fn is_ready(&self) -> bool {
        match self.waiting.is_empty() {
            true => matches!(self.end, End::Closing(_)),
            false => self.sent < self.credit,
        }
    }

    /// Whether all of it has left.
    pub(super) fn is_drained(&self) -> bool {
        self.waiting.is_empty() && !matches!(self.end, End::Closing(_))
    }

    /// The next piece that credit allows, if it takes no more than `most` bytes of a
    /// frame; and how many it takes.
    pub(super) fn take(&mut self, most: usize) -> Option<(NodeFragment, usize)> {
        if self.sent >= self.credit || self.waiting.front()?.encoded > most {
            return None;
        }
        let Waiting { fragment, cost, encoded } = self.waiting.pop_front()?;
        self.waiting_cost -= cost;
        self.sent += cost;
        Some((fragment, encoded))
    }

    /// The end that is to be told, once everything before it has left.
    pub(super) fn take_end(&mut self) -> Option<Status> {
        if !self.waiting.is_empty() || !matches!(self.end, End::Closing(_)) {
            return None;
        }
        match std::mem::replace(&mut self.end, End::Ended) {
            End::Closing(status) => Some(status),
            End::Open | End::Ended => None,
        }
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.waiting_cost = 0;
        self.end = End::Ended;
    }

    pub(super) fn waiting_bytes(&self) -> u64 {
        self.waiting_cost
    }
}

//! Numbers, acknowledgements and the replay buffer: what makes frames survive a
//! broken connection, each once and in order.

use std::{collections::VecDeque, time::Instant};

use prost::Message as _;

use super::limits::{ACK_BYTES, ACK_DELAY, ACK_FRAMES, MAX_UNACKED_BYTES, MAX_UNACKED_FRAMES};
use crate::wire::pb::{Frame, frame::Body};
use crate::wire::{Reason, Status};

/// What becomes of a numbered frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The next one.
    New,
    /// It was here before.
    Repeated,
    /// Others before it are missing.
    Gap,
}

#[derive(Debug)]
struct Sent {
    number: u64,
    body: Body,
    bytes: usize,
}

/// Both directions of one side's numbering.
#[derive(Debug)]
pub(super) struct Link {
    /// The number of the next new frame.
    next: u64,
    /// Sent and not acknowledged, by number.
    unacked: VecDeque<Sent>,
    unacked_bytes: usize,
    /// How many of `unacked` were sent over this connection.
    replayed: usize,
    received: u64,
    /// The last number that the other side was told.
    told: u64,
    untold_frames: u32,
    untold_bytes: usize,
    tell_by: Option<Instant>,
}

impl Link {
    pub(super) fn new() -> Self {
        Self {
            next: 1,
            unacked: VecDeque::new(),
            unacked_bytes: 0,
            replayed: 0,
            received: 0,
            told: 0,
            untold_frames: 0,
            untold_bytes: 0,
            tell_by: None,
        }
    }

    /// The highest number received.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Begins a connection: what the other side has is dropped, the rest is sent
    /// again.
    pub(super) fn attach(&mut self, received: u64) -> Result<(), Status> {
        self.acknowledged(received)?;
        self.replayed = 0;
        // The opening exchange has told it.
        self.told = self.received;
        self.untold_frames = 0;
        self.untold_bytes = 0;
        self.tell_by = None;
        Ok(())
    }

    /// Drops what the other side has.
    pub(super) fn acknowledged(&mut self, number: u64) -> Result<(), Status> {
        if number >= self.next {
            return Err(Status::of(
                Reason::InvalidFrame,
                format!("frame {number} was acknowledged, {} is the last one sent", self.next - 1),
            ));
        }
        while let Some(sent) = self.unacked.front().filter(|sent| sent.number <= number) {
            self.unacked_bytes -= sent.bytes;
            self.unacked.pop_front();
            self.replayed = self.replayed.saturating_sub(1);
        }
        Ok(())
    }

    /// Takes note of a frame that came.
    pub(super) fn arrived(&mut self, number: u64, bytes: usize, now: Instant) -> Arrival {
        if number > self.received + 1 {
            return Arrival::Gap;
        }
        self.untold_frames += 1;
        self.untold_bytes += bytes;
        self.tell_by.get_or_insert(now + ACK_DELAY);
        if number <= self.received {
            // Who repeats it does not know that it is here.
            self.told = 0;
            return Arrival::Repeated;
        }
        self.received = number;
        Arrival::New
    }

    /// When the other side must be told at the latest.
    pub(super) fn tell_by(&self) -> Option<Instant> {
        self.tell_by
    }

    /// Whether the other side must be told now, with a frame of its own.
    pub(super) fn must_tell(&self, now: Instant) -> bool {
        self.untold_frames >= ACK_FRAMES
            || self.untold_bytes >= ACK_BYTES
            || self.tell_by.is_some_and(|by| by <= now)
    }

    /// Whether new frames may be sent.
    pub(super) fn has_room(&self) -> bool {
        self.unacked_bytes < MAX_UNACKED_BYTES && self.unacked.len() < MAX_UNACKED_FRAMES
    }

    /// The next frame to send again, if there is one.
    pub(super) fn replay(&mut self) -> Option<Frame> {
        let sent = self.unacked.get(self.replayed)?;
        let (number, body) = (sent.number, sent.body.clone());
        self.replayed += 1;
        Some(self.sealed(number, body))
    }

    /// Numbers a new frame and keeps it. Everything kept must have been sent.
    pub(super) fn send(&mut self, body: Body) -> Frame {
        debug_assert_eq!(self.replayed, self.unacked.len());
        let number = self.next;
        self.next += 1;
        let frame = self.sealed(number, body.clone());
        let bytes = frame.encoded_len();
        self.unacked_bytes += bytes;
        self.unacked.push_back(Sent { number, body, bytes });
        self.replayed += 1;
        frame
    }

    /// A frame without a number, which is never sent again.
    pub(super) fn send_bare(&mut self, body: Body) -> Frame {
        self.sealed(0, body)
    }

    fn sealed(&mut self, number: u64, body: Body) -> Frame {
        let ack = if self.told < self.received { self.received } else { 0 };
        self.told = self.received;
        self.untold_frames = 0;
        self.untold_bytes = 0;
        self.tell_by = None;
        Frame { number, ack, body: Some(body) }
    }

    /// Bytes kept for a resumption.
    pub(super) fn kept_bytes(&self) -> usize {
        self.unacked_bytes
    }

    /// Lets go of everything.
    pub(super) fn clear(&mut self) {
        self.unacked.clear();
        self.unacked_bytes = 0;
        self.replayed = 0;
    }
}

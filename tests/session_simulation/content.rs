//! What the nodes of a simulated session hold: it follows from the seed, so that a
//! reader knows every byte of what its writer writes.

use super::random::Random;

/// The largest piece; larger than the smallest window.
pub(crate) const LARGEST_PIECE: u64 = 9_000;

/// Who writes a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    Caller,
    Host,
}

/// All pieces of one node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Content(u64);

impl Content {
    pub(crate) fn of(seed: u64, call: u64, writer: Writer, port: &str) -> Self {
        let port = port.bytes().map(u64::from);
        let parts = [seed, call, writer as u64].into_iter().chain(port);
        Self(parts.fold(0, |state, part| Random::new(state ^ part).next()))
    }

    /// How many pieces there are.
    pub(crate) fn pieces(self) -> u64 {
        Random::new(self.0).between(1, 40)
    }

    /// The piece of a place, from 0.
    pub(crate) fn piece(self, place: u64) -> Vec<u8> {
        let mut random = Random::new(Random::new(self.0 ^ (place + 1)).next());
        let length = if random.one_in(4) { random.between(0, LARGEST_PIECE) } else { 16 };
        let mut piece = Vec::with_capacity(length as usize + 8);
        while piece.len() < length as usize {
            piece.extend_from_slice(&random.next().to_le_bytes());
        }
        piece.truncate(length as usize);
        piece
    }
}

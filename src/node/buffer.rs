//! The pure core of a node: fragments in any order go in, one exact order comes
//! out. No clock, no lock, no waiting.

use std::collections::{BTreeMap, VecDeque};

use super::{error::NodeError, piece::Piece};
use crate::wire::Status;
use crate::wire::pb::node_fragment::Payload;

/// How many bytes a node holds for its slowest reader before its writer waits,
/// and how many it keeps of what all have read.
pub const DEFAULT_CAPACITY: usize = 1 << 20;

/// How many pieces may arrive before the one that is next. What is held ahead is
/// bounded by the node's capacity in bytes, too.
pub const MAX_EARLY_PIECES: usize = 16_384;

/// How a node ended, beside its final fragment.
#[derive(Debug, Clone)]
enum End {
    Closed,
    Failed(Status),
}

/// What a reader at some place finds.
#[derive(Debug)]
pub(super) enum Next<'a> {
    /// The piece, and how much has been read once it is taken.
    Piece(&'a Piece, u64),
    /// Nothing yet.
    Wait,
    /// The logical end.
    Final,
    /// The end, with no final fragment.
    Closed,
    /// It ends with this status.
    Failed(Status),
    /// That place is no longer kept.
    Trimmed(NodeError),
}

/// The fragments of one node. Costs are in bytes, see [`Piece::cost`].
#[derive(Debug)]
pub(super) struct Buffer {
    /// In order, from `first`; with each the cost of everything up to its end.
    kept: VecDeque<(Piece, u64)>,
    /// The seq of the first kept piece.
    first: u32,
    /// The cost of everything before `first`.
    trimmed: u64,
    /// Arrived before the one that is next.
    early: BTreeMap<u32, Piece>,
    early_cost: usize,
    highest: Option<u32>,
    last: Option<u32>,
    end: Option<End>,
    has_value: bool,
    /// What a chunk without a media type is.
    media_type: String,
    capacity: usize,
    holds: Holds,
    when_read: WhenRead,
    /// Whether a piece named its place.
    has_places: bool,
}

/// What may be written to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Values, and references to where one is.
    Anything,
    /// Values alone: whoever reads the node cannot go anywhere else.
    Values,
}

/// What happens to pieces once every reader that there is has read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenRead {
    /// As many as the capacity holds are kept for readers that come later.
    Keep,
    /// They are let go: nobody else will ask for them. Pieces that name their place
    /// are kept all the same, so that a different one at that place is told.
    LetGo,
}

impl Buffer {
    pub(super) fn new(capacity: usize, media_type: String) -> Self {
        Self {
            kept: VecDeque::new(),
            first: 0,
            trimmed: 0,
            early: BTreeMap::new(),
            early_cost: 0,
            highest: None,
            last: None,
            end: None,
            has_value: false,
            media_type,
            capacity,
            holds: Holds::Anything,
            when_read: WhenRead::Keep,
            has_places: false,
        }
    }

    pub(super) fn set_when_read(&mut self, when_read: WhenRead) {
        self.when_read = when_read;
    }

    pub(super) fn set_holds(&mut self, holds: Holds) {
        self.holds = holds;
    }

    /// A closed buffer of pieces that are in order already.
    pub(super) fn of_pieces(pieces: Vec<Piece>) -> Self {
        let mut buffer = Self::new(usize::MAX, String::new());
        buffer.highest = (pieces.len() as u32).checked_sub(1);
        let ended = pieces.last().is_some_and(|piece| !piece.continued);
        buffer.last = buffer.highest.filter(|_| ended);
        pieces.into_iter().for_each(|piece| buffer.keep(piece));
        buffer.end = Some(End::Closed);
        buffer
    }

    /// Takes a piece at its place, or at the place after the highest so far.
    /// A repeated piece is no error and changes nothing.
    ///
    /// # Errors
    /// Readers are told of each as the failure of the node, but for
    /// [`NodeError::Closed`], and but where the node is complete.
    pub(super) fn insert(&mut self, seq: Option<u32>, piece: Piece) -> Result<(), NodeError> {
        match &self.end {
            // What is past the end is told apart from what comes after the close.
            Some(End::Closed) if self.is_complete() => {}
            Some(End::Closed) => return Err(NodeError::Closed),
            Some(End::Failed(status)) => return Err(NodeError::Failed(status.clone())),
            None => {}
        }
        self.place(seq, piece).inspect_err(|error| self.fail(error.clone().into()))
    }

    fn place(&mut self, seq: Option<u32>, piece: Piece) -> Result<(), NodeError> {
        if self.holds == Holds::Values {
            piece.check_here()?;
        }
        self.has_places |= seq.is_some();
        let seq = match (seq, self.highest) {
            (Some(seq), _) => seq,
            (None, None) => 0,
            (None, Some(highest)) => match (highest.checked_add(1), self.last) {
                (Some(seq), _) => seq,
                // There is no place after it, whatever that would be called.
                (None, Some(last)) => return Err(NodeError::PastFinal { seq: highest, last }),
                (None, None) => return Err(NodeError::Full(highest)),
            },
        };
        if let Some(last) = self.last.filter(|last| seq > *last) {
            return Err(NodeError::PastFinal { seq, last });
        }
        if let Some(known) = self.at(seq) {
            let repeated = known.is_repeated_by(&piece);
            return if repeated { Ok(()) } else { Err(NodeError::SeqConflict(seq)) };
        }
        if seq < self.first {
            return Ok(());
        }
        if !piece.continued {
            if let Some(highest) = self.highest.filter(|highest| *highest > seq) {
                return Err(NodeError::PastFinal { seq: highest, last: seq });
            }
            self.last = Some(seq);
        }
        self.highest = self.highest.max(Some(seq));
        if seq == self.next_seq() {
            self.keep(piece);
            while let Some(piece) = self.early.remove(&self.next_seq()) {
                self.early_cost -= piece.cost();
                self.keep(piece);
            }
            return Ok(());
        }
        self.early_cost += piece.cost();
        if self.early.len() >= MAX_EARLY_PIECES || self.early_cost > self.capacity {
            return Err(NodeError::Full(self.next_seq()));
        }
        self.early.insert(seq, piece);
        Ok(())
    }

    /// Appends the piece that is next, with the media type that holds there.
    fn keep(&mut self, mut piece: Piece) {
        if let Payload::Chunk(chunk) = &mut piece.payload {
            if chunk.media_type().is_empty() {
                if !self.media_type.is_empty() {
                    chunk.set_media_type(&self.media_type);
                }
            } else if !chunk.is_null() && self.media_type != chunk.media_type() {
                chunk.media_type().clone_into(&mut self.media_type);
            }
        }
        self.has_value |= !piece.is_null();
        let written = self.written() + piece.cost() as u64;
        self.kept.push_back((piece, written));
    }

    fn at(&self, seq: u32) -> Option<&Piece> {
        match seq.checked_sub(self.first) {
            Some(place) => match self.kept.get(place as usize) {
                Some((piece, _)) => Some(piece),
                None => self.early.get(&seq),
            },
            None => None,
        }
    }

    /// What a reader that wants `seq` finds.
    pub(super) fn next(&self, seq: u32) -> Next<'_> {
        let Some(place) = seq.checked_sub(self.first) else {
            return Next::Trimmed(NodeError::Trimmed { wanted: seq, oldest: self.first });
        };
        if let Some((piece, read)) = self.kept.get(place as usize) {
            return Next::Piece(piece, *read);
        }
        if self.last.is_some_and(|last| seq > last) {
            return Next::Final;
        }
        match &self.end {
            None => Next::Wait,
            Some(End::Closed) => Next::Closed,
            Some(End::Failed(status)) => Next::Failed(status.clone()),
        }
    }

    /// Ends the writing. Over a gap the node fails with DATA_LOSS.
    pub(super) fn close(&mut self) {
        if self.end.is_some() {
            return;
        }
        let complete = self.highest.is_none_or(|highest| highest < self.next_seq());
        if complete {
            self.end = Some(End::Closed);
        } else {
            self.fail(NodeError::Gap(self.next_seq()).into());
        }
    }

    /// Ends the writing with a status. A node whose whole content has been
    /// written is complete, and stays so.
    pub(super) fn fail(&mut self, status: Status) {
        self.early.clear();
        self.early_cost = 0;
        if self.end.is_none() {
            self.end = Some(End::Failed(status));
        }
    }

    /// Whether a piece in order carries a value.
    pub(super) fn has_value(&self) -> bool {
        self.has_value
    }

    /// Whether the final fragment and all before it are there.
    pub(super) fn is_complete(&self) -> bool {
        self.last.is_some_and(|last| last < self.next_seq())
    }

    /// Whether a piece that is next has to wait for a reader at `read`.
    pub(super) fn is_full(&self, read: u64) -> bool {
        self.end.is_none() && self.written().saturating_sub(read) >= self.capacity as u64
    }

    /// Whether a piece at `seq` would be next, now.
    pub(super) fn is_next(&self, seq: Option<u32>) -> bool {
        seq.is_none_or(|seq| seq == self.next_seq())
    }

    /// Lets go of what everybody has read (`read` is the least), down to what is
    /// kept of it.
    pub(super) fn trim(&mut self, read: u64) {
        let kept = match self.when_read {
            WhenRead::LetGo if !self.has_places => 0,
            WhenRead::LetGo | WhenRead::Keep => self.capacity as u64,
        };
        while self.written() - self.trimmed > kept {
            match self.kept.front() {
                Some((_, end)) if *end <= read => {
                    self.trimmed = *end;
                    self.first += 1;
                    self.kept.pop_front();
                }
                _ => break,
            }
        }
    }

    /// The cost of everything before `seq`, as far as it is written.
    pub(super) fn read_before(&self, seq: u32) -> u64 {
        match seq.checked_sub(self.first) {
            None | Some(0) => self.trimmed,
            Some(place) => {
                self.kept.get(place as usize - 1).map_or(self.written(), |(_, end)| *end)
            }
        }
    }

    /// The cost of everything in order so far.
    pub(super) fn written(&self) -> u64 {
        self.kept.back().map_or(self.trimmed, |(_, end)| *end)
    }

    /// The cost of everything that is kept.
    pub(super) fn held_bytes(&self) -> usize {
        let kept = usize::try_from(self.written() - self.trimmed).unwrap_or(usize::MAX);
        kept.saturating_add(self.early_cost)
    }

    /// The seq after the last piece that is there without a gap.
    pub(super) fn next_seq(&self) -> u32 {
        self.first.saturating_add(self.kept.len() as u32)
    }
}

/// Puts all fragments of a node into order at once. A chunk without a media type
/// gets its predecessor's, the first one `media_type`.
///
/// # Errors
/// Where two contradict each other, or one is missing before the end.
pub fn in_order(
    media_type: &str,
    fragments: impl IntoIterator<Item = (Option<u32>, Piece)>,
) -> Result<Vec<Piece>, NodeError> {
    let mut buffer = Buffer::new(usize::MAX, media_type.to_owned());
    for (seq, piece) in fragments {
        buffer.place(seq, piece)?;
    }
    if buffer.early.is_empty() && buffer.last.is_none_or(|last| last < buffer.next_seq()) {
        Ok(buffer.kept.into_iter().map(|(piece, _)| piece).collect())
    } else {
        Err(NodeError::Gap(buffer.next_seq()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Chunk;

    fn piece(text: &str, continued: bool) -> Piece {
        Piece { payload: Payload::Chunk(Chunk::text(text)), continued }
    }

    fn buffer() -> Buffer {
        Buffer::new(DEFAULT_CAPACITY, String::new())
    }

    fn texts(buffer: &Buffer) -> Vec<String> {
        let mut texts = vec![];
        while let Next::Piece(piece, _) = buffer.next(texts.len() as u32) {
            let data = piece.chunk().expect("chunk").data();
            texts.push(String::from_utf8_lossy(data).into_owned());
        }
        texts
    }

    #[test]
    fn any_arrival_order_reads_as_one_order() {
        let mut buffer = buffer();
        for (seq, text, continued) in
            [(2, "c", false), (0, "a", true), (0, "a", true), (1, "b", true), (2, "c", false)]
        {
            buffer.insert(Some(seq), piece(text, continued)).expect("fits");
        }
        assert_eq!(texts(&buffer), ["a", "b", "c"]);
        assert!(matches!(buffer.next(3), Next::Final));
    }

    #[test]
    fn pieces_without_seq_follow_the_highest() {
        let mut buffer = buffer();
        buffer.insert(Some(1), piece("b", true)).expect("early");
        buffer.insert(None, piece("c", true)).expect("after");
        buffer.insert(Some(0), piece("a", true)).expect("fills");
        assert_eq!(texts(&buffer), ["a", "b", "c"]);
    }

    #[test]
    fn misuse_fails_the_node_with_its_own_reason() {
        let check = |writes: &[(u32, &str, bool)], expected: NodeError| {
            let mut buffer = buffer();
            let mut result = Ok(());
            for (seq, text, continued) in writes {
                result = buffer.insert(Some(*seq), piece(text, *continued));
            }
            assert_eq!(result, Err(expected.clone()));
            let expected = Status::from(expected);
            let end = texts(&buffer).len() as u32;
            assert!(matches!(buffer.next(end), Next::Failed(status) if status == expected));
        };
        check(&[(0, "a", true), (0, "b", true)], NodeError::SeqConflict(0));
        check(&[(3, "a", true), (3, "b", true)], NodeError::SeqConflict(3));
        check(&[(1, "b", false), (2, "c", true)], NodeError::PastFinal { seq: 2, last: 1 });
        check(&[(2, "c", true), (1, "b", false)], NodeError::PastFinal { seq: 2, last: 1 });
        check(&[(2, "c", false), (1, "b", false)], NodeError::PastFinal { seq: 2, last: 1 });
    }

    #[test]
    fn closing_over_a_gap_is_data_loss() {
        let mut buffer = buffer();
        buffer.insert(Some(0), piece("a", true)).expect("fits");
        buffer.insert(Some(2), piece("c", false)).expect("early");
        buffer.close();
        let gap = Status::from(NodeError::Gap(1));
        assert!(matches!(buffer.next(1), Next::Failed(status) if status == gap));
    }

    #[test]
    fn what_comes_early_is_bounded_in_number_and_bytes() {
        let mut many = Buffer::new(usize::MAX, String::new());
        let mut result = Ok(());
        for seq in 1..=MAX_EARLY_PIECES as u32 + 1 {
            result = many.insert(Some(seq), piece("", true));
        }
        assert_eq!(result, Err(NodeError::Full(0)));
        let mut large = Buffer::new(100, String::new());
        assert_eq!(large.insert(Some(1), piece(&"x".repeat(50), true)), Err(NodeError::Full(0)));
    }

    #[test]
    fn a_media_type_holds_until_the_next_one() {
        let mut buffer = Buffer::new(DEFAULT_CAPACITY, "text/x-port".into());
        let bare = || Piece::more(Chunk { metadata: None, ..Chunk::text("x") });
        buffer.insert(Some(1), Piece::more(Chunk::new("image/png", "y"))).expect("early");
        buffer.insert(Some(2), bare()).expect("early");
        buffer.insert(Some(0), bare()).expect("fits");
        let types: Vec<_> = (0..3)
            .map(|seq| match buffer.next(seq) {
                Next::Piece(piece, _) => piece.chunk().expect("chunk").media_type().to_owned(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(types, ["text/x-port", "image/png", "image/png"]);
        buffer.insert(Some(2), bare()).expect("a repeat that leaves the type off");
    }

    #[test]
    fn what_all_have_read_is_trimmed_past_the_capacity() {
        let mut buffer = Buffer::new(200, String::new());
        for _ in 0..5 {
            buffer.insert(None, piece("0123456789", true)).expect("fits");
        }
        buffer.trim(buffer.read_before(4));
        assert!(matches!(buffer.next(0), Next::Trimmed(_)));
        assert!(matches!(buffer.next(4), Next::Piece(..)));
        buffer.insert(Some(0), piece("anything", true)).expect("a repeat of what is gone");
    }
}

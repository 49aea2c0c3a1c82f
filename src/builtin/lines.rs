//! Bytes as they come → lines of text. Pure.

use bytes::{Buf as _, BytesMut};

/// The longest line, in bytes; a longer one is split there.
pub(super) const MAX_LINE_BYTES: usize = 64 * 1024;

/// Splits what a program prints into lines, without their ends (`\n` or `\r\n`).
/// What is not UTF-8 is replaced by U+FFFD.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pending: BytesMut,
    /// How much of `pending` is known to hold no line end.
    searched: usize,
}

impl Lines {
    /// Takes more bytes. [`next`](Self::next) has the lines that are whole now.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole line.
    pub(super) fn next(&mut self) -> Option<String> {
        let window = self.pending.len().min(MAX_LINE_BYTES + 1);
        let found = self.pending[self.searched..window].iter().position(|byte| *byte == b'\n');
        if let Some(at) = found {
            let line = self.take(self.searched + at);
            self.pending.advance(1);
            return Some(line);
        }
        self.searched = window;
        if self.pending.len() <= MAX_LINE_BYTES {
            return None;
        }
        Some(self.take(character_start(&self.pending, MAX_LINE_BYTES)))
    }

    /// What follows the last line end, if anything does.
    pub(super) fn rest(&mut self) -> Option<String> {
        let all = self.pending.len();
        (all > 0).then(|| self.take(all))
    }

    fn take(&mut self, length: usize) -> String {
        self.searched = 0;
        let line = self.pending.split_to(length);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        String::from_utf8_lossy(line).into_owned()
    }
}

/// The last place at or before `at` where a UTF-8 character may begin.
fn character_start(bytes: &[u8], at: usize) -> usize {
    let continues = |at: &usize| bytes[*at] & 0b1100_0000 == 0b1000_0000;
    (at.saturating_sub(3)..=at).rev().find(|at| !continues(at)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut all = vec![];
        for piece in pieces {
            lines.push(piece);
            all.extend(std::iter::from_fn(|| lines.next()));
        }
        all.extend(lines.rest());
        all
    }

    #[test]
    fn lines_are_whole_however_they_arrive() {
        let check = |pieces: &[&[u8]], expected: &[&str]| assert_eq!(lines_of(pieces), expected);
        check(&[b"a\nb\n"], &["a", "b"]);
        check(&[b"a", b"b\r", b"\nc"], &["ab", "c"]);
        check(&[b"\n\n"], &["", ""]);
        check(&[b"caf\xc3", b"\xa9\n"], &["café"]);
        check(&[b"\xff\n"], &["\u{fffd}"]);
        check(&[], &[]);
    }

    #[test]
    fn a_long_line_is_split_at_a_character() {
        let long = "é".repeat(MAX_LINE_BYTES);
        let lines = lines_of(&[b"x", long.as_bytes(), b"\nend"]);
        assert!(lines.iter().all(|line| line.len() <= MAX_LINE_BYTES));
        assert_eq!(lines[..lines.len() - 1].concat(), format!("x{long}"));
        assert_eq!(lines.last().map(String::as_str), Some("end"));
    }
}

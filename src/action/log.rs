//! Narration: what an action says about its run, beside its outputs.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

pub use crate::wire::pb::{LogEntry, LogLevel};

/// The longest text of one entry, in bytes; a longer one is cut.
pub const MAX_ENTRY_BYTES: usize = 64 * 1024;
/// The longest channel of one entry; a longer one is cut.
pub const MAX_CHANNEL_CHARS: usize = 255;
/// How much is held for whoever listens; past it the oldest entries go.
pub const MAX_HELD_BYTES: usize = 256 * 1024;
/// How many entries are held.
pub const MAX_HELD_ENTRIES: usize = 4096;

impl LogEntry {
    /// Something for the user to read.
    pub fn info(text: impl Into<String>) -> Self {
        Self { level: LogLevel::Info as i32, text: text.into(), ..Self::default() }
    }
}

/// The entries of one run that nobody has taken yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Log(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    kept: KeptLog,
    closed: bool,
    waiting: Option<Waker>,
}

/// Entries up to [`MAX_HELD_BYTES`] and [`MAX_HELD_ENTRIES`]: past them the oldest
/// go, and a notice stands in their place.
#[derive(Debug, Default)]
pub struct KeptLog {
    entries: VecDeque<LogEntry>,
    bytes: usize,
    dropped: u64,
}

impl KeptLog {
    /// Adds an entry, the newest.
    pub fn add(&mut self, entry: LogEntry) {
        self.bytes += size(&entry);
        self.entries.push_back(entry);
        while self.bytes > MAX_HELD_BYTES || self.entries.len() > MAX_HELD_ENTRIES {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= size(&oldest);
            self.dropped += 1;
        }
    }

    /// Takes the oldest entry. Where older ones had to go, an entry says so first.
    pub fn take(&mut self) -> Option<LogEntry> {
        if self.dropped > 0 {
            let text = format!("[{} earlier log entries were dropped]\n", self.dropped);
            self.dropped = 0;
            return Some(LogEntry { level: LogLevel::Warn as i32, ..LogEntry::info(text) });
        }
        let entry = self.entries.pop_front()?;
        self.bytes -= size(&entry);
        Some(entry)
    }
}

fn size(entry: &LogEntry) -> usize {
    entry.text.len() + entry.channel.len()
}

impl Log {
    /// Adds an entry; never waits. After the run has ended nothing is added.
    pub(super) fn add(&self, mut entry: LogEntry) {
        cut(&mut entry.text);
        // No name is longer.
        if let Some((end, _)) = entry.channel.char_indices().nth(MAX_CHANNEL_CHARS) {
            entry.channel.truncate(end);
        }
        let mut held = self.0.lock();
        if held.closed {
            return;
        }
        held.kept.add(entry);
        if let Some(waker) = held.waiting.take() {
            waker.wake();
        }
    }

    /// Ends the log.
    pub(super) fn close(&self) {
        self.0.lock().closed = true;
    }

    /// The oldest entry that nobody has taken. Where older ones had to go, an
    /// entry says so first.
    pub(super) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<LogEntry> {
        let mut held = self.0.lock();
        match held.kept.take() {
            Some(entry) => Poll::Ready(entry),
            None => {
                held.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn cut(text: &mut String) {
    const NOTICE: &str = "… [cut]";
    if text.len() > MAX_ENTRY_BYTES {
        let mut end = MAX_ENTRY_BYTES - NOTICE.len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(NOTICE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_entry_holds_is_cut() {
        let log = Log::default();
        let channel = "é".repeat(MAX_CHANNEL_CHARS + 1);
        log.add(LogEntry { channel, ..LogEntry::info("é".repeat(MAX_ENTRY_BYTES)) });
        let Poll::Ready(entry) = log.poll_next(&mut Context::from_waker(Waker::noop())) else {
            panic!("nothing was added")
        };
        assert_eq!(entry.channel.chars().count(), MAX_CHANNEL_CHARS);
        assert!(entry.text.len() <= MAX_ENTRY_BYTES && entry.text.ends_with("[cut]"));
    }
}

//! The log entries of a call that wait to be sent. They never make the call
//! wait: the oldest go.

use std::collections::VecDeque;

use super::limits::{MAX_LOG_ENTRY_BYTES, MAX_WAITING_LOG_BYTES};
use crate::wire::pb::LogEntry;

/// Counted for every entry, so that empty ones are bounded too.
const FIXED_BYTES: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Narration {
    entries: VecDeque<LogEntry>,
    bytes: usize,
    displaced: u32,
}

impl Narration {
    pub(super) fn add(&mut self, entry: LogEntry) {
        if size(&entry) > MAX_LOG_ENTRY_BYTES {
            self.displaced = self.displaced.saturating_add(1);
            return;
        }
        self.bytes += size(&entry);
        self.entries.push_back(entry);
        while self.bytes > MAX_WAITING_LOG_BYTES && self.entries.len() > 1 {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= size(&oldest);
            self.displaced = self.displaced.saturating_add(1);
        }
    }

    /// The oldest entry, and how many were lost before it.
    pub(super) fn take(&mut self) -> Option<(LogEntry, u32)> {
        let entry = self.entries.pop_front()?;
        self.bytes -= size(&entry);
        Some((entry, std::mem::take(&mut self.displaced)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    pub(super) fn waiting_bytes(&self) -> usize {
        self.bytes
    }
}

fn size(entry: &LogEntry) -> usize {
    FIXED_BYTES + entry.text.len() + entry.channel.len()
}

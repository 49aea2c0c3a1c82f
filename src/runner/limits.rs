//! How long a call may take and how much it may put out.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use tokio::time::Instant;

use crate::wire::time_limit::deadline_after;

/// How long a call may take.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(300);
/// How many bytes a call may put out over its mapped ports, pictures and sound
/// apart.
pub const DEFAULT_MAX_OUTPUT_BYTES: usize = 128 * 1024;
/// How many bytes of pictures and sound a call may put out.
pub const DEFAULT_MAX_MEDIA_BYTES: usize = 8 * 1024 * 1024;

/// How many bytes all calls of a round may put out together. They stand in the
/// answer up to three times; where it is pictures, as base64 in two of them, all of
/// that fits into [`DEFAULT_MAX_ANSWER_BYTES`].
pub const DEFAULT_MAX_ROUND_BYTES: usize = 16 * 1024 * 1024;

/// How large the answer to a round may be: with it around them, still one message of
/// 64 MiB.
pub const DEFAULT_MAX_ANSWER_BYTES: usize = 63 * 1024 * 1024;

/// How long the logs of a round may be together, in bytes as JSON has them. They stand
/// in the answer twice.
pub(super) const MAX_ROUND_LOG_BYTES: usize = 2 * 1024 * 1024;

/// The limits of each call of a round.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How long it may take, from the start of the round.
    pub call_timeout: Duration,
    /// When it ends at the latest, whatever `call_timeout` says.
    pub deadline: Option<Instant>,
    /// Bytes over mapped ports, pictures and sound apart.
    pub max_output_bytes: usize,
    /// Bytes of pictures and sound.
    pub max_media_bytes: usize,
    /// Bytes of either kind over all calls of the round.
    pub max_round_bytes: usize,
    /// Bytes of the whole answer, as it is written. What comes of a call that does not
    /// fit is left out of it.
    pub max_answer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call_timeout: DEFAULT_CALL_TIMEOUT,
            deadline: None,
            max_output_bytes: DEFAULT_MAX_OUTPUT_BYTES,
            max_media_bytes: DEFAULT_MAX_MEDIA_BYTES,
            max_round_bytes: DEFAULT_MAX_ROUND_BYTES,
            max_answer_bytes: DEFAULT_MAX_ANSWER_BYTES,
        }
    }
}

impl Limits {
    /// When a call that begins now ends at the latest. A timeout past
    /// [`LONGEST`](crate::wire::time_limit::LONGEST) is no limit.
    pub fn end(&self) -> Option<Instant> {
        let timeout = deadline_after(self.call_timeout);
        match (timeout, self.deadline) {
            (Some(timeout), Some(deadline)) => Some(timeout.min(deadline)),
            (timeout, deadline) => timeout.or(deadline),
        }
    }
}

/// What the calls of a round may still put out together.
#[derive(Debug)]
pub(super) struct Room(AtomicUsize);

impl Room {
    pub(super) fn new(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }

    /// Takes some of it; false, and nothing is taken, where that is not left.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let left = |left: usize| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, left).is_ok()
    }

    /// Gives back what a call took whose outputs are let go.
    pub(super) fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::AcqRel);
    }
}

//! The bounds of a session: what each side can take, and what is kept for it.

use std::time::Duration;

use crate::wire::{Reason, Status, pb};

/// Bytes of a node that may be under way, unless the reader says otherwise.
pub const DEFAULT_NODE_WINDOW_BYTES: u32 = 256 * 1024;
/// Calls of one side that run at once, unless the other side says otherwise.
pub const DEFAULT_MAX_CALLS: u32 = 1024;
/// The largest frame, unless the receiver says otherwise.
pub const DEFAULT_MAX_FRAME_BYTES: u32 = 16 << 20;
/// How long a session is kept without a connection.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(60);

/// The longest id, of a node or a call, in characters.
pub const MAX_ID_CHARS: usize = 255;
/// Nodes that one side writes in one call: more ports than any schema has.
pub const MAX_CALL_NODES: usize = 256;
/// Actions that one session publishes.
pub const MAX_PUBLISHED: usize = 1024;
/// Control frames that wait to be sent; past it the other side does not read.
pub const MAX_WAITING_CONTROL: usize = 4096;
/// Bytes of answers that wait to be sent, which the other side calls forth; past it
/// it does not read.
pub const MAX_WAITING_ANSWER_BYTES: usize = 4 << 20;
/// Names that one withdrawal holds, so that it fits into the smallest frame limit.
pub const MAX_WITHDRAWN: usize = 512;
/// Control frames that were sent and not acknowledged; further ones wait.
pub const MAX_UNACKED_FRAMES: usize = 16_384;
/// Bytes that were sent and not acknowledged. Past it nothing new is sent, so
/// that at most this and one frame is kept for a resumption.
pub const MAX_UNACKED_BYTES: usize = 16 << 20;
/// Bytes of a node that wait for credit here; past it its writer waits.
pub const MAX_WAITING_NODE_BYTES: u64 = 64 * 1024;
/// Bytes of a call's log entries that wait to be sent; past it the oldest go.
pub const MAX_WAITING_LOG_BYTES: usize = 64 * 1024;
/// The largest log entry; it fits into the smallest frame limit.
pub const MAX_LOG_ENTRY_BYTES: usize = 128 * 1024;
/// How much of small fragments, encoded, one frame gathers. Large enough to make
/// the cost of a frame vanish, small enough that another call is not kept waiting.
pub const GATHERED_BYTES: usize = 32 * 1024;
/// How many small fragments one frame gathers.
pub const GATHERED_FRAGMENTS: usize = 256;

/// Acknowledged at the latest after this long …
pub const ACK_DELAY: Duration = Duration::from_millis(25);
/// … or this many frames …
pub const ACK_FRAMES: u32 = 32;
/// … or this many bytes.
pub const ACK_BYTES: usize = 64 * 1024;

/// When nothing came for this long, the other side is asked.
pub const PING_AFTER: Duration = Duration::from_secs(20);
/// When nothing came for this long, the connection is broken.
pub const BROKEN_AFTER: Duration = Duration::from_secs(40);

/// What one side can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a node that may be under way.
    pub node_window_bytes: u32,
    /// Calls of the other side that run at once.
    pub max_calls: u32,
    /// The largest frame, encoded, in bytes.
    pub max_frame_bytes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            node_window_bytes: DEFAULT_NODE_WINDOW_BYTES,
            max_calls: DEFAULT_MAX_CALLS,
            max_frame_bytes: DEFAULT_MAX_FRAME_BYTES,
        }
    }
}

impl TryFrom<Option<pb::SessionLimits>> for Limits {
    type Error = Status;

    fn try_from(limits: Option<pb::SessionLimits>) -> Result<Self, Status> {
        let pb::SessionLimits { node_window_bytes, max_calls, max_frame_bytes } =
            limits.unwrap_or_default();
        let or = |value: u32, default: u32| if value == 0 { default } else { value };
        let limits = Self {
            node_window_bytes: or(node_window_bytes, DEFAULT_NODE_WINDOW_BYTES),
            max_calls: or(max_calls, DEFAULT_MAX_CALLS),
            max_frame_bytes: or(max_frame_bytes, DEFAULT_MAX_FRAME_BYTES),
        };
        let check = |what: &str, value: u32, least: u32, most: u32| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            let message = format!("limits.{what}: {value} is not within {least} and {most}");
            Err(Status::of(Reason::InvalidFrame, message))
        };
        check("node_window_bytes", limits.node_window_bytes, 4096, 16 << 20)?;
        check("max_frame_bytes", limits.max_frame_bytes, 256 * 1024, u32::MAX)?;
        Ok(limits)
    }
}

impl From<Limits> for pb::SessionLimits {
    fn from(limits: Limits) -> Self {
        let Limits { node_window_bytes, max_calls, max_frame_bytes } = limits;
        Self { node_window_bytes, max_calls, max_frame_bytes }
    }
}

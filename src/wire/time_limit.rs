//! Limits in time: a duration of a message, and the deadline that one makes. What
//! is further away than [`LONGEST`] is no limit, so that no clock is asked for more
//! than it can say.

use std::time::Duration;

use tokio::time::Instant;

use super::{Reason, Status};

/// The longest limit in time: about a hundred years. Clocks overflow far beyond it.
pub const LONGEST: Duration = Duration::from_secs(36_525 * 24 * 3600);

/// When `left` is over, from now on; `None`, no deadline, past [`LONGEST`].
pub fn deadline_after(left: Duration) -> Option<Instant> {
    if left > LONGEST { None } else { Instant::now().checked_add(left) }
}

/// Reads a duration of a message. A negative one is zero: its time is up already.
///
/// # Errors
/// INVALID_ARGUMENT, naming `field`, for nanoseconds that are a second or more, or
/// have another sign than the seconds.
pub fn read(field: &str, duration: pbjson_types::Duration) -> Result<Duration, Status> {
    let pbjson_types::Duration { seconds, nanos } = duration;
    let is_mixed = seconds.signum() * i64::from(nanos.signum()) < 0;
    if is_mixed || nanos.unsigned_abs() >= 1_000_000_000 {
        let message = format!(
            "{field}: the nanos of a duration go up to 999,999,999, and have the sign of its seconds"
        );
        return Err(Status::of(Reason::InvalidRequest, message));
    }
    Ok(match (u64::try_from(seconds), u32::try_from(nanos)) {
        (Ok(seconds), Ok(nanos)) => Duration::new(seconds, nanos),
        _ => Duration::ZERO,
    })
}

//! How long after it ended a server is tried again. Pure.

use std::time::Duration;

/// Doubled each time, up to [`LONGEST`], until the server has stood for [`STEADY`].
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);
const STEADY: Duration = Duration::from_secs(60);

/// The pauses between tries.
pub(super) struct Pauses {
    next: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Pauses {
    /// The pause after a try that stood for so long.
    pub(super) fn after(&mut self, stood: Duration) -> Duration {
        let pause = if stood >= STEADY { FIRST } else { self.next };
        self.next = (pause * 2).min(LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_double_up_to_a_bound_until_a_server_has_stood() {
        let mut pauses = Pauses::default();
        let mut check = |stood: u64, millis: u64| {
            let pause = pauses.after(Duration::from_secs(stood));
            assert_eq!(pause, Duration::from_millis(millis), "after {stood} s");
        };
        for millis in [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000] {
            check(59, millis);
        }
        check(60, 500);
        check(0, 1000);
    }
}

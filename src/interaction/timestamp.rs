//! Timestamps of chunks as text: RFC 3339, from year 1 to year 9999.

use std::ops::RangeInclusive;

use jiff::{
    SignedDuration,
    civil::{DateTime, date},
    fmt::temporal::Pieces,
};
use pbjson_types::Timestamp;

/// Years 1 to 9999, in seconds since the Unix epoch: what
/// `google.protobuf.Timestamp` allows.
const SECONDS: RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// The Unix epoch, by the calendar: an instant of `jiff` ends a day before the
/// year 9999 does.
const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// Whether it lies in years 1 to 9999, with a fraction between 0 and 1.
pub(super) fn is_in_range(timestamp: Timestamp) -> bool {
    SECONDS.contains(&timestamp.seconds) && (0..1_000_000_000).contains(&timestamp.nanos)
}

/// Writes a timestamp as Python's `isoformat` does, `+00:00` at its end: no
/// fraction where it is zero, else six digits, or nine where six do not do.
/// `None` out of range.
pub(super) fn write(timestamp: Timestamp) -> Option<String> {
    if !is_in_range(timestamp) {
        return None;
    }
    let Timestamp { seconds, nanos } = timestamp;
    let moment = EPOCH.checked_add(SignedDuration::from_secs(seconds)).ok()?;
    Some(match nanos {
        0 => format!("{moment}+00:00"),
        _ if nanos % 1000 == 0 => format!("{moment}.{:06}+00:00", nanos / 1000),
        _ => format!("{moment}.{nanos:09}+00:00"),
    })
}

/// Reads RFC 3339, with whatever offset. `None` where it is not, has no offset,
/// or is out of range.
pub(super) fn read(text: &str) -> Option<Timestamp> {
    let pieces = Pieces::parse(text).ok()?;
    let offset = pieces.to_numeric_offset()?;
    let moment = pieces.date().to_datetime(pieces.time()?);
    let since_epoch = moment.duration_since(EPOCH);
    // The fraction counts upwards from the second, before the epoch too.
    let nanos = since_epoch.subsec_nanos().rem_euclid(1_000_000_000);
    let borrow = i64::from(since_epoch.subsec_nanos() < 0);
    let seconds = since_epoch.as_secs() - borrow - i64::from(offset.seconds());
    let timestamp = Timestamp { seconds, nanos };
    is_in_range(timestamp).then_some(timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_written_and_read_back() {
        let check = |seconds, nanos, text: &str| {
            let timestamp = Timestamp { seconds, nanos };
            assert_eq!(write(timestamp).as_deref(), Some(text));
            assert_eq!(read(text), Some(timestamp), "{text}");
        };
        check(0, 0, "1970-01-01T00:00:00+00:00");
        check(-1, 999_999_999, "1969-12-31T23:59:59.999999999+00:00");
        check(1_767_323_045, 678_901_000, "2026-01-02T03:04:05.678901+00:00");
        check(1_767_323_045, 500_000_000, "2026-01-02T03:04:05.500000+00:00");
        check(*SECONDS.start(), 0, "0001-01-01T00:00:00+00:00");
        check(*SECONDS.end(), 999_999_999, "9999-12-31T23:59:59.999999999+00:00");
    }

    #[test]
    fn any_offset_is_read_and_anything_else_is_refused() {
        let check = |text: &str, expected: Option<i64>| {
            assert_eq!(read(text).map(|timestamp| timestamp.seconds), expected, "{text}");
        };
        check("1970-01-01T01:00:00+01:00", Some(0));
        check("1969-12-31T18:30:00.25-05:30", Some(0));
        check("1970-01-01T00:00:00Z", Some(0));
        check("1970-01-01t00:00:00z", Some(0));
        check("1970-01-01T00:00:00", None);
        check("1970-01-01", None);
        check("0001-01-01T00:00:00+01:00", None);
        check("9999-12-31T23:59:59-01:00", None);
        check("yesterday", None);
        check("", None);
    }

    #[test]
    fn out_of_range_is_not_written() {
        for (seconds, nanos) in [(SECONDS.end() + 1, 0), (SECONDS.start() - 1, 0), (0, -1)] {
            assert_eq!(write(Timestamp { seconds, nanos }), None);
        }
        assert_eq!(write(Timestamp { seconds: i64::MIN, nanos: i32::MAX }), None);
    }
}

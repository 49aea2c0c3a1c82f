//! Durations as people write them: `30s`, `500ms`, `1m 30s`, or bare seconds.

use std::time::Duration;

use thiserror::Error;

/// A text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("write a time such as 30s, 500ms, 2m or 1h30m, more than zero and at most 30 days")]
pub(super) struct DurationError;

/// The longest time that can be asked for.
const MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Reads a duration.
pub(super) fn duration(text: &str) -> Result<Duration, DurationError> {
    let read = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| DurationError)?,
        Err(_) => {
            let signed: jiff::SignedDuration = text.parse().map_err(|_| DurationError)?;
            Duration::try_from(signed).map_err(|_| DurationError)?
        }
    };
    if read.is_zero() || read > MAX { Err(DurationError) } else { Ok(read) }
}

/// A span as it is shown: `12 ms`, `3.4 s`.
pub(super) fn shown(span: Duration) -> String {
    if span < Duration::from_secs(1) {
        format!("{} ms", span.as_millis())
    } else {
        format!("{:.1} s", span.as_secs_f64())
    }
}

/// A duration on the wire.
pub(super) fn to_message(span: Duration) -> pbjson_types::Duration {
    // Within 30 days, so both fit.
    pbjson_types::Duration {
        seconds: span.as_secs().try_into().unwrap_or(i64::MAX),
        nanos: span.subsec_nanos().try_into().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_units_or_as_seconds() {
        let check = |text: &str, millis: Option<u64>| {
            assert_eq!(duration(text).ok(), millis.map(Duration::from_millis), "{text}");
        };
        check("30s", Some(30_000));
        check("500ms", Some(500));
        check("1h30m", Some(5_400_000));
        check("1m 30s", Some(90_000));
        check("2.5", Some(2_500));
        check("0", None);
        check("-1s", None);
        check("NaN", None);
        check("1e30", None);
        check("soon", None);
        check("", None);
    }
}

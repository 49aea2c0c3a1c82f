//! Call headers: names without case, values as bytes.

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use tokio::time::Instant;

use super::{Reason, Status, time_limit::deadline_after};

/// The deadline header: decimal milliseconds since the Unix epoch.
pub const DEADLINE: &str = "x-a11-deadline";
/// The allow-list header: patterns separated by commas.
pub const ALLOWED_LLM_ACTIONS: &str = "x-a11-allowed-llm-actions";
/// The request metadata that names the caller's own session. Who knows it can call
/// what the session hosts, and reach its nodes: it goes to no action.
pub const SESSION: &str = "x-a11-session";
/// The key of a model's call, the same each time the same turn is run: by it a
/// handler knows a call again. It is of one call, and does not flow on.
pub const IDEMPOTENCY_KEY: &str = "x-a11-idempotency-key";

/// The id under which a call's ports can be reached, chosen by its caller. Who
/// knows it is let in: it goes nowhere but to the service that runs the call.
pub const RUN: &str = "x-a11-run";

/// How many calls a call is made within, decimal; none where it is left off. Who
/// runs a call and makes others for it passes it on as it came: the service adds
/// to it.
pub const DEPTH: &str = "x-a11-depth";

/// What the headers of a call take at most: their names, their values, and
/// [`OVERHEAD_BYTES`] each.
pub const MAX_BYTES: usize = 64 * 1024;
/// Counted for every header, as HTTP does, so that many small ones are bounded too.
pub const OVERHEAD_BYTES: usize = 32;

/// Header name (lower case) → value.
#[derive(Clone, Default)]
pub struct Headers {
    /// What many have in common; those here go before it.
    under: Option<Arc<Headers>>,
    /// `None`: not there, whatever is under it.
    own: BTreeMap<String, Option<Bytes>>,
}

impl Headers {
    /// These, over others that many have in common and that are not copied.
    pub fn over(under: Arc<Self>) -> Self {
        Self { under: Some(under), own: BTreeMap::new() }
    }

    /// Sets a header, replacing one of that name whatever its case.
    pub fn set(&mut self, name: &str, value: impl Into<Bytes>) {
        self.own.insert(name.to_ascii_lowercase(), Some(value.into()));
    }

    /// The value of a header, whatever the case of `name`.
    pub fn value(&self, name: &str) -> Option<&Bytes> {
        match self.found(name) {
            None if name.bytes().any(|b| b.is_ascii_uppercase()) => {
                self.found(&name.to_ascii_lowercase())
            }
            found => found,
        }
    }

    fn found(&self, name: &str) -> Option<&Bytes> {
        match self.own.get(name) {
            Some(value) => value.as_ref(),
            None => self.under.as_ref()?.found(name),
        }
    }

    /// The value of a header as text; `None` where absent or not UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.value(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The deadline in [`DEADLINE`], if there is one that the clock can say.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where it is no number of milliseconds.
    pub fn deadline(&self) -> Result<Option<Instant>, Status> {
        let Some(value) = self.value(DEADLINE) else { return Ok(None) };
        let deadline = std::str::from_utf8(value).ok().and_then(deadline);
        deadline.ok_or_else(|| {
            let what = "is not a number of milliseconds since the Unix epoch";
            Status::of(Reason::InvalidRequest, format!("{DEADLINE} {what}"))
        })
    }

    /// How many calls the call is made within, see [`DEPTH`].
    ///
    /// # Errors
    /// INVALID_ARGUMENT where it is no number.
    pub fn depth(&self) -> Result<u32, Status> {
        let Some(value) = self.value(DEPTH) else { return Ok(0) };
        let depth = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        depth.ok_or_else(|| {
            Status::of(Reason::InvalidRequest, format!("{DEPTH} is not a number of calls"))
        })
    }

    /// The headers by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Bytes)> {
        let mut all = BTreeMap::new();
        self.gather(&mut all);
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    fn gather<'a>(&'a self, all: &mut BTreeMap<&'a str, Option<&'a Bytes>>) {
        if let Some(under) = &self.under {
            under.gather(all);
        }
        all.extend(self.own.iter().map(|(name, value)| (name.as_str(), value.as_ref())));
    }

    /// Removes a header.
    pub fn remove(&mut self, name: &str) {
        let name = name.to_ascii_lowercase();
        match self.under.as_ref().and_then(|under| under.found(&name)) {
            Some(_) => drop(self.own.insert(name, None)),
            None => drop(self.own.remove(&name)),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl PartialEq for Headers {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Headers {}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// When the deadline in a header is up: `None` where the text is no number of
/// milliseconds since the Unix epoch, `Some(None)` where the clock cannot say it,
/// which is no deadline at all.
pub fn deadline(text: &str) -> Option<Option<Instant>> {
    let millis: u64 = text.parse().ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let left = Duration::from_millis(millis).saturating_sub(now);
    Some(deadline_after(left))
}

/// Holds the headers of a call against [`MAX_BYTES`].
///
/// # Errors
/// INVALID_ARGUMENT past it.
pub fn check_size<'a>(
    headers: impl IntoIterator<Item = (&'a str, &'a Bytes)>,
) -> Result<(), Status> {
    let sizes = headers.into_iter().map(|(name, value)| name.len() + value.len() + OVERHEAD_BYTES);
    let bytes: usize = sizes.sum();
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    let message = format!("headers: they take {bytes} bytes, and {MAX_BYTES} at most");
    Err(Status::of(Reason::InvalidRequest, message))
}

/// Whether a header reaches actions that do not declare it.
pub fn flows(name: &str) -> bool {
    (name.starts_with("x-a11-") && !is_held_back(name)) || name.starts_with("x-otel-")
}

/// Whether a header of a call goes to the calls made for it, too.
pub fn flows_on(name: &str) -> bool {
    flows(name) && name != IDEMPOTENCY_KEY
}

/// Whether a header is for the service alone, and reaches no action, declared or not:
/// who knows its value is let in by it.
pub fn is_held_back(name: &str) -> bool {
    name == RUN || name == SESSION
}

impl<N: AsRef<str>, V: Into<Bytes>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut headers = Self::default();
        headers.extend(pairs);
        headers
    }
}

impl<N: AsRef<str>, V: Into<Bytes>> Extend<(N, V)> for Headers {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, pairs: I) {
        for (name, value) in pairs {
            self.set(name.as_ref(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_compare_without_case() {
        let mut headers = Headers::from_iter([("X-Tenant", "a")]);
        headers.set("x-TENANT", "b");
        assert_eq!(headers.text("X-tenant"), Some("b"));
        assert_eq!(headers.iter().count(), 1);
    }

    #[test]
    fn headers_go_before_those_under_them() {
        let under = Arc::new(Headers::from_iter([("a", "1"), ("b", "2"), ("c", "3")]));
        let mut headers = Headers::over(under);
        headers.set("B", "own");
        headers.remove("C");
        headers.set("d", "4");
        headers.remove("d");
        assert_eq!(headers, Headers::from_iter([("a", "1"), ("b", "own")]));
        assert_eq!((headers.text("A"), headers.text("c")), (Some("1"), None));
        headers.set("c", "again");
        assert_eq!(headers.text("c"), Some("again"));
        assert!(Headers::over(Arc::default()).is_empty());
    }
}

//! What a gRPC caller sends beside the message: headers, and how long it waits.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;
use tonic::metadata::{KeyAndValueRef, MetadataMap};

use crate::runner::AllowList;
use crate::session::RunNodes;
use crate::wire::{Headers, Reason, Status, headers, time_limit::deadline_after};

/// A caller's headers and limits.
#[derive(Debug, Clone, Default)]
pub(super) struct Caller {
    /// Everything in the request metadata that is not the transport's own.
    pub(super) headers: Headers,
    /// How long the RPC lasts at the most, as its caller said.
    pub(super) grpc_timeout: Option<Duration>,
    /// The deadline in the headers.
    pub(super) deadline: Option<Instant>,
    /// How many calls it calls within.
    pub(super) depth: u32,
    /// The id under which the run is to be reached.
    pub(super) run_id: Option<String>,
}

impl Caller {
    /// Reads request metadata.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a deadline or depth that is no number, for a run's id
    /// that could be guessed, and for binary metadata that is no base64.
    pub(super) fn new(metadata: &MetadataMap) -> Result<Self, Status> {
        let mut caller = Self::default();
        for entry in metadata.iter() {
            match entry {
                KeyAndValueRef::Ascii(key, value) if !is_transport(key.as_str()) => {
                    caller.headers.set(key.as_str(), value.as_encoded_bytes().to_vec());
                }
                KeyAndValueRef::Binary(key, value) if !is_transport(key.as_str()) => {
                    let value = value.to_bytes().map_err(|_| {
                        let message = format!("metadata {:?} is not base64", key.as_str());
                        Status::of(Reason::InvalidRequest, message)
                    })?;
                    caller.headers.set(key.as_str(), value);
                }
                _ => {}
            }
        }
        caller.grpc_timeout = metadata
            .get("grpc-timeout")
            .and_then(|value| value.to_str().ok())
            .and_then(grpc_timeout);
        caller.deadline = caller.headers.deadline()?;
        caller.depth = caller.headers.depth()?;
        caller.run_id = RunNodes::id_in(&mut caller.headers)?;
        Ok(caller)
    }

    /// Adds the headers of the message itself. Of two deadlines the earlier holds.
    ///
    /// # Errors
    /// As [`new`](Self::new), and past [`headers::MAX_BYTES`].
    pub(super) fn add_headers(&mut self, own: BTreeMap<String, Bytes>) -> Result<(), Status> {
        let mut own = Headers::from_iter(own);
        self.run_id = RunNodes::id_in(&mut own)?.or(self.run_id.take());
        headers::check_size(own.iter())?;
        self.deadline = earliest(self.deadline, own.deadline()?);
        self.depth = self.depth.max(own.depth()?);
        self.headers.extend(own.iter().map(|(name, value)| (name, value.clone())));
        Ok(())
    }

    /// Which actions a model may call: the patterns of the request's
    /// `allowed_actions`, or, without any, of the header.
    ///
    /// # Errors
    /// INVALID_ARGUMENT (INVALID_PATTERN) that names where the pattern stands.
    pub(super) fn allow_list(&self, allowed_actions: &[String]) -> Result<AllowList, Status> {
        let (place, list) = if allowed_actions.is_empty() {
            let header = self.headers.text(headers::ALLOWED_LLM_ACTIONS);
            (headers::ALLOWED_LLM_ACTIONS, AllowList::new(header))
        } else {
            ("allowed_actions", AllowList::new(allowed_actions))
        };
        list.map_err(|error| Status::of(Reason::InvalidPattern, format!("{place}: {error}")))
    }

    /// When the RPC is over: the earliest of what the caller said.
    pub(super) fn end(&self) -> Option<Instant> {
        let rpc = self.grpc_timeout.and_then(deadline_after);
        earliest(rpc, self.deadline)
    }

    /// When work must be done for its answer to reach the caller: as
    /// [`end`](Self::end), with a tenth of the RPC's time, 500 ms at most, kept
    /// for the answer.
    pub(super) fn end_of_work(&self) -> Option<Instant> {
        const MOST_KEPT: Duration = Duration::from_millis(500);
        let rpc = self
            .grpc_timeout
            .and_then(|timeout| deadline_after(timeout - (timeout / 10).min(MOST_KEPT)));
        earliest(rpc, self.deadline)
    }
}

/// The earlier of two deadlines.
pub(super) fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Metadata that concerns the transport and no action.
fn is_transport(key: &str) -> bool {
    key.starts_with("grpc-")
        || matches!(
            key,
            "te" | "content-type" | "content-length" | "user-agent" | "host" | "accept-encoding"
        )
}

/// Reads `grpc-timeout`: at most eight digits and a unit.
fn grpc_timeout(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let digits = &text[..text.len() - unit.len_utf8()];
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(number * 3600),
        'M' => Duration::from_secs(number * 60),
        'S' => Duration::from_secs(number),
        'm' => Duration::from_millis(number),
        'u' => Duration::from_micros(number),
        'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_metadata_is_decoded_or_refused_by_name() {
        let caller = |encoded: &'static str| {
            let mut received = http::HeaderMap::new();
            received.insert("x-a11-key-bin", http::HeaderValue::from_static(encoded));
            Caller::new(&MetadataMap::from_headers(received))
        };
        assert_eq!(caller("aGk").expect("base64").headers.text("x-a11-key-bin"), Some("hi"));
        let refused = caller("%%%").expect_err("no base64");
        assert_eq!(refused.reason, Reason::InvalidRequest);
        assert!(refused.message.contains("x-a11-key-bin"), "{refused}");
    }

    #[test]
    fn grpc_timeouts_are_read() {
        let check = |text: &str, expected| assert_eq!(grpc_timeout(text), expected, "{text}");
        check("200m", Some(Duration::from_millis(200)));
        check("1S", Some(Duration::from_secs(1)));
        check("99999999H", Some(Duration::from_secs(99_999_999 * 3600)));
        check("123456789S", None);
        check("S", None);
        check("-1S", None);
        check("1é", None);
        check("", None);
    }
}

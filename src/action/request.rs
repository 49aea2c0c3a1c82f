//! What a caller says of a call before it is made: arguments, headers, limits.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::Instant;

use super::{
    inputs::{Inputs, Opening},
    outputs::DEFAULT_MAX_OUTPUT_BYTES,
    schema::ActionSchema,
};
use crate::wire::{Headers, Reason, Status, time_limit::deadline_after};

/// What is asked of an action, whether it runs here or elsewhere.
#[derive(Debug)]
pub(crate) struct CallRequest {
    arguments: Vec<(String, Result<Box<RawValue>, String>)>,
    pub(crate) headers: Headers,
    timeout: Option<Duration>,
    pub(crate) max_output_bytes: usize,
}

impl CallRequest {
    /// A call without arguments or a limit in time.
    pub(crate) fn new(headers: Headers) -> Self {
        let max_output_bytes = DEFAULT_MAX_OUTPUT_BYTES;
        Self { arguments: vec![], headers, timeout: None, max_output_bytes }
    }

    /// Gives an argument. One without a JSON form is an error once it is used.
    pub(crate) fn add_argument<T: Serialize + ?Sized>(&mut self, port: &str, value: &T) {
        let value = to_raw_value(value).map_err(|error| error.to_string());
        self.arguments.push((port.to_owned(), value));
    }

    /// Sends a header along.
    pub(crate) fn set_header(&mut self, name: &str, value: impl Into<Bytes>) {
        self.headers.set(name, value);
    }

    /// Ends the call after this long.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = Some(timeout);
    }

    /// The arguments as inputs of an action.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for arguments that do not fit, or are missing.
    pub(crate) fn inputs(&self, schema: &ActionSchema, opening: Opening) -> Result<Inputs, Status> {
        let values = self.arguments.iter().map(|(port, value)| match value {
            Ok(value) => Ok((port.as_str(), &**value)),
            Err(error) => Err(Status::of(
                Reason::InvalidInput,
                format!("input {port:?} has no JSON form: {error}"),
            )),
        });
        let values: Vec<_> = values.collect::<Result<_, _>>()?;
        Ok(Inputs::of_arguments(schema, values, opening)?)
    }

    /// When the call ends at the latest, with its timeout from now on, and never
    /// after `latest`.
    pub(crate) fn deadline(&self, latest: Option<Instant>) -> Option<Instant> {
        let own = self.timeout.and_then(deadline_after);
        own.into_iter().chain(latest).min()
    }
}

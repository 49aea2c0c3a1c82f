//! What the server or the way to it did, said in full, and whether another
//! connection may do better.

use std::{error::Error as _, io};

use thiserror::Error;
use tokio_postgres::{Error, error::SqlState};

use super::super::error::StoreError;

/// The driver's error, with its causes: its own text is only its kind.
#[derive(Debug, Error)]
enum Failure {
    /// The certificate of the server is not one that is trusted.
    #[error(
        "the certificate of its server is not trusted ({0}): name the PEM file of its authority \
         with sslrootcert=FILE in the URL"
    )]
    Untrusted(rustls::Error),
    /// Anything else.
    #[error("{}", with_causes(.0))]
    Other(Error),
}

/// An error and what it comes from.
pub(super) fn with_causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(&format!(": {next}"));
        cause = next.source();
    }
    text
}

/// A failure of the engine.
pub(super) fn failed(error: Error) -> StoreError {
    let certificate = error
        .source()
        .and_then(|cause| cause.downcast_ref::<io::Error>()?.get_ref())
        .and_then(|cause| cause.downcast_ref::<rustls::Error>())
        .filter(|error| matches!(error, rustls::Error::InvalidCertificate(_)));
    match certificate {
        Some(fault) => StoreError::unavailable(Failure::Untrusted(fault.clone())),
        None => StoreError::unavailable(Failure::Other(error)),
    }
}

/// Whether nothing but the connection failed: it broke, or the server ended it.
/// So too where it had to undo one of two that waited for each other.
pub(super) fn is_of_connection(error: &StoreError) -> bool {
    let StoreError::Unavailable(error) = error else { return false };
    let Some(Failure::Other(error)) = error.downcast_ref::<Failure>() else { return false };
    if error.is_closed() || error.source().is_some_and(|cause| cause.is::<io::Error>()) {
        return true;
    }
    let ended = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::T_R_DEADLOCK_DETECTED,
    ];
    error.code().is_some_and(|code| ended.contains(code))
}

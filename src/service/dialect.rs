//! Whose shape a request asks for.

use super::start::invalid;
use crate::interaction::backend::Dialect;
use crate::wire::pb::Backend;
use crate::wire::{Status, name::start_of};

/// The shape that a backend and the name of one of its dialects mean; `field` is
/// where the backend stands.
///
/// # Errors
/// INVALID_ARGUMENT for a backend that is unspecified or not known, and for a
/// dialect that it has not.
pub(super) fn dialect(field: &str, backend: i32, name: &str) -> Result<Dialect, Status> {
    let known = Backend::try_from(backend)
        .map_err(|_| invalid(format!("{field}: {backend} is no backend that is known here")))?;
    if known == Backend::Unspecified {
        return Err(invalid(format!("{field}: required")));
    }
    Dialect::named(known, name)
        .ok_or_else(|| invalid(format!("dialect: the backend has no {:?}", start_of(name, 64))))
}

//! What the other side may send at most where no credit counts it: credit bounds
//! data, refs and attributes, these bounds are for the rest.

use super::{call::Role, limits::MAX_ID_CHARS};
use crate::wire::pb;
use crate::wire::{NodeFragment, Reason, Status};

/// Whether a text has more characters than that.
pub(super) fn is_longer(text: &str, most: usize) -> bool {
    text.len() > most && text.chars().nth(most).is_some()
}

/// Holds a fragment of a node that `writer` writes against the bounds.
///
/// # Errors
/// What the call is to end with.
pub(super) fn check_fragment(writer: Role, fragment: &NodeFragment) -> Result<(), Status> {
    check_node(writer, &fragment.id)?;
    let Some(payload) = &fragment.payload else { return Ok(()) };
    payload.check().map_err(|error| {
        let reason = match writer {
            Role::Caller => Reason::InvalidRequest,
            Role::Host => Reason::InvalidOutput,
        };
        Status::of(reason, format!("a fragment of node {:?}: {error}", fragment.id))
    })
}

/// Holds the id of a node that `writer` writes against the bounds. One that is too
/// long is none of the call's.
///
/// # Errors
/// As [`check_fragment`].
pub(super) fn check_node(writer: Role, id: &str) -> Result<(), Status> {
    if !is_longer(id, MAX_ID_CHARS) {
        return Ok(());
    }
    let reason = match writer {
        Role::Caller => Reason::UndeclaredInput,
        Role::Host => Reason::InvalidOutput,
    };
    Err(Status::of(reason, format!("a node's id is longer than {MAX_ID_CHARS} characters")))
}

/// What a writer's misuse of a node is.
pub(super) fn misuse(writer: Role) -> Reason {
    match writer {
        Role::Caller => Reason::InvalidInput,
        Role::Host => Reason::InvalidOutput,
    }
}

/// A status of the other side, as long as one of this side.
pub(super) fn cut(status: pb::Status) -> Status {
    pb::Status::from(Status::from(status)).into()
}

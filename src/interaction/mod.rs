//! The durable record of a conversation: what an [`Interaction`] must be, and
//! its JSON forms. The generated message is the record itself; a record is kept
//! in its canonical form, so that equal steps compare equal.

pub mod canonical;
mod timestamp;
pub mod portable;
pub mod proto_json;
pub mod document;

pub use crate::wire::pb::Interaction;
pub use canonical::{InteractionError, canonicalize, validate};

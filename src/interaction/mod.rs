//! The durable record of a conversation: what an [`Interaction`] must be, its
//! JSON forms, and the shapes model providers give its steps. The generated
//! message is the record itself; a record is kept in its canonical form, so that
//! equal steps compare equal.

mod timestamp;
pub mod problem;
pub mod error;
pub mod validity;
pub mod canonical;
pub mod portable;
pub mod proto_json;
mod shape;
pub mod document;
pub mod backend;
pub mod transcript;
pub mod store;

pub use crate::wire::pb::Interaction;
pub use canonical::canonicalize;
pub use error::InteractionError;
pub use problem::{Fault, Problem};
pub use validity::validate;

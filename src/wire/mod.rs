//! What travels: the generated types of `proto/a11/v1`, and the names, chunks,
//! statuses, headers and peers that the rest of the crate speaks in.
//!
//! Where every value of a generated type is valid (a chunk, a fragment), it is
//! used as it is; where not (a name, a status), a type here is made from it once.

pub mod pb;

pub mod base64;
pub mod chunk;
pub mod codec;
pub mod headers;
pub mod name;
pub mod peer;
pub mod status;
pub mod weight;

pub use chunk::{Chunk, NodeFragment, NodeRef};
pub use headers::Headers;
pub use name::{Name, NameError};
pub use status::{Code, Reason, Status};

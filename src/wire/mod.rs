//! What travels: the generated types of `proto/a11/v1`, and the names, chunks,
//! statuses, headers and peers that the rest of the crate speaks in.
//!
//! Where every value of a generated type is valid, it is used as it is; where not
//! (a name, a status), a type here is made from it once. A chunk is used as it is
//! once it has been held against its limits.

pub mod pb;

pub mod base64;
pub mod chunk;
pub mod chunk_limits;
pub mod headers;
pub mod name;
pub mod peer;
pub mod status;
pub mod time_limit;
pub mod weight;
pub mod json_weight;
pub mod codec;
pub mod unreadable;

pub use chunk::{Chunk, NodeFragment, NodeRef};
pub use chunk_limits::ChunkError;
pub use headers::Headers;
pub use name::{Name, NameError};
pub use status::{Code, Reason, Status};

//! What travels: the generated types of `proto/a11/v1`, and the names, chunks,
//! statuses and headers that the rest of the crate speaks in.
//!
//! Where every value of a generated type is valid (a chunk, a fragment), it is
//! used as it is; where not (a name, a status), a type here is made from it once.

pub mod pb;

//! The generated messages and services of package `a11.v1`.

#![allow(missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used)]

tonic::include_proto!("a11.v1");
include!(concat!(env!("OUT_DIR"), "/a11.v1.serde.rs"));

/// The encoded descriptor set of the schema, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/a11_descriptor.bin"));

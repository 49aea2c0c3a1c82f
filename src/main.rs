//! The `a11-grpc` program.

fn main() {}

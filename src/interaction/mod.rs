//! The durable record of a conversation, and the shapes model providers give
//! its steps.

pub mod backend;

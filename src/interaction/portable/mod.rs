//! The portable A11 JSON of an interaction, as other A11 implementations read
//! and write it: snake_case names, roles in words, numeric status codes, bytes
//! as standard base64. It says everything that the record holds.

mod values;
mod read;
mod write;

pub use read::{from_json, turn_from_json};
pub use write::{to_json, to_json_pretty, turn_to_json};

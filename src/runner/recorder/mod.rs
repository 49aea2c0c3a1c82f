//! Rounds that are recorded in a store: each turn's calls run once, by one
//! runner, whoever asks how often, and what came of them is there afterwards.

mod stored;
mod held;
mod rounds;

pub use rounds::{DEFAULT_LEASE, Recorder, Recording};

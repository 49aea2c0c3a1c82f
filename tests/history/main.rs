//! Whole conversations in each provider's shape: what is carried, what is said
//! of the rest, and that the rules each provider enforces always hold.

#![allow(missing_docs, unreachable_pub)]

mod checker;
mod conversations;
mod cut_off;
mod examples;
#[path = "../support/installed.rs"]
mod installed;
mod interop;
mod properties;

//! The command line, one file a command. Every command that runs actions speaks
//! gRPC: to a server, or to the same service in this process.

mod program;
mod complaint;
mod exit;
mod target;
mod input;
mod output;
mod json;
mod duration;
mod backend;
mod logging;
mod report;
mod arguments;
mod values;
mod mcp;
mod serve;
mod execute;
mod actions;
mod call;
mod place;
mod form;
mod convert;
mod interaction;
mod conversation;
mod completions;

pub use complaint::Complaints;
pub use exit::{Failure, Outcome};
pub use program::Program;

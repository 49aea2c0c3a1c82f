//! The actions that come with the binary: commands that a config file declares,
//! [`http_fetch`], and, only when enabled, [`shell_execute`].
//!
//! A command is declared (`declaration`, TOML), found valid ([`command`], `plan`) and run
//! (`execution`).

pub mod address;
pub mod permit;
mod lines;
mod template;
mod environment;
mod process;
pub(crate) mod declaration;
pub mod input;
mod plan;
mod command_error;
pub mod command;
pub(crate) mod execution;
mod exchange;
pub mod http_fetch;
pub mod shell_execute;

pub use http_fetch::FetchOptions;
pub use permit::{Permit, Permits};

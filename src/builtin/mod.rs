//! The actions that come with the binary: commands that a config file declares
//! ([`Config`]), [`http_fetch`], and, only when enabled, [`shell_execute`].
//!
//! A command is declared (`declaration`, TOML), found valid ([`command`]) and run
//! (`execution`); [`register`] puts all of them in a registry.

pub mod address;
pub mod permit;
mod lines;
mod template;
mod environment;
mod process;
mod declaration;
pub mod input;
pub mod command;
mod execution;
mod exchange;
pub mod http_fetch;
pub mod shell_execute;
pub mod config;

pub use config::{Config, ConfigError, Fault, Refused, ShellExecute};
pub use http_fetch::FetchOptions;
pub use permit::{Permit, Permits};

use crate::action::{RegisterError, Registry};

/// Registers what a config says, the built-in actions first. Gives back what was
/// refused, by the config or by the registry (a name that is taken); all others
/// are registered.
pub fn register(registry: &Registry, config: Config) -> Vec<Refused> {
    let Config { commands, mut refused, http_fetch, shell_execute } = config;
    let mut note = |action: &str, registered: Result<(), RegisterError>| {
        if let Err(error) = registered {
            refused.push(Refused { action: action.to_owned(), fault: Fault::Register(error) });
        }
    };
    if let Some(options) = http_fetch {
        note(http_fetch::NAME, http_fetch::register(registry, options));
    }
    if shell_execute == ShellExecute::On {
        note(shell_execute::NAME, shell_execute::register(registry));
    }
    for command in commands {
        let schema = command.schema().clone();
        let name = schema.name().clone();
        note(name.as_str(), registry.register(Ok(schema), execution::command_handler(command)));
    }
    refused
}

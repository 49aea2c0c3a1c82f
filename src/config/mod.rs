//! The config file: what it says ([`Config`]), and putting that into a registry
//! ([`register`]). What its parts mean is of the rooms that they configure.

mod place;
mod builtin;
mod mcp;
mod file;

pub use file::{Config, ConfigError, Fault, Part, Refused, ShellExecute};
pub use place::{KeyError, Place};

use crate::action::{RegisterError, Registry};
use crate::builtin::{execution::command_handler, http_fetch, shell_execute};

/// Registers what a config says, the built-in actions first. Gives back what was
/// refused, by the config or by the registry (a name that is taken); all others
/// are registered. The MCP servers are the caller's to take in, before: see
/// [`Taking`](crate::mcp::Taking).
pub fn register(registry: &Registry, config: Config) -> Vec<Refused> {
    let Config { commands, mut refused, http_fetch, shell_execute, mcp_servers: _ } = config;
    let mut note = |action: &str, registered: Result<(), RegisterError>| {
        if let Err(error) = registered {
            let name = action.to_owned();
            refused.push(Refused { part: Part::Action, name, fault: Fault::Register(error) });
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
        note(name.as_str(), registry.register(Ok(schema), command_handler(command)));
    }
    refused
}

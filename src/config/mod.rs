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
use crate::mcp::Dialler;

/// Registers what a config says, the built-in actions first. Gives back what was
/// refused, by the config or by the registry (a name that is taken); all others
/// are registered, and the registry dials the MCP servers that it may. Those to
/// take in are the caller's: see [`Taking`](crate::mcp::Taking).
pub fn register(registry: &Registry, config: Config) -> Vec<Refused> {
    let Config {
        commands,
        mut refused,
        http_fetch,
        shell_execute,
        mcp_servers: _,
        mcp_peers,
        mut places,
    } = config;
    registry.set_dialler(Dialler::new(mcp_peers));
    let mut note = |action: &str, registered: Result<(), RegisterError>| {
        if let Err(error) = registered {
            let name = action.to_owned();
            let fault = Fault::Register { at: places.remove(action), error };
            refused.push(Refused { part: Part::Action, name, fault });
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

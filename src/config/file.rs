//! The config file: command actions, MCP servers, and what of the built-in
//! actions is on.
//!
//! ```toml
//! [actions.disk_usage]
//! description = "How full a directory's file system is."
//! command = ["df", "-h", "--", "{path}"]
//! inputs.path = { description = "The directory.", required = true }
//!
//! [mcp_servers.files]
//! command = "npx"
//! args = ["-y", "@modelcontextprotocol/server-filesystem", "."]
//!
//! [builtin]
//! http_fetch = { allow_private = ["localhost:8080"], timeout = "10s" }
//! shell_execute = true
//! ```

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, de::DeserializeOwned};
use thiserror::Error;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    builtin::{Builtin, HttpFetch},
    mcp::{Mcp, ServerDeclaration},
    place::{KeyError, Place, Source},
};
use crate::action::RegisterError;
use crate::builtin::{
    FetchOptions,
    command::{Command, CommandError},
    declaration::{ByteLimit, TimeLimit},
};
use crate::mcp::{McpSource, PermittedPeer, server_list::ServerFault};

/// What a config file says. The default is what holds without one: no commands,
/// `http_fetch` on, `shell_execute` off.
#[derive(Debug)]
pub struct Config {
    /// The command actions that are valid.
    pub commands: Vec<Arc<Command>>,
    /// The MCP servers whose tools are to be taken in, by name.
    pub mcp_servers: Vec<McpSource>,
    /// The MCP servers that requests may have dialled.
    pub mcp_peers: Vec<PermittedPeer>,
    /// What is not valid of the actions and the servers.
    pub refused: Vec<Refused>,
    /// How `http_fetch` works; `None` where it is off.
    pub http_fetch: Option<FetchOptions>,
    /// Whether models may run what they like.
    pub shell_execute: ShellExecute,
}

/// Whether `shell_execute` is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ShellExecute {
    /// It is.
    On,
    /// It is not.
    #[default]
    Off,
}

/// What was left out, and why. The others are there.
#[derive(Debug, Error)]
#[error("{part} {name:?}: {fault}")]
pub struct Refused {
    /// What it is.
    pub part: Part,
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    #[source]
    pub fault: Fault,
}

/// A part of the file that can be left out by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `[actions.NAME]`.
    Action,
    /// `[mcp_servers.NAME]`.
    McpServer,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Action => "action",
            Self::McpServer => "MCP server",
        })
    }
}

/// What is wrong with one part.
#[derive(Debug, Error)]
pub enum Fault {
    /// A key that is unknown, or has a value that it cannot have.
    #[error("{0}")]
    Key(KeyError),
    /// What it says together cannot be.
    #[error("{at}: {error}")]
    Command {
        /// Where it begins.
        at: Place,
        /// What is wrong.
        error: CommandError,
    },
    /// The server cannot be reached as it says.
    #[error("{at}: {error}")]
    Server {
        /// Where it begins.
        at: Place,
        /// What is wrong.
        error: ServerFault,
    },
    /// It cannot be registered beside the others.
    #[error("{0}")]
    Register(#[from] RegisterError),
}

/// Why a config file was refused as a whole.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("config {path:?} cannot be read: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is not TOML, or has a section or a setting that is not known.
    #[error("config {0}")]
    Key(#[from] KeyError),
}

impl Default for Config {
    fn default() -> Self {
        Self {
            commands: vec![],
            mcp_servers: vec![],
            mcp_peers: vec![],
            refused: vec![],
            http_fetch: Some(FetchOptions::default()),
            shell_execute: ShellExecute::Off,
        }
    }
}

impl Config {
    /// Reads a config file. An action or a server that is broken is among
    /// [`refused`](Self::refused) and hides no other.
    ///
    /// # Errors
    /// Where the file cannot be read, is not TOML, or has a section or a setting
    /// of `[builtin]` that does not exist: with file, line and key.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let read = |error| ConfigError::Read { path: path.to_owned(), error };
        let text = std::fs::read_to_string(path).map_err(read)?;
        let directory = std::path::absolute(path).map_err(read)?;
        let directory = directory.parent().unwrap_or(Path::new("/"));
        Ok(Self::parse(&text, path, directory)?)
    }

    /// The same with the text at hand. Errors name `file`; paths in it are
    /// relative to `directory`, which must be absolute.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse(text: &str, file: &Path, directory: &Path) -> Result<Self, KeyError> {
        let source = Source { text, file };
        let sections = DeTable::parse(text).map_err(|error| source.error(&error))?.into_inner();
        let mut config = Self::default();
        for (name, section) in sections {
            match name.get_ref().as_ref() {
                "actions" => config.take_actions(&source, section, directory)?,
                "builtin" => config.take_builtin(&source, section)?,
                "mcp" => {
                    let mcp = Mcp::deserialize(toml::de::ValueDeserializer::from(section))
                        .map_err(|error| source.error(&error))?;
                    config.mcp_peers = mcp.peers;
                }
                "mcp_servers" => config.take_servers(&source, section, directory)?,
                other => {
                    let known = "the sections are `actions`, `mcp_servers`, `mcp` and `builtin`";
                    let message = format!("there is no section `{other}`; {known}");
                    return Err(source.fault(name.span().start, message));
                }
            }
        }
        Ok(config)
    }

    fn take_actions(
        &mut self,
        source: &Source<'_>,
        section: Spanned<DeValue<'_>>,
        directory: &Path,
    ) -> Result<(), KeyError> {
        let what = "`actions` is a table of actions";
        let command = |at, name: &str, declaration| {
            Command::new(name, declaration, directory).map_err(|error| Fault::Command { at, error })
        };
        let commands = self.take_each(source, section, what, Part::Action, command)?;
        self.commands.extend(commands.into_iter().map(Arc::new));
        Ok(())
    }

    fn take_servers(
        &mut self,
        source: &Source<'_>,
        section: Spanned<DeValue<'_>>,
        directory: &Path,
    ) -> Result<(), KeyError> {
        let what = "`mcp_servers` is a table of servers";
        let server = |at, name: &str, declaration: ServerDeclaration| {
            declaration.source(name, directory).map_err(|error| Fault::Server { at, error })
        };
        let servers = self.take_each(source, section, what, Part::McpServer, server)?;
        self.mcp_servers.extend(servers.into_iter().flatten());
        Ok(())
    }

    /// What is declared in a table, by name; what is broken is refused, the rest stays.
    fn take_each<D: DeserializeOwned, T>(
        &mut self,
        source: &Source<'_>,
        section: Spanned<DeValue<'_>>,
        what: &str,
        part: Part,
        make: impl Fn(Place, &str, D) -> Result<T, Fault>,
    ) -> Result<Vec<T>, KeyError> {
        let start = section.span().start;
        let DeValue::Table(declared) = section.into_inner() else {
            return Err(source.fault(start, what.to_owned()));
        };
        let mut made = vec![];
        for (name, declaration) in declared {
            let at = source.place(name.span().start);
            let name = name.into_inner().into_owned();
            match D::deserialize(toml::de::ValueDeserializer::from(declaration))
                .map_err(|error| Fault::Key(source.error(&error)))
                .and_then(|declaration| make(at, &name, declaration))
            {
                Ok(one) => made.push(one),
                Err(fault) => self.refused.push(Refused { part, name, fault }),
            }
        }
        Ok(made)
    }

    fn take_builtin(
        &mut self,
        source: &Source<'_>,
        section: Spanned<DeValue<'_>>,
    ) -> Result<(), KeyError> {
        let builtin = Builtin::deserialize(toml::de::ValueDeserializer::from(section))
            .map_err(|error| source.error(&error))?;
        self.shell_execute =
            if builtin.shell_execute { ShellExecute::On } else { ShellExecute::Off };
        match builtin.http_fetch {
            None | Some(HttpFetch::Switch(true)) => {}
            Some(HttpFetch::Switch(false)) => self.http_fetch = None,
            Some(HttpFetch::Options(options)) => {
                let fetch = self.http_fetch.get_or_insert_default();
                fetch.permits = options.allow_private;
                if let Some(ByteLimit(bytes)) = options.max_bytes {
                    fetch.max_bytes = bytes;
                }
                if let Some(TimeLimit(time)) = options.timeout {
                    fetch.timeout = time;
                }
            }
        }
        Ok(())
    }
}

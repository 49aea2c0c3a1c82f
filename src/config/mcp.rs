//! `[mcp_servers.NAME]`: the MCP servers whose tools are taken in; `[mcp]`: those
//! that a request may have dialled.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::mcp::{
    McpSource, PermittedPeer,
    server_list::{McpServerEntry, ServerFault},
};

/// `[mcp]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mcp {
    /// Which servers `action_configs` may name.
    #[serde(default)]
    pub(super) peers: Vec<PermittedPeer>,
}

/// `[mcp_servers.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerDeclaration {
    /// The program that is started, and spoken to on its input and output. This
    /// or `url`.
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    /// Variables beside those of this program.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Relative to the config file's directory, which is the default.
    working_directory: Option<PathBuf>,
    /// Its address, Streamable HTTP.
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// What its actions' names begin with.
    #[serde(default)]
    prefix: String,
    #[serde(default = "on")]
    enabled: bool,
}

fn on() -> bool {
    true
}

impl ServerDeclaration {
    /// The server; `None` where it is not enabled. Paths are relative to
    /// `directory`.
    pub(super) fn source(
        self,
        name: &str,
        directory: &Path,
    ) -> Result<Option<McpSource>, ServerFault> {
        let Self { command, args, env, working_directory, url, headers, prefix, enabled } = self;
        if working_directory.is_some() && command.is_none() {
            return Err(ServerFault::Stray { key: "working_directory", beside: "url" });
        }
        let is_path = |command: &String| command.contains('/');
        let command = command.map(|command| match is_path(&command) {
            true => directory.join(command).display().to_string(),
            false => command,
        });
        let cwd = directory.join(working_directory.unwrap_or_default());
        let entry = McpServerEntry {
            cwd: Some(cwd),
            command,
            args,
            env,
            url,
            headers,
            prefix,
            disabled: !enabled,
        };
        entry.into_source(name)
    }
}

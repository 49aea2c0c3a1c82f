//! The `mcpServers` JSON of MCP hosts: which servers there are and how each is
//! reached.

use std::{collections::BTreeMap, path::PathBuf};

use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use thiserror::Error;

/// One MCP server to take tools in from.
#[derive(Debug, Clone, PartialEq)]
pub struct McpSource {
    /// What it is called here.
    pub name: String,
    /// What its actions' names begin with; empty for the tools' own names.
    pub prefix: String,
    /// How it is reached.
    pub reach: Reach,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Reach {
    /// It is started, and spoken to on its input and output.
    Command {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment beside this process's.
        env: BTreeMap<String, String>,
        /// Where it runs; here where absent.
        cwd: Option<PathBuf>,
    },
    /// Over Streamable HTTP.
    Url {
        /// Its address.
        url: String,
        /// What is sent with each request.
        headers: Vec<(HeaderName, HeaderValue)>,
    },
}

/// Why a list was not read.
#[derive(Debug, Error)]
pub enum ServerListError {
    /// It has another shape.
    #[error("not a list of MCP servers: {0}")]
    Shape(#[from] serde_json::Error),
    /// A server is both, or neither, a command and an address.
    #[error("MCP server {0:?} needs either a command or a url")]
    Reach(String),
    /// A header that cannot be sent.
    #[error("MCP server {server:?}: header {header:?} cannot be sent")]
    Header {
        /// The server.
        server: String,
        /// The header.
        header: String,
    },
}

/// One entry as hosts write it, and as a configuration has it.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct McpServerEntry {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    disabled: bool,
}

impl McpServerEntry {
    /// The server that the entry describes; `None` for one that is disabled.
    ///
    /// # Errors
    /// Where it is both or neither of command and address.
    pub fn into_source(self, name: &str) -> Result<Option<McpSource>, ServerListError> {
        let Self { command, args, env, cwd, url, headers, prefix, disabled } = self;
        if disabled {
            return Ok(None);
        }
        let reach = match (command, url) {
            (Some(command), None) => Reach::Command { command, args, env, cwd },
            (None, Some(url)) => {
                let header = |(key, value): (String, String)| match (key.parse(), value.parse()) {
                    (Ok(key), Ok(value)) => Ok((key, value)),
                    _ => Err(ServerListError::Header { server: name.to_owned(), header: key }),
                };
                let headers = headers.into_iter().map(header).collect::<Result<_, _>>()?;
                Reach::Url { url, headers }
            }
            _ => return Err(ServerListError::Reach(name.to_owned())),
        };
        Ok(Some(McpSource { name: name.to_owned(), prefix, reach }))
    }
}

/// Reads the JSON that hosts keep: `{"mcpServers": {NAME: {"command": …, "args":
/// …, "env": …} or {"url": …, "headers": …}}}`. An entry may have a `prefix` for
/// its actions' names; one that is `disabled` is left out.
///
/// # Errors
/// Names the server whose entry is unusable.
pub fn read(json: &str) -> Result<Vec<McpSource>, ServerListError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct List {
        mcp_servers: BTreeMap<String, McpServerEntry>,
    }
    let List { mcp_servers } = serde_json::from_str(json)?;
    let sources = mcp_servers.into_iter().map(|(name, entry)| entry.into_source(&name));
    sources.filter_map(Result::transpose).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_that_hosts_keep_is_read() {
        let list = r#"{"mcpServers": {
            "files": {"command": "npx", "args": ["-y", "files"], "env": {"A": "b"}},
            "far": {"type": "http", "url": "https://far.example/mcp",
                "headers": {"Authorization": "Bearer x"}, "prefix": "far_"},
            "off": {"command": "x", "disabled": true}}}"#;
        let sources = read(list).expect("read");
        let [far, files] = &sources[..] else { panic!("{sources:?}") };
        assert_eq!((far.name.as_str(), far.prefix.as_str()), ("far", "far_"));
        assert!(
            matches!(&far.reach, Reach::Url { headers, .. } if headers[0].0 == "authorization")
        );
        assert!(matches!(&files.reach, Reach::Command { command, args, .. }
            if command == "npx" && args.len() == 2));
    }

    #[test]
    fn an_unusable_entry_is_named() {
        let check = |list: &str, expected: &str| {
            let error = read(list).expect_err("refused").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("{}", "mcpServers");
        check(r#"{"mcpServers": {"a": {}}}"#, "\"a\" needs either");
        check(r#"{"mcpServers": {"a": {"url": "u", "command": "c"}}}"#, "\"a\" needs either");
        check(r#"{"mcpServers": {"a": {"url": "u", "headers": {"x y": ""}}}}"#, "\"x y\"");
    }
}

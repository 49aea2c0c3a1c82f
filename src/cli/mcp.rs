//! The flags of MCP, and the server they make.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::{ArgGroup, Args};
use tokio::net::TcpListener;

use super::{duration::duration, exit::Failure, input::Source};
use crate::action::{Registry, handler};
use crate::mcp::{
    McpOptions, McpServer, McpSource, PermittedPeer, Taking,
    declaration::Describe,
    http::{DEFAULT_ADDRESS, HttpOptions},
    request_headers::Accepted,
    server_list::{self, from_argument},
    taking::Standing,
};
use crate::runner::{AllowList, PatternError};
use crate::serve::Origin;
use crate::wire::pb;

/// How actions are served over MCP.
#[derive(Debug, Args)]
#[command(next_help_heading = "MCP")]
#[command(group = ArgGroup::new(SERVED).args(["mcp", "mcp_stdio"]).multiple(true))]
pub(super) struct McpArgs {
    /// Serve the actions as MCP tools over Streamable HTTP, path /mcp; port 0
    /// takes a free one [default address: 127.0.0.1:8013]
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1)]
    #[arg(default_missing_value = DEFAULT_ADDRESS)]
    pub(super) mcp: Option<String>,

    /// Serve the actions as MCP tools on standard input and output, for a host
    /// that launches this program; it ends when the host closes its input.
    /// Nothing else is served unless --listen or --mcp is given too
    #[arg(long)]
    pub(super) mcp_stdio: bool,

    /// Serve only actions whose whole name matches this regular expression; can
    /// be given more than once [default: all]
    #[arg(long, value_name = "PATTERN", value_parser = pattern, requires = SERVED)]
    mcp_allow: Vec<String>,

    /// Let clients set headers whose whole name matches this regular expression,
    /// beside those an action declares; can be given more than once.
    /// x-a11-deadline and x-a11-allowed-llm-actions are admitted only by these
    /// very names
    #[arg(long, value_name = "PATTERN", value_parser = pattern, requires = SERVED)]
    mcp_accept_header: Vec<String>,

    /// How long a tool call may take
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "300s")]
    #[arg(requires = SERVED)]
    mcp_deadline: Duration,

    /// Leave each action's own document off its tool
    #[arg(long, requires = SERVED)]
    mcp_no_describe: bool,

    /// Take MCP requests for this host too, beside this machine's loopback names:
    /// the one a proxy passes requests on for; `*` takes all. Can be given more
    /// than once
    #[arg(long, value_name = "HOST[:PORT]", requires = "mcp")]
    mcp_allow_host: Vec<String>,

    /// Take in the tools of this MCP server as actions, under their own names:
    /// its http:// or https:// address, or else a command line that starts it,
    /// such as 'npx -y @modelcontextprotocol/server-everything'. Its words are
    /// split as a shell would, and no more. Can be given more than once
    #[arg(long, value_name = "URL|COMMAND", value_parser = from_argument)]
    mcp_server: Vec<McpSource>,

    /// Take in the tools of the MCP servers in this file, which has the
    /// `mcpServers` JSON that MCP hosts use; an entry's `prefix` goes before its
    /// actions' names
    #[arg(long, value_name = "FILE")]
    mcp_servers: Option<PathBuf>,

    /// Let a request's `action_configs` name this MCP server, which is dialled
    /// then: mcp://HOST[:PORT][/PATH] or mcp+https://…; without a path, any path
    /// there. Can be given more than once [default: none]
    #[arg(long, value_name = "PEER")]
    mcp_peer: Vec<PermittedPeer>,
}

/// The flags by which actions are served over MCP, without which the others say
/// nothing.
const SERVED: &str = "mcp_served";

/// A pattern as it was given, once it is seen to be one.
pub(super) fn pattern(text: &str) -> Result<String, PatternError> {
    AllowList::new([text]).map(|_| text.to_owned())
}

impl McpArgs {
    /// The servers that may be dialled.
    pub(super) fn peers(&self) -> &[PermittedPeer] {
        &self.mcp_peer
    }

    /// Whether anything is served over MCP.
    pub(super) fn is_served(&self) -> bool {
        self.mcp.is_some() || self.mcp_stdio
    }

    /// The server of a registry.
    ///
    /// # Errors
    /// Where a pattern is none.
    pub(super) fn server(&self, registry: Arc<Registry>) -> Result<McpServer, Failure> {
        let mut options = declaring(registry, &self.mcp_allow, self.mcp_no_describe)?;
        options.accept_headers = Accepted::new(&self.mcp_accept_header)?;
        options.deadline = self.mcp_deadline;
        Ok(McpServer::new(options))
    }

    /// Who may reach it over HTTP.
    pub(super) fn http(&self, origins: &[Origin]) -> HttpOptions {
        HttpOptions {
            allowed_hosts: self.mcp_allow_host.clone(),
            allowed_origins: origins.iter().map(|origin| origin.as_str().to_owned()).collect(),
            ..HttpOptions::default()
        }
    }

    /// The servers whose tools are taken in, and how many were left out because
    /// they are broken; `say` is told of each.
    ///
    /// # Errors
    /// Where the file cannot be read or is no list of servers.
    pub(super) async fn servers(
        &self,
        say: &dyn Fn(&str),
    ) -> Result<(Vec<McpSource>, usize), Failure> {
        let mut servers = self.mcp_server.clone();
        let mut left_out = 0;
        if let Some(path) = &self.mcp_servers {
            let list = Source::File(path.clone()).read().await?;
            let list = server_list::read(&String::from_utf8_lossy(&list))
                .map_err(|source| Failure::McpServers { path: path.clone(), source })?;
            left_out = list.refused.len();
            for refused in list.refused {
                say(&format!("warning: left out {refused}"));
            }
            servers.extend(list.servers);
        }
        Ok((servers, left_out))
    }

    /// The listener for HTTP, where that is asked for.
    ///
    /// # Errors
    /// Where the address is taken or is none.
    pub(super) async fn listener(&self) -> Result<Option<TcpListener>, Failure> {
        let Some(address) = &self.mcp else { return Ok(None) };
        match TcpListener::bind(address).await {
            Ok(listener) => Ok(Some(listener)),
            Err(source) => Err(Failure::McpListen { address: address.clone(), source }),
        }
    }
}

/// Takes in servers' tools, for as long as what is returned lives.
pub(super) fn take_in(servers: Vec<McpSource>, registry: &Arc<Registry>) -> Vec<Taking> {
    servers.into_iter().map(|server| Taking::begin(server, registry.clone())).collect()
}

/// Waits until each server is there or away.
pub(super) async fn settled(taken_in: &[Taking]) {
    for taking in taken_in {
        let mut standing = taking.standing();
        let is_settled = |standing: &Standing| *standing != Standing::Opening;
        // One that is over is settled too.
        let _ = standing.wait_for(is_settled).await;
    }
}

/// What is served, as far as `tools/list` tells of it.
fn declaring(
    registry: Arc<Registry>,
    allow: &[String],
    no_describe: bool,
) -> Result<McpOptions, Failure> {
    let mut options = McpOptions::new(registry);
    if !allow.is_empty() {
        options.allow = Some(AllowList::new(allow)?);
    }
    if no_describe {
        options.describe = Describe::Nothing;
    }
    Ok(options)
}

/// What `tools/list` would say of actions, served with these flags: one JSON text.
///
/// # Errors
/// Where one of them is no action, or a pattern is none.
pub(super) fn declarations(
    actions: Vec<pb::ActionSchema>,
    allow: &[String],
    no_describe: bool,
) -> Result<String, Failure> {
    let registry = Registry::new();
    for action in actions {
        // Only looked at: what runs it is elsewhere.
        registry
            .register(action.try_into(), handler(|_| async { Ok(()) }))
            .map_err(|_| Failure::Answer("it names an action that is none"))?;
    }
    let options = declaring(Arc::new(registry), allow, no_describe)?;
    let tools = McpServer::new(options).declarations();
    // Declarations are JSON through and through.
    let tools = serde_json::to_string(&*tools).unwrap_or_default();
    Ok(format!(r#"{{"tools":{tools}}}"#))
}

//! Where actions run: on a server, or in this process.

use std::{
    ffi::OsString,
    mem,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use tonic::transport::Channel;

use super::{
    exit::{Among, Failure},
    mcp::{settled, take_in},
    output::tell,
};
use crate::action::Registry;
use crate::client::{self, connect};
use crate::config::{self, Config};
use crate::mcp::{McpSource, PermittedPeer};
use crate::serve::in_process;
use crate::wire::pb::action_service_client::ActionServiceClient;

/// Where actions run. A flag goes before the environment, a server before a
/// configuration.
#[derive(Debug, Args)]
pub(super) struct Target {
    /// Use the server at this address: HOST:PORT, http://HOST:PORT, or
    /// https://HOST[:PORT], whose certificate is
    /// checked against the roots of the system, or of the file that
    /// SSL_CERT_FILE names [env: A11_SERVER_URL]
    #[arg(long, value_name = "URL", conflicts_with = "config", help_heading = HEADING)]
    server: Option<String>,

    /// Run in this process, with the actions of this TOML file beside the
    /// built-in ones [env: A11_CONFIG]
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    config: Option<PathBuf>,
}

/// What these flags stand under in the help.
const HEADING: &str = "Where actions run";

impl Target {
    /// Whether anything says where to look.
    pub(super) fn among(&self) -> Among {
        let named = self.server.is_some() || self.config.is_some();
        match named || ["A11_SERVER_URL", "A11_CONFIG"].into_iter().any(|it| variable(it).is_some())
        {
            true => Among::Given,
            false => Among::BuiltIn,
        }
    }

    /// A client of the server, or of the same service in this process; there,
    /// once the MCP servers of the configuration are taken in.
    pub(super) async fn client(&self) -> Result<ActionServiceClient<Channel>, Failure> {
        let server = match (&self.server, &self.config) {
            (Some(server), _) => Some(server.clone()),
            (None, Some(_)) => None,
            (None, None) => {
                variable("A11_SERVER_URL").map(|url| url.to_string_lossy().into_owned())
            }
        };
        let channel = match server {
            Some(url) => connect(&url).await?,
            None => {
                let config = self.config.clone().or_else(|| variable("A11_CONFIG").map(Into::into));
                let Loaded { registry, servers, left_out: _ } =
                    registry(config.as_deref(), &[], &tell)?;
                let taken_in = take_in(servers, &registry);
                settled(&taken_in).await;
                let channel = in_process(registry, None).await?;
                // They go with the program.
                tokio::spawn(async move {
                    let _taken_in = taken_in;
                    std::future::pending::<()>().await;
                });
                channel
            }
        };
        Ok(client::actions(channel))
    }
}

/// A variable of the environment that says something.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// What a configuration comes to.
pub(super) struct Loaded {
    /// The actions.
    pub(super) registry: Arc<Registry>,
    /// The MCP servers to take in.
    pub(super) servers: Vec<McpSource>,
    /// How many actions and servers were left out.
    pub(super) left_out: usize,
}

/// The built-in actions, and those of a configuration, with the MCP servers that
/// it wants taken in; `peers` may be dialled beside its own. What is broken is left out, and `say` is told of it.
///
/// # Errors
/// Where the file cannot be read or is no configuration.
pub(super) fn registry(
    config: Option<&Path>,
    peers: &[PermittedPeer],
    say: &dyn Fn(&str),
) -> Result<Loaded, Failure> {
    let mut config = match config {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    config.mcp_peers.extend_from_slice(peers);
    let servers = mem::take(&mut config.mcp_servers);
    let registry = Registry::new();
    let refused = config::register(&registry, config);
    for refused in &refused {
        say(&format!("warning: left out {refused}"));
    }
    Ok(Loaded { registry: Arc::new(registry), servers, left_out: refused.len() })
}

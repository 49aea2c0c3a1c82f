//! `serve`: the services on a socket, until a signal.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    duration::duration,
    exit::{Failure, Outcome},
    input::Source,
    logging::Voice,
    mcp::{McpArgs, take_in},
    target::{Loaded, registry},
};
use crate::action::Registry;
use crate::interaction::store;
use crate::mcp::{
    McpServer,
    http::{HttpOptions, PATH},
};
use crate::serve::{BindError, Ending, Limits, Options, Origin, Server, Tls, signals::Signals};

/// Serve the actions to other programs
///
/// Serves gRPC, with reflection and health, and gRPC-Web and WebSocket sessions for browsers, on
/// one port. The address it listens on is said on standard error: `listening on 127.0.0.1:50051`.
/// With --mcp or --mcp-stdio the same actions are MCP tools too.
///
/// SIGINT, SIGTERM or SIGHUP: health turns NOT_SERVING, no more connections are taken, accepted
/// calls go on to their end for as long as --shutdown-timeout says. A second signal ends the program
/// at once.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  a11-grpc serve --config actions.toml
  a11-grpc serve --listen 127.0.0.1:0 --config actions.toml     (takes a free port)
  a11-grpc serve --config actions.toml --store conversations.db
  a11-grpc serve --listen 0.0.0.0:443 --tls-cert cert.pem --tls-key key.pem

  a11-grpc serve --config actions.toml --mcp           (MCP on http://127.0.0.1:8013/mcp too)
  a11-grpc serve --config actions.toml --mcp-stdio     (as an MCP host launches it)
  a11-grpc serve --mcp-server 'npx -y @modelcontextprotocol/server-everything'

  grpcurl -plaintext 127.0.0.1:50051 list
  grpcurl -plaintext -d '{\"action\": \"word_count\", \"arguments\": {\"text\": \"one two\"}}' \\
      127.0.0.1:50051 a11.v1.ActionService/RunAction

There is no authentication yet: whoever reaches the port can run every action.")]
pub(super) struct Serve {
    /// The address to listen on; port 0 takes a free one [default: 127.0.0.1:50051]
    #[arg(long, value_name = "HOST:PORT", env = "A11_LISTEN", hide_env_values = true)]
    listen: Option<String>,

    /// Serve the actions of this TOML file beside the built-in ones
    #[arg(long, value_name = "FILE", env = "A11_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,

    /// Refuse to start where an action or an MCP server would be left out because
    /// it is broken
    #[arg(long)]
    strict: bool,

    /// Keep conversations, and a record of the calls run for them, in this SQLite
    /// file, made at first use, or in a PostgreSQL database:
    /// postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "PLACE", env = "A11_STORE", hide_env_values = true)]
    store: Option<String>,

    /// Serve with TLS, MCP over HTTP too: the certificate chain, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The certificate's private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// How long accepted calls may go on after SIGINT, SIGTERM or SIGHUP
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    shutdown_timeout: Duration,

    /// Let web pages of this origin call, beside those served from this machine;
    /// `*` lets all. Can be given more than once
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<Origin>,

    /// How many connections stand at once; more wait
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    #[arg(value_parser = positive)]
    max_connections: usize,

    /// How many attached programs are kept at once, those whose connection broke
    /// included; further ones are refused
    #[arg(long, value_name = "N", default_value_t = Limits::default().sessions)]
    #[arg(value_parser = positive)]
    max_sessions: usize,

    /// How long an attached program whose connection broke may take to come back
    /// before its calls fail and its actions go
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    session_grace: Duration,

    #[command(flatten)]
    mcp: McpArgs,
}

/// Where gRPC is served unless told otherwise.
const DEFAULT_LISTEN: &str = "127.0.0.1:50051";

fn positive(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|number| *number > 0).ok_or("not a number above 0")
}

impl Serve {
    pub(super) async fn run(self, mut signals: Signals, voice: Voice) -> Result<Outcome, Failure> {
        let said = |text: &str| voice.say(text);
        let Loaded { registry, mut servers, left_out } =
            registry(self.config.as_deref(), self.mcp.peers(), &said)?;
        let (listed, broken) = self.mcp.servers(&said).await?;
        servers.extend(listed);
        if self.strict && left_out + broken > 0 {
            return Err(Failure::LeftOut(left_out + broken));
        }
        let server = self.grpc(registry.clone()).await?;
        let mcp = Mcp::bind(&self, registry.clone()).await?;
        // Whoever reads it may count on all of it.
        if let Some(server) = &server {
            if server.is_exposed() {
                warn_exposed(server.address(), voice);
            }
            voice.say(&format!("listening on {}", server.address()));
        }
        let _taken_in = take_in(servers, &registry);
        log_actions(&registry);
        mcp.say(voice);

        let stop = CancellationToken::new();
        let run = self.run_all(server, mcp, stop.clone());
        tokio::pin!(run);
        tokio::select! {
            ended = &mut run => return ended.map(|_| Outcome::Done),
            _ = signals.next() => {}
        }
        voice.say("shutting down; accepted calls go on, a second signal ends them");
        stop.cancel();
        tokio::select! {
            ended = &mut run => {
                if ended? == Ending::Cut {
                    voice.say("warning: time was up, calls that still ran were cancelled");
                }
                Ok(Outcome::Done)
            }
            signal = signals.next() => Err(Failure::Interrupted(signal)),
        }
    }

    /// The gRPC server. A program that an MCP host launched is one of several,
    /// and has no port of its own unless it is given one.
    async fn grpc(&self, registry: Arc<Registry>) -> Result<Option<Server>, Failure> {
        let listen = match (&self.listen, self.mcp.mcp_stdio) {
            (Some(listen), _) => listen.clone(),
            (None, false) => DEFAULT_LISTEN.to_owned(),
            (None, true) => return Ok(None),
        };
        let is_address = listen
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if !is_address {
            return Err(Failure::Listen(listen));
        }
        let tls = self.tls().await?;
        let limits = Limits {
            connections: self.max_connections,
            sessions: self.max_sessions,
            session_grace: self.session_grace,
            shutdown: self.shutdown_timeout,
            ..Limits::default()
        };
        let allowed_origins = self.allow_origin.clone();
        let store = match &self.store {
            Some(place) if !place.is_empty() => Some(store::open(place).await?),
            Some(_) | None => None,
        };
        let options = Options { listen, registry, limits, tls, allowed_origins, store };
        Ok(Some(Server::bind(options).await?))
    }

    async fn tls(&self) -> Result<Option<Tls>, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let tls = Tls {
            certificate: Source::File(certificate.clone()).read().await?.into(),
            key: Source::File(key.clone()).read().await?.into(),
        };
        match tls.identity() {
            Ok(_) => Ok(Some(tls)),
            Err(source) => {
                let (certificate, key) = (certificate.clone(), key.clone());
                Err(Failure::Tls { certificate, key, source })
            }
        }
    }

    /// Serves until `stop`, or until the host of --mcp-stdio leaves, or one part
    /// fails; then everything else ends as well.
    async fn run_all(
        &self,
        server: Option<Server>,
        mcp: Mcp,
        stop: CancellationToken,
    ) -> Result<Ending, Failure> {
        let _stop_others = stop.clone().drop_guard();
        let grpc = async {
            Ok(match server {
                Some(server) => server.run(stop.clone().cancelled_owned()).await,
                None => Ending::Drained,
            })
        };
        let stopped = || stop.clone().cancelled_owned();
        let http = async {
            if let (Some(server), Some(listener)) = (&mcp.server, mcp.listener) {
                server.serve_http(listener, &mcp.http, stopped(), self.shutdown_timeout).await;
            }
            Ok::<_, Failure>(())
        };
        let stdio = async {
            if let (Some(server), true) = (&mcp.server, self.mcp.mcp_stdio) {
                server.serve_stdio(stopped(), self.shutdown_timeout).await?;
                stop.cancel();
            }
            Ok(())
        };
        let (ending, (), ()) = tokio::try_join!(grpc, http, stdio)?;
        Ok(ending)
    }
}

fn warn_exposed(address: SocketAddr, voice: Voice) {
    let text = format!(
        "warning: {address} can be reached from other machines, and there is no authentication \
         yet: whoever reaches it can run every action"
    );
    voice.say(&text);
}

/// What is served from the start, for whoever reads the log later.
fn log_actions(registry: &Registry) {
    let entries = registry.entries(None);
    let names: Vec<&str> = entries.iter().map(|entry| entry.schema().name().as_str()).collect();
    tracing::info!(count = names.len(), names = names.join(" "), "serving actions");
}

/// What is served over MCP.
struct Mcp {
    server: Option<McpServer>,
    listener: Option<TcpListener>,
    http: HttpOptions,
}

impl Mcp {
    async fn bind(args: &Serve, registry: Arc<Registry>) -> Result<Self, Failure> {
        let mut http = args.mcp.http(&args.allow_origin);
        if !args.mcp.is_served() {
            return Ok(Self { server: None, listener: None, http });
        }
        let identity = args.tls().await?.map(|tls| tls.identity()).transpose();
        http.identity = identity.map_err(BindError::from)?;
        let server = Some(args.mcp.server(registry)?);
        let listener = args.mcp.listener().await?;
        Ok(Self { server, listener, http })
    }

    /// Says where it is.
    fn say(&self, voice: Voice) {
        let listener = self.listener.as_ref();
        if let Some(address) = listener.and_then(|listener| listener.local_addr().ok()) {
            if !address.ip().is_loopback() {
                warn_exposed(address, voice);
            }
            let scheme = if self.http.identity.is_some() { "https" } else { "http" };
            voice.say(&format!("MCP on {scheme}://{address}{PATH}"));
        }
    }
}

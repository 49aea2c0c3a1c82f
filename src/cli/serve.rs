//! `serve`: the services on a socket, until a signal.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use super::{
    duration::duration,
    exit::{Failure, Outcome},
    input::Source,
    output::tell,
    target::registry,
};
use crate::interaction::store;
use crate::serve::{Ending, Limits, Options, Origin, Server, Tls, signals::Signals};

/// Serve the actions to other programs
///
/// Serves gRPC, with reflection and health, and gRPC-Web for browsers, on one port. The address it
/// listens on is said on standard error: `listening on 127.0.0.1:50051`.
///
/// SIGINT or SIGTERM: health turns NOT_SERVING, no more connections are taken, accepted calls go on
/// to their end for as long as --shutdown-timeout says. A second signal ends the program at once.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  a11-grpc serve --config actions.toml
  a11-grpc serve --listen 127.0.0.1:0 --config actions.toml     (takes a free port)
  a11-grpc serve --config actions.toml --store conversations.db
  a11-grpc serve --listen 0.0.0.0:443 --tls-cert cert.pem --tls-key key.pem

  grpcurl -plaintext 127.0.0.1:50051 list
  grpcurl -plaintext -d '{\"action\": \"word_count\", \"arguments\": {\"text\": \"one two\"}}' \\
      127.0.0.1:50051 a11.v1.ActionService/RunAction

There is no authentication yet: whoever reaches the port can run every action.")]
pub(super) struct Serve {
    /// The address to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", env = "A11_LISTEN", default_value = "127.0.0.1:50051")]
    listen: String,

    /// Serve the actions of this TOML file beside the built-in ones
    #[arg(long, value_name = "FILE", env = "A11_CONFIG")]
    config: Option<PathBuf>,

    /// Keep conversations, and a record of the calls run for them, in this SQLite
    /// file, made at first use, or in a PostgreSQL database:
    /// postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "PLACE", env = "A11_STORE", hide_env_values = true)]
    store: Option<String>,

    /// Serve with TLS: the certificate chain, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The certificate's private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// How long accepted calls may go on after SIGINT or SIGTERM
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
}

fn positive(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|number| *number > 0).ok_or("not a number above 0")
}

impl Serve {
    pub(super) async fn run(self, mut signals: Signals) -> Result<Outcome, Failure> {
        let tls = match (self.tls_cert, self.tls_key) {
            (Some(certificate), Some(key)) => Some(Tls {
                certificate: Source::File(certificate).read().await?.into(),
                key: Source::File(key).read().await?.into(),
            }),
            _ => None,
        };
        let limits = Limits {
            connections: self.max_connections,
            shutdown: self.shutdown_timeout,
            ..Limits::default()
        };
        let store = match &self.store {
            Some(place) => Some(store::open(place).await?),
            None => None,
        };
        let server = Server::bind(Options {
            listen: self.listen,
            registry: registry(self.config.as_deref())?,
            limits,
            tls,
            allowed_origins: self.allow_origin,
            store,
        })
        .await?;
        if server.is_exposed() {
            tell(&format!(
                "warning: {} can be reached from other machines, and there is no authentication \
                 yet: whoever reaches it can run every action",
                server.address()
            ));
        }
        tell(&format!("listening on {}", server.address()));

        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let run = server.run(async {
            let _ = stopped.await;
        });
        tokio::pin!(run);
        tokio::select! {
            ended = &mut run => return ended.map(|_| Outcome::Done).map_err(Into::into),
            _ = signals.next() => {}
        }
        tell("shutting down; accepted calls go on, a second signal ends them");
        let _ = stop.send(());
        tokio::select! {
            ended = &mut run => {
                if ended? == Ending::Cut {
                    tell("warning: time was up, calls that still ran were cancelled");
                }
                Ok(Outcome::Done)
            }
            signal = signals.next() => Err(Failure::Interrupted(signal)),
        }
    }
}

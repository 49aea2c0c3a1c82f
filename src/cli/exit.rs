//! How a command ends, and the exit code for it.

use std::{
    borrow::Cow,
    error::Error,
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use thiserror::Error;

use super::{arguments::ArgumentError, input::InputError};
use crate::client::ConnectError;
use crate::config::ConfigError;
use crate::interaction::{InteractionError, backend::ReplyError, store};
use crate::mcp::{server_list::ServerListError, stdio::StdioError};
use crate::runner::PatternError;
use crate::serve::{BindError, ServeError, TlsError, signals::Interruption};
use crate::wire::{Code, Reason, Status};

/// How a command that did its work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All good.
    Done,
    /// The work was done, but a call in it failed.
    SomeFailed,
    /// What was asked for was refused before it started.
    NotStarted,
}

impl Outcome {
    /// The outcome of two pieces of work.
    pub(super) fn and(self, other: Self) -> Self {
        match self {
            Self::Done => other,
            Self::SomeFailed | Self::NotStarted => self,
        }
    }
}

/// The actions that a command was told to work with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Among {
    /// Those of a server or a configuration.
    Given,
    /// None were named: those that come with the program.
    BuiltIn,
}

/// Why a command did not do its work.
#[derive(Debug, Error)]
pub enum Failure {
    /// A file or standard input could not be used.
    #[error(transparent)]
    Input(#[from] InputError),
    /// An argument for an action is unusable.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// The file holds no interaction that can be used.
    #[error("{name}: {source}")]
    Interaction {
        /// The file.
        name: String,
        /// What is wrong with it.
        source: InteractionError,
    },
    /// The file holds neither an interaction nor a reply that can be used.
    #[error("{name}: {source}")]
    Reply {
        /// The file.
        name: String,
        /// What is wrong with it.
        source: ReplyError,
    },
    /// No action has a name that was asked for.
    #[error("no action matches {0}")]
    NoAction(String),
    /// There is no action of a name.
    #[error("there is no action {name:?}")]
    UnknownAction {
        /// The name.
        name: String,
        /// The action whose name comes nearest.
        nearest: Option<String>,
        /// Where it was looked for.
        among: Among,
    },
    /// Several interactions where one is written.
    #[error("only a provider's messages are made of several interactions; give one")]
    SeveralFiles,
    /// A conversation in a form that holds one interaction.
    #[error("--to: a conversation is converted for a provider; `conversation export` writes it")]
    NoProvider,
    /// A line of a file holds no interaction that can be used.
    #[error("{name}: {source}")]
    Lines {
        /// The file.
        name: String,
        /// What is wrong with the line.
        source: store::RecordError,
    },
    /// An address to listen on that is none.
    #[error("--listen {0}: write HOST:PORT, such as 127.0.0.1:50051")]
    Listen(String),
    /// The file holds something else than an interaction.
    #[error("{0} holds no interaction, in either JSON form or protobuf")]
    NotAnInteraction(String),
    /// The problems of an interaction were printed.
    #[error("{0} is not a valid interaction")]
    Invalid(String),
    /// The service refused the request, or the connection broke.
    #[error("{}", Status::from(.0.clone()).summary())]
    Refused(tonic::Status),
    /// The connection broke, or is none of gRPC.
    #[error("UNAVAILABLE: the connection to the server broke: {0}")]
    Broken(String),
    /// The server's answer breaks the contract.
    #[error("the server's answer is incomplete: {0}")]
    Answer(&'static str),
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Bytes would be written to a terminal.
    #[error("the result is binary and is not written to a terminal; use --output FILE or a pipe")]
    BinaryToTerminal,
    /// The result could not be written.
    #[error("cannot write {name}: {source}")]
    Write {
        /// The file, or standard output.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// Whoever read standard output has left.
    #[error("nobody reads standard output any more")]
    BrokenPipe,
    /// A log filter that is none.
    #[error("--log: {0}")]
    LogFilter(#[from] tracing_subscriber::filter::ParseError),
    /// A configuration that cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store was not opened.
    #[error("--store: {0}")]
    Store(#[from] store::OpenError),
    /// It was not said where conversations are kept.
    #[error("where are the conversations? Give --store PLACE or --server URL")]
    NoPlace,
    /// There is no file of that name.
    #[error("--store: there is no {0:?}; `serve --store` and `conversation import` make one")]
    NoStore(String),
    /// Nobody is there to be asked.
    #[error("nothing was deleted: give --yes, there is no terminal to ask on")]
    NotAsked,
    /// Certificate and key cannot be served with.
    #[error("{}", tls_text(certificate, key, source))]
    Tls {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong with one, or both.
        source: TlsError,
    },
    /// The server did not come up.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Serving failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A pattern that is none.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// Something is broken where nothing may be.
    #[error("--strict: {0} of the actions and MCP servers cannot be used")]
    LeftOut(usize),
    /// A list of MCP servers that cannot be used.
    #[error("{path}: {source}")]
    McpServers {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ServerListError,
    },
    /// MCP cannot be served at its address.
    #[error("cannot listen on {address} for MCP: {source}")]
    McpListen {
        /// As given.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// MCP on standard input and output failed.
    #[error("MCP on standard input and output: {0}")]
    McpStdio(#[from] StdioError),
    /// Signals or threads of the operating system.
    #[error("the operating system refuses: {0}")]
    System(#[source] io::Error),
    /// A signal came.
    #[error("interrupted")]
    Interrupted(Interruption),
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Self {
        match status.source() {
            // Made here: no server answered it, and its code says how the transport failed.
            Some(_) if status.code() != Code::DeadlineExceeded => {
                Self::Broken(transport_text(&status))
            }
            Some(_) | None => Self::Refused(status),
        }
    }
}

impl Failure {
    /// Whether there is something to tell the user.
    pub fn is_quiet(&self) -> bool {
        matches!(self, Self::BrokenPipe | Self::Interrupted(_))
    }

    /// What to do about it, where that can be said.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::NotAnInteraction(_) => {
                "a provider's raw reply is run with `a11-grpc execute FILE`".into()
            }
            Self::Connect(ConnectError::Unreachable { cause, .. })
                if cause.contains("InvalidContentType") =>
            {
                "it speaks no TLS; try http://".into()
            }
            Self::Connect(ConnectError::Unreachable { cause, .. })
                if cause.contains("certificate") =>
            {
                "SSL_CERT_FILE=FILE names the roots to trust, PEM: an authority of your own, or the \
                 server's own certificate"
                    .into()
            }
            Self::Connect(ConnectError::Unreachable { .. }) => {
                "start one with `a11-grpc serve`, or leave --server away to run in process".into()
            }
            Self::UnknownAction { nearest, among, .. } => match (nearest, among) {
                (Some(nearest), _) => format!("did you mean {nearest:?}?").into(),
                (None, Among::Given) => "`a11-grpc actions` lists those there are".into(),
                (None, Among::BuiltIn) => ONLY_BUILT_IN.into(),
            },
            Self::Broken(cause) if is_cut(cause) => {
                "it may have stopped, or been started anew; where it speaks TLS, write \
                 https://HOST:PORT"
                    .into()
            }
            Self::Broken(_) => NO_GRPC.into(),
            Self::Refused(status) if status.message().contains("grpc-status header missing") => {
                NO_GRPC.into()
            }
            _ => return None,
        })
    }

    /// The exit code: see the program's `--help`.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Input(_)
            | Self::Argument(_)
            | Self::Interaction { .. }
            | Self::Reply { .. }
            | Self::NoAction(_)
            | Self::UnknownAction { .. }
            | Self::SeveralFiles
            | Self::Listen(_)
            | Self::NotAnInteraction(_)
            | Self::Invalid(_)
            | Self::BinaryToTerminal
            | Self::LogFilter(_)
            | Self::Pattern(_)
            | Self::McpServers { .. }
            | Self::LeftOut(_)
            | Self::Config(_)
            | Self::NoPlace
            | Self::NoProvider
            | Self::Lines { .. }
            | Self::NotAsked
            | Self::NoStore(_)
            | Self::Store(store::OpenError::UnknownEngine(_) | store::OpenError::InMemory(_))
            | Self::Connect(ConnectError::Url { .. } | ConnectError::Roots { .. })
            | Self::Tls { .. }
            | Self::Bind(BindError::Tls(_)) => BAD_INPUT,
            Self::Refused(status) if is_before_start(Status::from(status.clone()).reason) => {
                BAD_INPUT
            }
            Self::Refused(status) => match status.code() {
                Code::InvalidArgument | Code::NotFound | Code::OutOfRange => BAD_INPUT,
                _ => OTHER_FAILURE,
            },
            Self::Answer(_)
            | Self::Broken(_)
            | Self::Connect(ConnectError::Unreachable { .. })
            | Self::Write { .. }
            | Self::Bind(BindError::Listen { .. } | BindError::Serve(_))
            | Self::Serve(_)
            | Self::McpListen { .. }
            | Self::McpStdio(_)
            | Self::Store(_)
            | Self::System(_) => OTHER_FAILURE,
            Self::BrokenPipe => 0,
            Self::Interrupted(signal) => signal.exit_code(),
        }
    }
}

/// Whether a call that ended for this reason was refused before it started.
pub(super) fn is_before_start(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::InvalidInput
            | Reason::MissingInput
            | Reason::UndeclaredInput
            | Reason::AutofilledInput
            | Reason::UnknownAction
            | Reason::NoHandler
    )
}

const SOME_FAILED: u8 = 1;
const BAD_INPUT: u8 = 2;
const OTHER_FAILURE: u8 = 3;

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::SUCCESS,
            Outcome::SomeFailed => Self::from(SOME_FAILED),
            Outcome::NotStarted => Self::from(BAD_INPUT),
        }
    }
}

/// What to do where an action was looked for without being told where.
pub(super) const ONLY_BUILT_IN: &str = "only the built-in actions were looked through; give \
                                        --server URL or --config FILE for others";

/// Whether a connection broke: one of gRPC, or, by chance in place of an answer, one to
/// a port that speaks TLS.
fn is_cut(cause: &str) -> bool {
    ["broken pipe", "connection reset", "error reading a body"].iter().any(|it| cause.contains(it))
}

const NO_GRPC: &str = "does a gRPC server run there? `a11-grpc serve` says its address when it \
                       starts; where it speaks TLS, write https://HOST:PORT";

/// What is wrong with a certificate or its key, and in which file.
fn tls_text(certificate: &Path, key: &Path, fault: &TlsError) -> String {
    let (certificate, key) = (certificate.display(), key.display());
    match fault {
        TlsError::Certificate(_) => format!("--tls-cert {certificate}: {fault}"),
        TlsError::Key(_) => format!("--tls-key {key}: {fault}"),
        TlsError::Mismatch | TlsError::Pair(_) => {
            format!("--tls-cert {certificate}, --tls-key {key}: {fault}")
        }
    }
}

/// What a status that was made here says, and what of the transport lies under it.
fn transport_text(status: &tonic::Status) -> String {
    let mut text = status.message().to_owned();
    let mut next = status.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            let _ = write!(text, ": {cause_text}");
        }
        next = cause.source();
    }
    text
}

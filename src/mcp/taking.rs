//! Taking in: another server's tools as actions of a registry, for as long as it
//! is wanted. The server is started again when it ends, and its list followed.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::Path,
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt as _};
use rmcp::{
    ClientHandler, RoleClient,
    handler::client::progress::ProgressDispatcher,
    model::{
        ClientConfig, Implementation, PaginatedRequestParams, ProgressNotificationParam,
        ProtocolVersion, SubscriptionFilter, Tool,
    },
    service::{ClientLifecycleMode, ClientServiceExt as _, NotificationContext, RunningService},
    transport::{
        StreamableHttpClientTransport, TokioChildProcess,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use shlex::Shlex;
use thiserror::Error;
use tokio::{
    process::Command,
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

use super::{
    http_client::http_client,
    pauses::Pauses,
    server_list::{McpSource, Reach},
    taken_call::{self, Connected, Line},
    taken_tool::TakenTool,
};
use crate::action::{Context, Handler, Host, Hosts, Registry};
use crate::wire::Status;

/// How long a server may take to open the protocol and list its tools.
const OPENING: Duration = Duration::from_secs(30);
/// How long it may take to say whether it tells of changes to its list.
const SUBSCRIBING: Duration = Duration::from_secs(5);
/// The most tools that are taken in from one server, on as many pages, and the
/// most bytes that they have together.
const MAX_TOOLS: usize = 10_000;
const MAX_PAGES: usize = 200;
const MAX_LIST_BYTES: usize = 32 << 20;

/// How a server stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is being reached.
    Opening,
    /// So many of its tools are actions.
    Open(usize),
    /// It is away, for this reason, and tried again. Its actions stay, and fail
    /// UNAVAILABLE.
    Away(String),
}

/// A server that is taken in; dropping it lets the server go and removes its
/// actions.
pub struct Taking {
    standing: watch::Receiver<Standing>,
    _ends: DropGuard,
}

impl Taking {
    /// Takes in the tools of a server. Tools whose names are taken, or whose
    /// schemas are broken, are left out and reported.
    pub fn begin(source: McpSource, registry: Arc<Registry>) -> Self {
        let ends = CancellationToken::new();
        let (tell, standing) = watch::channel(Standing::Opening);
        let intake = Intake {
            server: source.name.as_str().into(),
            shown: shown_name(&source).into(),
            source,
            registry,
            line: Line::default(),
            taken: BTreeMap::new(),
            tell,
        };
        tokio::spawn(intake.run(ends.clone()));
        Self { standing, _ends: ends.drop_guard() }
    }

    /// How it stands, and each change of that.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }
}

/// Why a server is away.
#[derive(Debug, Error)]
enum Fault {
    #[error("it does not start: {0}")]
    Start(#[from] std::io::Error),
    #[error("it does not open the protocol: {0}")]
    Open(String),
    #[error("it does not list its tools: {0}")]
    List(#[from] rmcp::ServiceError),
    #[error("it takes longer than {} s to list its tools", OPENING.as_secs())]
    Slow,
    #[error("its list is longer than {MAX_PAGES} pages, or {MAX_LIST_BYTES} bytes")]
    Endless,
    #[error("it ended")]
    Ended,
}

/// What is told to us by the server.
struct Ears {
    progress: ProgressDispatcher,
    list: watch::Sender<u64>,
}

impl ClientHandler for Ears {
    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::default();
        info.client_info = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        info
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.progress.handle_notification(progress).await;
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list.send_modify(|changes| *changes += 1);
    }
}

struct Intake {
    server: Arc<str>,
    /// What callers are told that it is called.
    shown: Arc<str>,
    source: McpSource,
    registry: Arc<Registry>,
    line: Line,
    /// The actions that were made, by name, with the declaration they are of.
    taken: BTreeMap<String, Tool>,
    tell: watch::Sender<Standing>,
}

impl Intake {
    async fn run(mut self, ends: CancellationToken) {
        let mut pauses = Pauses::default();
        while !ends.is_cancelled() {
            let begun = Instant::now();
            let fault = match ends.run_until_cancelled(self.stand()).await {
                Some(fault) => fault,
                None => break,
            };
            *self.line.0.write() = None;
            let why = fault.to_string();
            tracing::warn!(server = &*self.server, fault = why, "an MCP server is away");
            self.tell.send_replace(Standing::Away(why));
            ends.run_until_cancelled(sleep(pauses.after(begun.elapsed()))).await;
        }
        *self.line.0.write() = None;
        for name in self.taken.keys() {
            self.registry.remove(name);
        }
    }

    /// Reaches the server and follows its list until it ends.
    async fn stand(&mut self) -> Fault {
        let progress = ProgressDispatcher::new();
        let (list, mut changes) = watch::channel(0);
        let ears = Ears { progress: progress.clone(), list };
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let opened = timeout(OPENING, async {
            let running = self.open(ears).await?;
            // Before the list, so that no change after it is missed. Servers
            // without subscriptions tell of changes unasked.
            let subscription = timeout(SUBSCRIBING, running.listen(filter)).await;
            let tools = tools_of(&running).await?;
            Ok::<_, Fault>((running, subscription.ok().and_then(Result::ok), tools))
        });
        let (running, mut subscription, tools) = match opened.await {
            Ok(Ok(opened)) => opened,
            Ok(Err(fault)) => return fault,
            Err(_) => return Fault::Slow,
        };
        *self.line.0.write() = Some(Connected { peer: running.peer().clone(), progress });
        self.follow(tools);
        let closed = running.cancellation_token();
        loop {
            let told = async {
                match &mut subscription {
                    Some(subscription) => subscription.next().await.is_ok_and(|n| n.is_some()),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                open = told => if !open { subscription = None },
                changed = changes.changed() => if changed.is_err() { return Fault::Ended },
                () = ended(&running) => return Fault::Ended,
            }
            let listed = timeout(OPENING, tools_of(&running)).await;
            match listed.unwrap_or(Err(Fault::Slow)) {
                Ok(tools) => self.follow(tools),
                Err(fault) => {
                    closed.cancel();
                    return fault;
                }
            }
        }
    }

    async fn open(&self, ears: Ears) -> Result<RunningService<RoleClient, Ears>, Fault> {
        let auto = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        };
        let opened = match &self.source.reach {
            Reach::Command { command, args, env, cwd } => {
                let mut process = Command::new(command);
                process.args(args).envs(env).stderr(Stdio::inherit()).kill_on_drop(true);
                if let Some(cwd) = cwd {
                    process.current_dir(cwd);
                }
                ears.serve_with_lifecycle(TokioChildProcess::new(process)?, auto).await
            }
            Reach::Url { url, headers } => {
                let client = http_client().map_err(|error| Fault::Open(error.to_string()))?;
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                config.custom_headers = headers.iter().cloned().collect();
                let transport = StreamableHttpClientTransport::with_client(client, config);
                ears.serve_with_lifecycle(transport, auto).await
            }
        };
        opened.map_err(|error| Fault::Open(error.to_string()))
    }

    /// Makes the actions those of a list: new ones are registered, gone ones
    /// removed, changed ones replaced.
    fn follow(&mut self, tools: Vec<Tool>) {
        let mut wanted: BTreeMap<String, (Tool, TakenTool)> = BTreeMap::new();
        for tool in tools {
            match TakenTool::new(&tool, &self.source.prefix) {
                Ok(taken) => match wanted.entry(taken.schema().name().to_string()) {
                    Entry::Vacant(free) => drop(free.insert((tool, taken))),
                    Entry::Occupied(other) => tracing::warn!(
                        server = &*self.server,
                        tool = &*tool.name,
                        action = other.key(),
                        other = &*other.get().0.name,
                        "a tool was not taken in: another one has become the action of its name"
                    ),
                },
                Err(error) => {
                    let (server, tool, error) = (&*self.server, &*tool.name, error.to_string());
                    tracing::warn!(server, tool, error, "a tool was not taken in");
                }
            }
        }
        self.taken.retain(|name, tool| {
            let stays = wanted.get(name).is_some_and(|(now, _)| now == tool);
            if !stays {
                self.registry.remove(name);
            }
            stays
        });
        for (name, (tool, taken)) in wanted {
            if self.taken.contains_key(&name) {
                continue;
            }
            let schema = taken.schema().clone();
            let (taken, server, line) = (Arc::new(taken), self.shown.clone(), self.line.clone());
            match self.registry.register(Ok(schema), TakenAction { taken, server, line }) {
                Ok(()) => {
                    self.taken.insert(name, tool);
                }
                Err(error) => {
                    let (server, error) = (&*self.server, error.to_string());
                    tracing::warn!(server, error, "a tool was not taken in");
                }
            }
        }
        self.tell.send_replace(Standing::Open(self.taken.len()));
    }
}

/// A tool of a server, as what runs an action.
struct TakenAction {
    taken: Arc<TakenTool>,
    server: Arc<str>,
    line: Line,
}

impl Handler for TakenAction {
    fn run(&self, context: Context) -> BoxFuture<'static, Result<(), Status>> {
        let Self { taken, server, line } = self;
        taken_call::run(context, taken.clone(), server.clone(), line.clone()).boxed()
    }

    fn hosts(&self) -> Hosts {
        Host::McpServer(self.server.to_string()).into()
    }
}

/// What callers are told that a server is called. A command line or an address,
/// where it is the name, may have secrets in it.
fn shown_name(source: &McpSource) -> String {
    let name = &source.name;
    match &source.reach {
        Reach::Command { command, .. } if Shlex::new(name).next().as_ref() == Some(command) => {
            let program = Path::new(command).file_name();
            program.map_or(command.clone(), |name| name.to_string_lossy().into_owned())
        }
        Reach::Url { .. } => {
            let url = Url::parse(name).ok().filter(Url::has_host);
            url.map_or(name.clone(), |url| url.origin().ascii_serialization())
        }
        Reach::Command { .. } => name.clone(),
    }
}

/// All tools of a server, up to [`MAX_TOOLS`].
async fn tools_of(running: &RunningService<RoleClient, Ears>) -> Result<Vec<Tool>, Fault> {
    let mut tools = vec![];
    let mut bytes = 0;
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let page = running.list_tools(Some(page)).await?;
        for tool in page.tools {
            bytes += serde_json::to_vec(&tool).map_or(0, |json| json.len());
            tools.push(tool);
        }
        if bytes > MAX_LIST_BYTES {
            return Err(Fault::Endless);
        }
        cursor = page.next_cursor;
        if cursor.is_none() || tools.len() >= MAX_TOOLS {
            tools.truncate(MAX_TOOLS);
            return Ok(tools);
        }
    }
    Err(Fault::Endless)
}

/// Waits until a server has ended.
async fn ended(running: &RunningService<RoleClient, Ears>) {
    /// How often is looked: the SDK tells of the end only whoever gives the
    /// connection up for it.
    const LOOK: Duration = Duration::from_millis(250);
    while !running.is_closed() && !running.peer().is_transport_closed() {
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::server_list::from_argument;

    #[test]
    fn what_may_be_secret_is_not_shown() {
        let check = |argument: &str, expected: &str| {
            let source = from_argument(argument).expect("a server");
            assert_eq!(shown_name(&source), expected);
            let source = McpSource { name: "files".to_owned(), ..source };
            assert_eq!(shown_name(&source), "files");
        };
        check("npx -y server --token abc", "npx");
        check("'/opt/my tools/serve' --token abc", "serve");
        check("https://example.com:8443/mcp/abc?key=abc", "https://example.com:8443");
    }
}

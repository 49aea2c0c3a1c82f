//! What MCP costs: `tools/call` of an action that says a word again, beside the
//! same tool on rmcp's own minimal server and on the official Python SDK's, each
//! in a process of its own, in one run. Over HTTP with 1 and 32 calls in flight,
//! with and without sessions; over stdio with 1; and the memory of a server after
//! 5,000 sessions were opened and ended, and after 5,000 were opened and abandoned,
//! where a server ends those itself.
//!
//! `A11_PYTHON` names the Python that has the SDK; without it that one is left out.

#![allow(missing_docs)]

use std::{
    env,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
use a11_grpc::mcp::{McpOptions, McpServer, http::HttpOptions};
use anyhow::{Context as _, Result, bail, ensure};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
    process::{Child, Command},
};

/// How long each kind of call is measured, after a tenth of that to warm up.
const MEASURED: Duration = Duration::from_secs(3);
const SESSIONS: usize = 5_000;
/// How long a session without a message is kept by those servers that end them.
const IDLE: Duration = Duration::from_secs(15);

/// The servers that are compared; the second is what the others are held against.
const SERVERS: [&str; 3] = ["a11-grpc", "rmcp", "python"];

fn main() -> Result<()> {
    // The client that measures speaks plain HTTP, and asks for a provider all the same.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // This program is its servers too.
    let ended = match (env::var("A11_BENCH_SERVER"), env::var("A11_BENCH_PORT")) {
        (Ok(server), Ok(port)) => runtime.block_on(serve_http(&server, port.parse()?)),
        (Ok(server), Err(_)) => runtime.block_on(serve_stdio(&server)),
        _ => runtime.block_on(measure()),
    };
    runtime.shutdown_background();
    ended
}

// The servers.

fn ours() -> Result<McpServer> {
    let registry = Registry::new();
    let schema = ActionSchema::builder("echo")
        .describe("Says it again.")
        .input(Port::text("word").required())
        .output(Port::text("result"));
    let run = handler(|context: Context| async move {
        let word: String = context.read("word").await?;
        context.write("result", &word).await
    });
    registry.register(schema.build(), run)?;
    let mut options = McpOptions::new(Arc::new(registry));
    // No session is kept for less than a call may take.
    options.deadline = IDLE / 2;
    Ok(McpServer::new(options))
}

#[derive(Clone)]
struct Minimal {
    tool: Tool,
}

impl Minimal {
    fn new() -> Self {
        let text = json!({"type": "object", "properties": {"word": {"type": "string"}},
            "required": ["word"]});
        let schema = text.as_object().cloned().unwrap_or_default();
        Self { tool: Tool::new("echo", "Says it again.", Arc::new(schema)) }
    }
}

impl ServerHandler for Minimal {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == "echo").then(|| self.tool.clone())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![self.tool.clone()]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let word = request.arguments.and_then(|mut arguments| arguments.remove("word"));
        Ok(CallToolResult::structured(json!({"result": word})).into())
    }
}

async fn serve_http(server: &str, port: u16) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    if server == "a11-grpc" {
        let options = HttpOptions { session_idle: IDLE, ..HttpOptions::default() };
        ours()?.serve_http(listener, &options, std::future::pending(), Duration::ZERO).await;
        return Ok(());
    }
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(IDLE);
    let sessions = Arc::new(sessions);
    let config = StreamableHttpServerConfig::default();
    let service = StreamableHttpService::new(|| Ok(Minimal::new()), sessions, config);
    let service = hyper_util::service::TowerToHyperService::new(service);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = service.clone();
        tokio::spawn(async move {
            let executor = hyper_util::rt::TokioExecutor::new();
            let connections = hyper_util::server::conn::auto::Builder::new(executor);
            let io = hyper_util::rt::TokioIo::new(stream);
            let _ = connections.serve_connection(io, service).await;
        });
    }
}

async fn serve_stdio(server: &str) -> Result<()> {
    if server == "a11-grpc" {
        ours()?.serve_stdio(std::future::pending(), Duration::ZERO).await?;
    } else {
        Minimal::new().serve(rmcp::transport::stdio()).await?.waiting().await?;
    }
    Ok(())
}

// The measurements.

/// Starts a server: over HTTP on a port, else on its input and output.
fn start(server: &str, port: Option<u16>) -> Result<Child> {
    let mut command = match server {
        "python" => {
            let mut command = Command::new(env::var("A11_PYTHON")?);
            command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/mcp_python_server.py"));
            command.arg(port.map_or("stdio".to_owned(), |port| port.to_string()));
            command
        }
        server => {
            let mut command = Command::new(env::current_exe()?);
            command.env("A11_BENCH_SERVER", server);
            if let Some(port) = port {
                command.env("A11_BENCH_PORT", port.to_string());
            }
            command
        }
    };
    command.kill_on_drop(true).stderr(Stdio::null());
    if port.is_none() {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
    }
    Ok(command.spawn()?)
}

/// One figure of each server that was measured.
type Figures = Vec<(String, Vec<Option<f64>>)>;

async fn measure() -> Result<()> {
    let mut figures: Figures = vec![];
    for (at, server) in SERVERS.into_iter().enumerate() {
        if server == "python" && env::var_os("A11_PYTHON").is_none() {
            println!("python is left out: A11_PYTHON is not set");
            continue;
        }
        let mut note = |name: &str, figure: f64| {
            // It takes minutes: said as it goes.
            eprintln!("{server}: {name}: {figure:.1}");
            let known = figures.iter().position(|(known, _)| known == name);
            let row = known.unwrap_or_else(|| {
                figures.push((name.to_owned(), vec![None; SERVERS.len()]));
                figures.len() - 1
            });
            figures[row].1[at] = Some(figure);
        };
        measure_http(server, &mut note).await.with_context(|| format!("{server} over HTTP"))?;
        let taken = over_stdio(server).await.with_context(|| format!("{server} over stdio"))?;
        note_all("stdio, 1 in flight", taken, &mut note);
    }
    println!("{:44} {:>12} {:>12} {:>12}", "", SERVERS[0], SERVERS[1], SERVERS[2]);
    for (name, row) in figures {
        let cell =
            |figure: &Option<f64>| figure.map_or("-".into(), |figure| format!("{figure:.1}"));
        let [a, b, c] = [0, 1, 2].map(|at| cell(&row[at]));
        println!("{name:44} {a:>12} {b:>12} {c:>12}");
    }
    Ok(())
}

fn note_all(name: &str, mut taken: Vec<Duration>, note: &mut impl FnMut(&str, f64)) {
    taken.sort();
    let at = |part: f64| taken[((taken.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
    note(&format!("{name}: calls/s"), taken.len() as f64 / MEASURED.as_secs_f64());
    note(&format!("{name}: p50 µs"), at(0.5));
    note(&format!("{name}: p99 µs"), at(0.99));
}

async fn measure_http(server: &str, note: &mut impl FnMut(&str, f64)) -> Result<()> {
    let free = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let mut child = start(server, Some(free.port()))?;
    let http = Http { client: reqwest::Client::new(), url: format!("http://{free}/mcp") };
    http.ready().await?;
    for in_flight in [1, 32] {
        let session = Some(http.session().await?);
        let taken = http.under_load(in_flight, session).await?;
        note_all(&format!("HTTP with sessions, {in_flight} in flight"), taken, note);
        let taken = http.under_load(in_flight, None).await?;
        note_all(&format!("HTTP without, {in_flight} in flight"), taken, note);
    }
    let process = child.id().context("it runs")?;
    http.open_and_end(SESSIONS / 10).await?;
    let before = resident(process)?;
    let begun = Instant::now();
    http.open_and_end(SESSIONS).await?;
    note("sessions opened and ended a second", SESSIONS as f64 / begun.elapsed().as_secs_f64());
    note("MiB resident before 5,000 sessions", before);
    note("MiB resident after", resident(process)?);
    if server != "python" {
        // Twice: what an allocator keeps grows less each time, a leak as much.
        for time in ["first", "second"] {
            let abandoned = http.open_and_abandon(SESSIONS).await?;
            note(&format!("MiB resident, {time} 5,000 abandoned"), resident(process)?);
            tokio::time::sleep(IDLE + Duration::from_secs(2)).await;
            for session in abandoned {
                let answer = http.post(Some(&session), &call(1)).send().await?;
                ensure!(answer.status() == 404, "an abandoned session: {}", answer.status());
            }
            note(&format!("MiB resident, {time} 5,000 timed out"), resident(process)?);
        }
    }
    child.kill().await?;
    Ok(())
}

#[derive(Clone)]
struct Http {
    client: reqwest::Client,
    url: String,
}

impl Http {
    /// Waits until the server answers.
    async fn ready(&self) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            if self.session().await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("it does not answer")
    }

    fn post(&self, session: Option<&str>, body: &Value) -> reqwest::RequestBuilder {
        let request = self
            .client
            .post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(body.to_string());
        match session {
            Some(session) => request
                .header("mcp-session-id", session)
                .header("mcp-protocol-version", "2025-11-25"),
            None => request,
        }
    }

    async fn session(&self) -> Result<String> {
        let answer = self.post(None, &initialize()).send().await?.error_for_status()?;
        let id = answer.headers().get("mcp-session-id").context("a session")?.to_str()?.to_owned();
        answer.bytes().await?;
        let body = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.post(Some(&id), &body).send().await?.error_for_status()?.bytes().await?;
        Ok(id)
    }

    async fn call(&self, session: Option<&str>, id: usize) -> Result<()> {
        let mut body = call(id);
        let mut request = match session {
            Some(session) => self.post(Some(session), &body),
            None => {
                body["params"]["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                });
                self.post(None, &body)
            }
        };
        if session.is_none() {
            request = request
                .header("mcp-protocol-version", "2026-07-28")
                .header("mcp-method", "tools/call")
                .header("mcp-name", "echo");
        }
        let answer = request.send().await?.error_for_status()?.bytes().await?;
        let is_right = answer.windows(WORD.len()).any(|part| part == WORD.as_bytes());
        ensure!(is_right, "{}", String::from_utf8_lossy(&answer));
        Ok(())
    }

    /// Calls until the time is up; how long each took.
    async fn under_load(&self, in_flight: usize, session: Option<String>) -> Result<Vec<Duration>> {
        let numbers = Arc::new(AtomicUsize::new(1));
        let begin = Instant::now() + MEASURED / 10;
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..in_flight {
            let (http, session, numbers) = (self.clone(), session.clone(), numbers.clone());
            callers.spawn(async move {
                let mut taken = vec![];
                while begin + MEASURED > Instant::now() {
                    let called = Instant::now();
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    http.call(session.as_deref(), number).await?;
                    if called >= begin {
                        taken.push(called.elapsed());
                    }
                }
                anyhow::Ok(taken)
            });
        }
        let mut all = vec![];
        while let Some(taken) = callers.join_next().await {
            all.extend(taken??);
        }
        Ok(all)
    }

    async fn open_and_end(&self, sessions: usize) -> Result<()> {
        self.open(sessions, true).await.map(|_| ())
    }

    async fn open_and_abandon(&self, sessions: usize) -> Result<Vec<String>> {
        self.open(sessions, false).await
    }

    /// Opens sessions, 16 at once, and ends each or leaves it; their ids.
    async fn open(&self, sessions: usize, ends: bool) -> Result<Vec<String>> {
        let left = Arc::new(AtomicUsize::new(sessions));
        let mut openers = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let (http, left) = (self.clone(), left.clone());
            openers.spawn(async move {
                let take = |left| usize::checked_sub(left, 1);
                let mut ids = vec![];
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                    let session = http.session().await?;
                    if ends {
                        let end = http.client.delete(&http.url).header("mcp-session-id", &session);
                        end.send().await?.error_for_status()?.bytes().await?;
                    }
                    ids.push(session);
                }
                anyhow::Ok(ids)
            });
        }
        let mut ids = vec![];
        while let Some(opened) = openers.join_next().await {
            ids.extend(opened??);
        }
        Ok(ids)
    }
}

const WORD: &str = "a word that is said again";

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"}}})
}

fn call(id: usize) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": "echo", "arguments": {"word": WORD}}})
}

/// How much memory a process holds, in MiB.
fn resident(process: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib / 1024.0)
}

async fn over_stdio(server: &str) -> Result<Vec<Duration>> {
    let mut child = start(server, None)?;
    let mut input = child.stdin.take().context("piped")?;
    let mut output = BufReader::new(child.stdout.take().context("piped")?).lines();
    input.write_all(format!("{}\n", initialize()).as_bytes()).await?;
    output.next_line().await?.context("an answer")?;
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    input.write_all(format!("{initialized}\n").as_bytes()).await?;
    let mut taken = vec![];
    let begin = Instant::now() + MEASURED / 10;
    let mut number = 1;
    while begin + MEASURED > Instant::now() {
        let called = Instant::now();
        input.write_all(format!("{}\n", call(number)).as_bytes()).await?;
        let answer = output.next_line().await?.context("an answer")?;
        ensure!(answer.contains(WORD), "{answer}");
        if called >= begin {
            taken.push(called.elapsed());
        }
        number += 1;
    }
    child.kill().await?;
    Ok(taken)
}

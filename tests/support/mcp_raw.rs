//! MCP as it is written: messages of any protocol version on lines and over HTTP,
//! and everything that comes back, with no SDK between.

#![allow(missing_docs, dead_code, unreachable_pub)]

use std::{collections::VecDeque, time::Duration};

use a11_grpc::mcp::McpServer;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf,
        WriteHalf,
    },
    task::JoinHandle,
    time::timeout,
};

const PATIENCE: Duration = Duration::from_secs(60);

pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it takes too long")
}

/// Every protocol version there is; the last has neither handshake nor sessions.
pub const VERSIONS: [&str; 5] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
pub const NEWEST: &str = VERSIONS[4];

/// A request as clients of a protocol version write it.
pub fn request(version: &str, id: impl Into<Value>, method: &str, params: Value) -> Value {
    let mut request =
        json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params});
    if version == NEWEST {
        let meta = &mut request["params"]["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = version.into();
        meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "1"});
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    }
    request
}

pub fn call(version: &str, id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    request(version, id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

/// The same, with its progress wanted.
pub fn call_telling(token: &str, mut call: Value) -> Value {
    call["params"]["_meta"]["progressToken"] = token.into();
    call
}

pub fn initialize(version: &str) -> Value {
    let params = json!({"protocolVersion": version, "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}});
    request("", 0, "initialize", params)
}

pub fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

pub fn cancelled(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": id.into()}})
}

/// A client on lines.
pub struct OnLines {
    write: WriteHalf<DuplexStream>,
    read: Lines<BufReader<ReadHalf<DuplexStream>>>,
}

impl OnLines {
    /// Connects, and opens the protocol where the version has that; the answer.
    pub async fn open(server: &McpServer, version: &str) -> (Self, Value) {
        let (here, there) = tokio::io::duplex(64 * 1024);
        let server = server.clone();
        tokio::spawn(async move {
            let (input, output) = tokio::io::split(there);
            server.serve_lines(input, output, std::future::pending(), PATIENCE).await
        });
        let (read, write) = tokio::io::split(here);
        let mut client = Self { write, read: BufReader::new(read).lines() };
        if version == NEWEST {
            return (client, Value::Null);
        }
        client.send(&initialize(version)).await;
        let opened = client.next().await.expect("an answer");
        client.send(&initialized()).await;
        (client, opened)
    }

    pub async fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string()).await;
    }

    pub async fn send_text(&mut self, line: &str) {
        soon(self.write.write_all(format!("{line}\n").as_bytes())).await.expect("written");
    }

    pub async fn next(&mut self) -> Option<Value> {
        let line = soon(self.read.next_line()).await.expect("read");
        line.map(|line| serde_json::from_str(&line).expect("a JSON line"))
    }

    /// What comes up to the answer to a request.
    pub async fn ask(&mut self, request: &Value) -> Vec<Value> {
        self.send(request).await;
        let mut told = vec![];
        while told.last().is_none_or(|last: &Value| last["id"] != request["id"]) {
            told.push(self.next().await.expect("an answer"));
        }
        told
    }

    /// Sends no more; everything that still comes.
    pub async fn rest(mut self) -> Vec<Value> {
        self.write.shutdown().await.expect("ended");
        let mut told = vec![];
        while let Some(message) = self.next().await {
            told.push(message);
        }
        told
    }
}

/// A client over HTTP.
#[derive(Clone)]
pub struct OverHttp {
    client: reqwest::Client,
    url: String,
    version: String,
    /// The session, where the version has them.
    pub session: Option<String>,
    /// Sent with every request.
    pub headers: Vec<(String, String)>,
}

impl OverHttp {
    /// Opens the protocol, where the version has that; the answer.
    pub async fn open(url: &str, version: &str) -> (Self, Value) {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = reqwest::Client::new();
        let (url, version) = (url.to_owned(), version.to_owned());
        let mut client = Self { client, url, version, session: None, headers: vec![] };
        if client.version == NEWEST {
            return (client, Value::Null);
        }
        let response = client.send(Method::POST, Some(&initialize(&client.version))).await;
        let session = response.headers()["mcp-session-id"].to_str().expect("text").to_owned();
        let opened = Events::of(response).all().await;
        client.session = Some(session);
        assert_eq!(client.tell(&initialized()).await, StatusCode::ACCEPTED);
        (client, opened[0].clone())
    }

    pub async fn send(&self, method: Method, message: Option<&Value>) -> Response {
        let mut request = self
            .client
            .request(method, &self.url)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json");
        let or_none = |request: RequestBuilder, name, value: Option<&str>| match value {
            Some(value) => request.header(name, value),
            None => request,
        };
        request = or_none(request, "mcp-session-id", self.session.as_deref());
        let is_opening = message.is_some_and(|message| message["method"] == "initialize");
        if !is_opening {
            request = request.header("mcp-protocol-version", &self.version);
        }
        if let (true, Some(message)) = (self.version == NEWEST, message) {
            request = or_none(request, "mcp-method", message["method"].as_str());
            request = or_none(request, "mcp-name", message["params"]["name"].as_str());
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let body = message.map(Value::to_string).unwrap_or_default();
        soon(request.body(body).send()).await.expect("an answer")
    }

    /// A request; what comes for it.
    pub async fn begin(&self, request: &Value) -> Events {
        let response = self.send(Method::POST, Some(request)).await;
        assert_eq!(response.status(), StatusCode::OK, "{request}");
        Events::of(response)
    }

    /// A request, and all that came for it.
    pub async fn ask(&self, request: &Value) -> Vec<Value> {
        self.begin(request).await.all().await
    }

    /// The same, while the test goes on.
    pub fn begin_in_background(&self, request: &Value) -> JoinHandle<Vec<Value>> {
        let (client, request) = (self.clone(), request.clone());
        tokio::spawn(async move { client.ask(&request).await })
    }

    /// A notification.
    pub async fn tell(&self, notification: &Value) -> StatusCode {
        self.send(Method::POST, Some(notification)).await.status()
    }

    /// What comes that is no answer to a request: the session's own stream.
    pub async fn listen(&self) -> Events {
        let response = self.send(Method::GET, None).await;
        assert_eq!(response.status(), StatusCode::OK);
        Events::of(response)
    }

    /// Ends the session.
    pub async fn end(&self) {
        assert_eq!(self.send(Method::DELETE, None).await.status(), StatusCode::NO_CONTENT);
    }
}

/// The messages of one response. Dropped, the connection is too.
pub struct Events {
    response: Response,
    text: Vec<u8>,
    messages: VecDeque<Value>,
}

impl Events {
    pub fn of(response: Response) -> Self {
        Self { response, text: vec![], messages: VecDeque::new() }
    }

    pub async fn next(&mut self) -> Option<Value> {
        while self.messages.is_empty() {
            let Ok(Some(part)) = soon(self.response.chunk()).await else { break };
            self.text.extend_from_slice(&part);
            while let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                self.messages.extend(message(&line));
            }
        }
        let last = std::mem::take(&mut self.text);
        match self.messages.is_empty() {
            // A body that is no event but plain JSON.
            true => message(&last),
            false => {
                self.text = last;
                self.messages.pop_front()
            }
        }
    }

    pub async fn all(mut self) -> Vec<Value> {
        let mut all = vec![];
        while let Some(message) = self.next().await {
            all.push(message);
        }
        all
    }
}

fn message(line: &[u8]) -> Option<Value> {
    serde_json::from_slice(line.strip_prefix(b"data:").unwrap_or(line)).ok()
}

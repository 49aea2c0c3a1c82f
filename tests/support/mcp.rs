//! A real MCP server and the official SDK's client, over each transport and
//! protocol generation.

#![allow(missing_docs, dead_code, unreachable_pub)]

use std::{sync::Arc, time::Duration};

use a11_grpc::mcp::{McpOptions, McpServer, http::HttpOptions};
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        CallToolRequestParams, ClientRequest, NumberOrString, ProgressNotificationParam,
        ProtocolVersion, Request, ServerResult,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt as _, NotificationContext, PeerRequestOptions,
        RunningService, ServiceError,
    },
    transport::StreamableHttpClientTransport,
};
use serde_json::{Map, Value};
use tokio::{net::TcpListener, sync::watch, time::timeout};

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How a client reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Streamable HTTP with a session.
    Http,
    /// Streamable HTTP of the newest protocol version, which has no sessions.
    NewestHttp,
    /// Lines.
    Lines,
    /// Lines, of the newest protocol version.
    NewestLines,
}

pub const WAYS: [Way; 4] = [Way::Http, Way::NewestHttp, Way::Lines, Way::NewestLines];

impl Way {
    fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Http | Self::Lines => ClientLifecycleMode::Initialize,
            Self::NewestHttp | Self::NewestLines => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
        }
    }
}

/// A client that keeps what it is told.
#[derive(Default)]
pub struct Told {
    pub progress: watch::Sender<Vec<ProgressNotificationParam>>,
    pub list_changes: watch::Sender<usize>,
}

impl ClientHandler for Told {
    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.progress.send_modify(|all| all.push(progress));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_changes.send_modify(|count| *count += 1);
    }
}

pub type Client = RunningService<RoleClient, Told>;

/// A server on a free port; it stops with the test's runtime.
pub struct TestServer {
    pub server: McpServer,
    pub url: String,
}

impl TestServer {
    pub async fn start(options: McpOptions) -> Self {
        Self::start_with(options, HttpOptions::default()).await
    }

    pub async fn start_with(options: McpOptions, http: HttpOptions) -> Self {
        rustls_provider();
        let server = McpServer::new(options);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
        let serving = server.clone();
        tokio::spawn(async move {
            serving.serve_http(listener, &http, std::future::pending(), PATIENCE).await;
        });
        Self { server, url }
    }

    pub async fn client(&self, way: Way) -> Client {
        let told = Told::default();
        match way {
            Way::Http | Way::NewestHttp => {
                let transport = StreamableHttpClientTransport::from_uri(self.url.as_str());
                told.serve_with_lifecycle(transport, way.lifecycle()).await.expect("connects")
            }
            Way::Lines | Way::NewestLines => {
                let (here, there) = tokio::io::duplex(64 * 1024);
                let server = self.server.clone();
                tokio::spawn(async move {
                    let (input, output) = tokio::io::split(there);
                    let never = std::future::pending();
                    server.serve_lines(input, output, never, PATIENCE).await
                });
                told.serve_with_lifecycle(here, way.lifecycle()).await.expect("connects")
            }
        }
    }
}

/// Calls a tool with some `_meta`; the result as JSON, and what was narrated.
pub async fn call(
    client: &Client,
    tool: &str,
    arguments: &Value,
    meta: Map<String, Value>,
) -> Result<(Value, Vec<String>), ServiceError> {
    let mut params = CallToolRequestParams::new(tool.to_owned());
    params.arguments = arguments.as_object().cloned();
    let request = ClientRequest::CallToolRequest(Request::new(params));
    let mut options = PeerRequestOptions::no_options();
    options.meta = Some(rmcp::model::RequestMetaObject::from(meta));
    let mut progress = client.service().progress.subscribe();
    let request = client.send_cancellable_request(request, options).await?;
    let token = request.progress_token.clone();
    let result = match timeout(PATIENCE, request.await_response()).await.expect("an answer")? {
        ServerResult::CallToolResult(result) => serde_json::to_value(result).expect("JSON"),
        other => panic!("not a tool result: {other:?}"),
    };
    let of_call = |all: &Vec<ProgressNotificationParam>| -> Vec<String> {
        let own = all.iter().filter(|one| one.progress_token == token);
        own.filter_map(|one| one.message.clone()).collect()
    };
    // The SDK hands notifications over in tasks of their own.
    let logged = result["_meta"]["to.a11/log"].as_str().unwrap_or_default().len();
    let told = timeout(PATIENCE, progress.wait_for(|all| of_call(all).concat().len() >= logged));
    let told = of_call(&told.await.expect("the narration").expect("open"));
    Ok((result, told))
}

pub fn rustls_provider() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// The options of a server of these actions.
pub fn options(registry: Arc<a11_grpc::action::Registry>) -> McpOptions {
    McpOptions::new(registry)
}

/// A request id of a number.
pub fn id(number: i64) -> NumberOrString {
    NumberOrString::Number(number)
}

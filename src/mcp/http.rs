//! Streamable HTTP: a service to mount in any program.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{
    HeaderValue, Request, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::SessionConfig,
};
use tokio_util::task::TaskTracker;

use super::{
    refusal::{Refusal, fault},
    request_body::{RequestBody, Seen},
    server::McpServer,
    sessions::{Sessions, with_refusal},
    tools::Tools,
};
use crate::listen::Identity;

/// Where the service is on its own listener.
pub const PATH: &str = "/mcp";
/// Where it listens unless told otherwise.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:8013";

/// In a list of hosts or origins: all of them.
const ALL: &str = "*";

/// How long answers that were made have to be written at shutdown.
pub(super) const FLUSH: Duration = Duration::from_secs(1);

/// Who may reach the service, and what it keeps of whom.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Hosts, or `HOST:PORT`, that requests may be for, beside this machine's
    /// loopback: those under which a proxy passes requests on. A request for
    /// another host is answered 403, for it may be a page's whose name was bound
    /// to this address. `*` is every host: for a server that others may reach
    /// under any name. None by default.
    pub allowed_hosts: Vec<String>,
    /// Web origins, `SCHEME://HOST[:PORT]`, whose pages may call beside those
    /// from this machine's loopback. A request that names another is answered
    /// 403; programs that are no browser name none. `*` is every origin. None by default.
    pub allowed_origins: Vec<String>,
    /// How long a session without a message is kept, for protocol versions that
    /// have sessions. Never shorter than a call may take. Default 300 s.
    pub session_idle: Duration,
    /// How long after it was opened a session is kept that its client says no more
    /// to. Default 30 s.
    pub session_initialization: Duration,
    /// How many sessions there are at most; past it new ones are answered 503.
    /// Default 10,000.
    pub max_sessions: usize,
    /// The largest request, in bytes. Default 4 MiB.
    pub max_request_bytes: usize,
    /// How many connections a listener holds; more wait to be accepted. Default
    /// 1,024.
    pub max_connections: usize,
    /// How long a connection stands without a request on it, streams included; one of
    /// HTTP/1.1 30 s at most. Default 300 s.
    pub connection_idle: Duration,
    /// What a listener proves itself with; `None`, the default, serves in the clear.
    /// Of no meaning where the service is mounted elsewhere.
    pub identity: Option<Identity>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            allowed_hosts: vec![],
            allowed_origins: vec![],
            session_idle: Duration::from_secs(300),
            session_initialization: Duration::from_secs(30),
            max_sessions: 10_000,
            max_request_bytes: 4 << 20,
            max_connections: 1024,
            connection_idle: Duration::from_secs(300),
            identity: None,
        }
    }
}

/// The service: an axum or tower one for requests of any path. Cheap to clone.
/// In axum: `Router::new().route_service("/mcp", service)`.
#[derive(Clone)]
pub struct HttpService {
    service: StreamableHttpService<Tools, Sessions>,
    sessions: Arc<Sessions>,
    /// Answers on their way.
    answers: TaskTracker,
    max_request_bytes: usize,
}

/// The body of an answer.
pub type HttpBody = BoxBody<Bytes, Infallible>;

impl McpServer {
    /// The server over Streamable HTTP, for every protocol version on one path.
    pub fn http_service(&self, options: &HttpOptions) -> HttpService {
        // Past the deadline of the longest call there is nothing to wait for.
        let longest_call = self.0.options.deadline.saturating_add(FLUSH);
        let mut sessions = SessionConfig::default();
        sessions.keep_alive = Some(options.session_idle.max(longest_call));
        sessions.init_timeout = Some(options.session_initialization);
        // Kept past their end are the streams of cancelled requests alone.
        sessions.completed_cache_ttl = Duration::ZERO;
        let sessions =
            Sessions::new(sessions, options.max_sessions, options.session_initialization);
        let loopback = ["localhost", "127.0.0.1", "[::1]"];
        let hosts = loopback.into_iter().map(str::to_owned);
        let origins = ["http", "https"]
            .into_iter()
            .flat_map(|scheme| loopback.map(|host| format!("{scheme}://{host}:*")));
        let named_origins = options.allowed_origins.iter().map(|origin| with_port(origin));
        let mut config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(hosts.chain(options.allowed_hosts.iter().cloned()))
            .with_allowed_origins(origins.chain(named_origins))
            .enforce_origin_validation()
            .with_max_request_body_bytes(options.max_request_bytes);
        if options.allowed_hosts.iter().any(|host| host == ALL) {
            config = config.disable_allowed_hosts();
        }
        if options.allowed_origins.iter().any(|origin| origin == ALL) {
            config = config.disable_allowed_origins();
        }
        let server = self.clone();
        let service =
            StreamableHttpService::new(move || Ok(Tools::new(&server)), sessions.clone(), config);
        let max_request_bytes = options.max_request_bytes;
        HttpService { service, sessions, answers: TaskTracker::new(), max_request_bytes }
    }
}

impl HttpService {
    /// Answers one request.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<HttpBody>
    where
        B: Body + Send + 'static,
        B::Error: std::fmt::Display,
    {
        let opens = request.method() == http::Method::POST
            && !request.headers().contains_key("mcp-session-id")
            && !request.headers().contains_key("mcp-protocol-version");
        if opens && self.sessions.is_full().await {
            let mut response =
                answer(StatusCode::SERVICE_UNAVAILABLE, "There are too many sessions");
            response.headers_mut().insert(RETRY_AFTER, http::HeaderValue::from_static("5"));
            return response;
        }
        let is_call = request.method() == http::Method::POST;
        let ends_session = request.method() == http::Method::DELETE;
        let seen = Seen::default();
        let most = self.max_request_bytes;
        let request = request.map(|body| RequestBody::new(body, most, seen.clone()));
        let (mut response, refusal) = with_refusal(self.service.handle(request)).await;
        if let Some(refusal) = refusal.or_else(|| seen.take_refusal()) {
            return refused(refusal);
        }
        if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE
            && let Some(body) = seen.whole()
        {
            // The SDK says so of a body that it has read and is no message, too.
            return refused(fault(&body).unwrap_or(Refusal::NotAMessage(None)));
        }
        if ends_session && response.status() == StatusCode::ACCEPTED {
            // The session is over by now. Some clients take 202 for a failure.
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        if !is_call {
            return response;
        }
        let written = self.answers.token();
        response.map(|body| {
            let body = body.map_frame(move |frame| {
                // Counted until the body is dropped.
                let _ = &written;
                frame
            });
            body.boxed()
        })
    }

    /// How many sessions are open.
    pub async fn sessions(&self) -> usize {
        self.sessions.len().await
    }

    /// Ends every session and every stream.
    pub fn close(&self) {
        self.service.config.cancellation_token.cancel();
    }

    /// Waits until every answer that was begun is written.
    pub(super) async fn answered(&self) {
        self.answers.close();
        self.answers.wait().await;
    }
}

impl<B> tower::Service<Request<B>> for HttpService
where
    B: Body + Send + 'static,
    B::Error: std::fmt::Display,
    B::Data: Send,
{
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.handle(request).await) })
    }
}

/// An origin with its port, which origins leave out where it is the scheme's.
fn with_port(origin: &str) -> String {
    let port = url::Url::parse(origin).ok().and_then(|url| match url.port() {
        Some(_) => None,
        None => url.port_or_known_default(),
    });
    port.map_or_else(
        || origin.to_owned(),
        |port| format!("{}:{port}", origin.trim_end_matches('/')),
    )
}

/// A JSON-RPC error for a request that was not taken.
fn refused(refusal: Refusal) -> Response<HttpBody> {
    let status = match refusal {
        Refusal::TooMany(_) => StatusCode::TOO_MANY_REQUESTS,
        Refusal::TooManyValues(..) => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::BAD_REQUEST,
    };
    let mut response = Response::new(Full::new(refusal.answer()).boxed());
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

pub(super) fn answer(status: StatusCode, text: &'static str) -> Response<HttpBody> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}

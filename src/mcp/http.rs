//! Streamable HTTP: a service to mount in any program, and a listener of its
//! own with the path [`PATH`].

use std::{convert::Infallible, future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{
    HeaderValue, Request, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::SessionConfig,
};
use tokio::{net::TcpListener, sync::Semaphore, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    refusal::{Refusal, fault},
    request_body::{RequestBody, Seen},
    server::McpServer,
    sessions::{Sessions, with_refusal},
    tools::Tools,
};

/// Where the service is on its own listener.
pub const PATH: &str = "/mcp";
/// Where it listens unless told otherwise.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:8013";

/// In a list of hosts or origins: all of them.
const ALL: &str = "*";

/// How long a connection may take to say what it wants.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long answers that were made have to be written at shutdown.
const FLUSH: Duration = Duration::from_secs(1);
/// How long after a failed accept the next one is tried.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Who may reach the service, and what it keeps of whom.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Hosts, or `HOST:PORT`, that requests may be for, beside this machine's
    /// loopback: those under which a proxy passes requests on. A request for
    /// another host is answered 403, for it may be a page's whose name was bound
    /// to this address. `*` is every host: for a server that others may reach
    /// under any name.
    pub allowed_hosts: Vec<String>,
    /// Web origins, `SCHEME://HOST[:PORT]`, whose pages may call beside those
    /// from this machine's loopback. A request that names another is answered
    /// 403; programs that are no browser name none. `*` is every origin.
    pub allowed_origins: Vec<String>,
    /// How long a session without a message is kept, for protocol versions that
    /// have sessions. Never shorter than a call may take.
    pub session_idle: Duration,
    /// How long after it was opened a session is kept that its client says no more
    /// to.
    pub session_initialization: Duration,
    /// How many sessions there are at most; past it new ones are answered 503.
    pub max_sessions: usize,
    /// The largest request, in bytes.
    pub max_request_bytes: usize,
    /// How many connections a listener holds.
    pub max_connections: usize,
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

    /// Serves on a listener until `stop` resolves; then takes no more calls and
    /// lets those that run end for `grace`. The path is [`PATH`].
    pub async fn serve_http(
        &self,
        listener: TcpListener,
        options: &HttpOptions,
        stop: impl Future<Output = ()>,
        grace: Duration,
    ) {
        let service = self.http_service(options);
        let on_path = TowerToHyperService::new(OnPath(service.clone()));
        let mut connections = auto::Builder::new(TokioExecutor::new());
        connections.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
        connections.http2().timer(TokioTimer::new());
        let graceful = GracefulShutdown::new();
        let cut = CancellationToken::new();
        let places = Arc::new(Semaphore::new(options.max_connections));
        tokio::pin!(stop);
        loop {
            let accepted = async {
                // The semaphore is never closed.
                let place = places.clone().acquire_owned().await.ok();
                (place, listener.accept().await)
            };
            let (place, stream) = tokio::select! {
                () = &mut stop => break,
                (place, accepted) = accepted => match accepted {
                    Ok((stream, _)) => (place, stream),
                    Err(error) => {
                        // Commonly too many open files: some will be closed.
                        tracing::warn!(%error, "a connection was not accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
            };
            let _ = stream.set_nodelay(true);
            let connection = connections.serve_connection(TokioIo::new(stream), on_path.clone());
            let connection = graceful.watch(connection.into_owned());
            let cut = cut.clone();
            tokio::spawn(async move {
                let _place = place;
                if let Some(Err(error)) = cut.run_until_cancelled(connection).await {
                    tracing::debug!(error = &*error, "a connection ended badly");
                }
            });
        }
        drop(listener);
        let drained = async {
            self.drain().await;
            // Answers are written; then streams that never end are ended.
            let _ = timeout(FLUSH, service.answered()).await;
        };
        let _ = timeout(grace, drained).await;
        service.close();
        let _ = timeout(FLUSH, graceful.shutdown()).await;
        cut.cancel();
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
        if let Some(refusal) = refusal {
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
    async fn answered(&self) {
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
        _ => StatusCode::BAD_REQUEST,
    };
    let mut response = Response::new(Full::new(refusal.answer()).boxed());
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn answer(status: StatusCode, text: &'static str) -> Response<HttpBody> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}

/// The service under [`PATH`] alone.
#[derive(Clone)]
struct OnPath(HttpService);

impl<B> tower::Service<Request<B>> for OnPath
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
        if request.uri().path().trim_end_matches('/') != PATH {
            return Box::pin(async { Ok(answer(StatusCode::NOT_FOUND, "The path is /mcp")) });
        }
        tower::Service::call(&mut self.0, request)
    }
}

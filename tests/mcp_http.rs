//! MCP over HTTP as strangers use it: who is refused, with which code, and what
//! is kept of whom.

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/mcp.rs"]
mod mcp;

use std::{sync::Arc, time::Duration};

use a11_grpc::action::{ActionSchema, Context, Port, handler};
use a11_grpc::mcp::http::{HttpOptions, HttpService};
use a11_grpc::mcp::{McpOptions, McpServer};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use mcp::PATIENCE;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Notify,
    time::timeout,
};

async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it takes too long")
}

fn service(options: &HttpOptions) -> HttpService {
    McpServer::new(McpOptions::new(fixtures::registry())).http_service(options)
}

/// A POST with headers beside those every request has; a later one replaces.
fn post(body: &Value, headers: &[(&str, &str)]) -> Request<Full<Bytes>> {
    let mut request = Request::post("/mcp").body(Full::from(body.to_string())).expect("a request");
    let usual = [
        ("host", "localhost:8013"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    for (name, value) in usual.iter().chain(headers) {
        let name: http::HeaderName = name.parse().expect("a name");
        request.headers_mut().insert(name, value.parse().expect("a value"));
    }
    request
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}})
}

fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call",
        "params": {"name": tool, "arguments": arguments}})
}

/// Opens a session.
async fn session(service: &HttpService) -> String {
    let response = service.handle(post(&initialize(), &[])).await;
    assert_eq!(response.status(), StatusCode::OK);
    let id = response.headers()["mcp-session-id"].to_str().expect("text").to_owned();
    message(response).await;
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let response = service.handle(post(&initialized, &[("mcp-session-id", &id)])).await;
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    id
}

/// The one JSON message of an answer, plain or as an event.
async fn message<B>(response: Response<B>) -> Value
where
    B: http_body::Body + Unpin,
    B::Error: std::fmt::Debug,
{
    let body = soon(response.into_body().collect()).await.expect("a body").to_bytes();
    let text = std::str::from_utf8(&body).expect("UTF-8");
    let lines = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let found: Vec<Value> =
        lines.chain([text]).filter_map(|j| serde_json::from_str(j).ok()).collect();
    let [one] = &found[..] else { panic!("not one message: {text}") };
    one.clone()
}

#[tokio::test]
async fn a_request_from_elsewhere_is_refused_before_it_is_read() {
    let named = HttpOptions {
        allowed_hosts: vec!["tools.example".into()],
        allowed_origins: vec!["https://app.example".into()],
        ..HttpOptions::default()
    };
    let all = HttpOptions {
        allowed_hosts: vec!["*".into()],
        allowed_origins: vec!["*".into()],
        ..HttpOptions::default()
    };
    let check = async |options: &HttpOptions, headers: &[(&str, &str)], expected: StatusCode| {
        let service = service(options);
        // What is refused is not JSON either: nobody looked.
        let (body, refused) = match expected {
            StatusCode::OK => (initialize(), false),
            _ => (json!("not a message"), true),
        };
        let response = service.handle(post(&body, headers)).await;
        assert_eq!(response.status(), expected, "{headers:?}");
        assert_eq!(service.sessions().await == 0, refused, "{headers:?}");
    };
    let local = HttpOptions::default();
    check(&local, &[], StatusCode::OK).await;
    check(&local, &[("host", "127.0.0.1:9")], StatusCode::OK).await;
    check(&local, &[("host", "[::1]:9")], StatusCode::OK).await;
    check(&local, &[("host", "evil.example")], StatusCode::FORBIDDEN).await;
    check(&local, &[("host", "localhost.evil.example")], StatusCode::FORBIDDEN).await;
    check(&local, &[("host", "127.0.0.1.nip.example")], StatusCode::FORBIDDEN).await;
    check(&local, &[("origin", "http://localhost:6274")], StatusCode::OK).await;
    check(&local, &[("origin", "http://evil.example")], StatusCode::FORBIDDEN).await;
    check(&local, &[("origin", "null")], StatusCode::FORBIDDEN).await;
    check(&named, &[("host", "tools.example")], StatusCode::OK).await;
    check(&named, &[("origin", "https://app.example")], StatusCode::OK).await;
    check(&named, &[("origin", "https://app.example:444")], StatusCode::FORBIDDEN).await;
    check(&named, &[("origin", "http://app.example")], StatusCode::FORBIDDEN).await;
    check(&all, &[("host", "any.example"), ("origin", "https://any")], StatusCode::OK).await;
}

#[tokio::test]
async fn a_request_that_is_none_has_its_own_code_and_leaves_nothing() {
    let service = service(&HttpOptions { max_request_bytes: 4096, ..HttpOptions::default() });
    let check = async |body: Value, headers: &[(&str, &str)], expected: u16| {
        let response = service.handle(post(&body, headers)).await;
        assert_eq!(response.status().as_u16(), expected, "{body} {headers:?}");
        assert_eq!(service.sessions().await, 0, "{body}");
    };
    check(initialize(), &[("accept", "application/json")], 406).await;
    check(initialize(), &[("content-type", "text/plain")], 415).await;
    check(initialize(), &[("mcp-protocol-version", "1999-01-01")], 400).await;
    check(json!({"pad": "x".repeat(5000)}), &[], 413).await;
    check(json!({}), &[], 400).await;
    check(call(1, "echo", json!({"word": "x"})), &[("mcp-session-id", "unknown")], 404).await;
    check(call(1, "echo", json!({"word": "x"})), &[], 400).await;
}

#[tokio::test]
async fn equal_request_ids_of_two_sessions_never_meet() {
    let registry = fixtures::registry();
    let (arrived, go) = (Arc::new(tokio::sync::Barrier::new(3)), Arc::new(Notify::new()));
    let gates = (arrived.clone(), go.clone());
    let schema = ActionSchema::builder("gated")
        .input(Port::text("word").required())
        .output(Port::text("word"))
        .build();
    let run = handler(move |context: Context| {
        let (arrived, go) = gates.clone();
        async move {
            let word: String = context.read("word").await?;
            let opened = go.notified();
            arrived.wait().await;
            opened.await;
            context.write("word", &word).await
        }
    });
    registry.register(schema, run).expect("registered");
    let service = McpServer::new(McpOptions::new(registry)).http_service(&HttpOptions::default());
    let (a, b) = (session(&service).await, session(&service).await);
    let request = async |session: &str, id: Value, word: &str| {
        let request =
            post(&call(id, "gated", json!({"word": word})), &[("mcp-session-id", session)]);
        message(service.handle(request).await).await
    };
    let release = async {
        arrived.wait().await;
        go.notify_waiters();
    };
    // In one session a number and its text are two ids.
    let (first, second, ()) = soon(async {
        tokio::join!(request(&a, json!(1), "one"), request(&b, json!(1), "two"), release)
    })
    .await;
    assert_eq!(first["result"]["structuredContent"], json!({"word": "one"}));
    assert_eq!(second["result"]["structuredContent"], json!({"word": "two"}));
    let release = async {
        arrived.wait().await;
        go.notify_waiters();
    };
    let (number, text, ()) = soon(async {
        tokio::join!(request(&a, json!(7), "number"), request(&a, json!("7"), "text"), release)
    })
    .await;
    assert_eq!((&number["id"], &text["id"]), (&json!(7), &json!("7")));
    assert_eq!(number["result"]["structuredContent"], json!({"word": "number"}));
    assert_eq!(text["result"]["structuredContent"], json!({"word": "text"}));
}

#[tokio::test]
async fn a_body_that_is_no_message_is_told_what_it_is() {
    let service = service(&HttpOptions::default());
    let session = session(&service).await;
    let check = async |body: &'static [u8], code: i64| {
        let mut request = post(&json!({}), &[("mcp-session-id", &session)]);
        *request.body_mut() = Full::from(body);
        let response = service.handle(request).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{body:?}");
        assert_eq!(response.headers()["content-type"], "application/json");
        let answer = message(response).await;
        assert_eq!(answer["error"]["code"], json!(code), "{answer}");
    };
    check(b"{", -32700).await;
    check(b"", -32700).await;
    check(b"\xff", -32700).await;
    check(b"3", -32600).await;
    check(b"[]", -32600).await;
    check(br#"{"id":1,"method":"ping"}"#, -32600).await;
    check(br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, -32602).await;
    let good = post(&call(1, "echo", json!({"word": "x"})), &[("mcp-session-id", &session)]);
    assert!(message(service.handle(good).await).await["result"].is_object());
}

/// An action that tells that it runs, and waits to be let go.
fn waiting() -> (McpServer, Arc<Notify>, Arc<Notify>) {
    let registry = fixtures::registry();
    let (began, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let notices = (began.clone(), go.clone());
    let schema = ActionSchema::builder("wait").output(Port::text("done")).build();
    let run = handler(move |context: Context| {
        let (began, go) = notices.clone();
        async move {
            let let_go = go.notified();
            began.notify_one();
            let_go.await;
            context.write("done", "yes").await
        }
    });
    registry.register(schema, run).expect("registered");
    (McpServer::new(McpOptions::new(registry)), began, go)
}

#[tokio::test]
async fn a_request_id_in_use_is_refused_at_once_and_free_again_after_its_answer() {
    let (server, began, go) = waiting();
    let service = server.http_service(&HttpOptions::default());
    let session = session(&service).await;
    let request = || post(&call(7, "wait", json!({})), &[("mcp-session-id", &session)]);
    for _ in 0..3 {
        let first = soon(service.handle(request())).await;
        soon(began.notified()).await;
        for _ in 0..3 {
            let second = soon(service.handle(request())).await;
            assert_eq!(second.status(), StatusCode::BAD_REQUEST);
            let answer = message(second).await;
            assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &Value::Null));
        }
        go.notify_waiters();
        assert_eq!(message(first).await["result"]["structuredContent"], json!({"done": "yes"}));
    }
}

#[tokio::test]
async fn a_cancelled_requests_id_is_free_again() {
    let (server, began, go) = waiting();
    let service = server.http_service(&HttpOptions::default());
    let session = session(&service).await;
    let with_session = [("mcp-session-id", session.as_str())];
    let request = || post(&call(7, "wait", json!({})), &with_session);
    let _first = soon(service.handle(request())).await;
    soon(began.notified()).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 7}});
    let cancelled = service.handle(post(&cancel, &with_session)).await;
    assert_eq!(cancelled.status(), StatusCode::ACCEPTED);
    let second = soon(service.handle(request())).await;
    assert_eq!(second.status(), StatusCode::OK);
    soon(began.notified()).await;
    go.notify_waiters();
    assert_eq!(message(second).await["result"]["structuredContent"], json!({"done": "yes"}));
}

#[tokio::test]
async fn a_body_far_too_large_is_answered_to_one_who_writes_all_of_it_first() {
    let server = mcp::TestServer::start(McpOptions::new(fixtures::registry())).await;
    let address = server.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let mut stream = TcpStream::connect(&address).await.expect("connects");
    let length = 60 << 20;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("is taken");
    let part = vec![b' '; 1 << 20];
    for _ in 0..length >> 20 {
        soon(stream.write_all(&part)).await.expect("is taken");
    }
    let mut answer = [0; 12];
    soon(stream.read_exact(&mut answer)).await.expect("is answered");
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn sessions_are_bounded_and_end_when_they_are_deleted() {
    let service = service(&HttpOptions { max_sessions: 2, ..HttpOptions::default() });
    let first = session(&service).await;
    session(&service).await;
    let refused = service.handle(post(&initialize(), &[])).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key("retry-after"));
    let mut delete = post(&json!(""), &[("mcp-session-id", &first)]);
    *delete.method_mut() = http::Method::DELETE;
    assert_eq!(service.handle(delete).await.status(), StatusCode::NO_CONTENT);
    assert_eq!(service.sessions().await, 1);
    let gone = post(&call(1, "echo", json!({"word": "x"})), &[("mcp-session-id", &first)]);
    assert_eq!(service.handle(gone).await.status(), StatusCode::NOT_FOUND);
    session(&service).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_without_a_message_ends_and_is_unknown_then() {
    let mut options = McpOptions::new(fixtures::registry());
    options.deadline = Duration::from_secs(1);
    let http = HttpOptions { session_idle: Duration::from_secs(60), ..HttpOptions::default() };
    let service = McpServer::new(options).http_service(&http);
    let id = session(&service).await;
    tokio::time::advance(Duration::from_secs(59)).await;
    let request = || post(&call(1, "echo", json!({"word": "x"})), &[("mcp-session-id", &id)]);
    let answer = message(service.handle(request()).await).await;
    assert_eq!(answer["result"]["structuredContent"], json!({"echoed": "x"}));
    tokio::time::advance(Duration::from_secs(61)).await;
    // The session's task has to be given its turn to end.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(service.handle(request()).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(service.sessions().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_not_initialized_in_time_is_not_kept() {
    let initialization = Duration::from_secs(30);
    let http = HttpOptions { session_initialization: initialization, ..HttpOptions::default() };
    let service = service(&http);
    let response = service.handle(post(&initialize(), &[])).await;
    let id = response.headers()["mcp-session-id"].to_str().expect("text").to_owned();
    message(response).await;
    assert_eq!(service.sessions().await, 1);
    tokio::time::advance(initialization + Duration::from_secs(1)).await;
    // The session's task has to be given its turn to end.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(service.sessions().await, 0);
    let late = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let response = service.handle(post(&late, &[("mcp-session-id", &id)])).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_newest_client_that_leaves_cancels_its_call_and_leaves_nothing() {
    struct Tell(Arc<Notify>);
    impl Drop for Tell {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let registry = fixtures::registry();
    let (began, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let notices = (began.clone(), stopped.clone());
    let run = handler(move |_: Context| {
        let (began, stopped) = notices.clone();
        async move {
            let _tell = Tell(stopped);
            began.notify_one();
            std::future::pending().await
        }
    });
    registry.register(ActionSchema::builder("wait").build(), run).expect("registered");
    let options = McpOptions::new(registry);
    let handlers = options.handlers.clone();
    let service = McpServer::new(options).http_service(&HttpOptions::default());
    let mut request = call(1, "wait", json!({}));
    request["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "wait"),
    ];
    let calling = service.handle(post(&request, &headers));
    soon(async {
        tokio::select! {
            response = calling => panic!("answered: {}", response.status()),
            () = began.notified() => {}
        }
    })
    .await;
    soon(stopped.notified()).await;
    soon(async {
        while handlers.running() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(service.sessions().await, 0);
}

#[tokio::test]
async fn an_idle_http2_connection_makes_room_and_one_with_a_stream_stays() {
    let options = HttpOptions {
        max_connections: 2,
        connection_idle: Duration::from_millis(100),
        ..HttpOptions::default()
    };
    let registry = McpOptions::new(fixtures::registry());
    let server = mcp::TestServer::start_with(registry, options).await;
    let client = || {
        let client = reqwest::Client::builder().http2_prior_knowledge().build().expect("a client");
        (client, server.url.clone())
    };
    let opened = async |(client, url): &(reqwest::Client, String)| {
        let accepted = "application/json, text/event-stream";
        let request = client.post(url).header("accept", accepted);
        let request =
            request.header("content-type", "application/json").body(initialize().to_string());
        let response = soon(request.send()).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        response.headers()["mcp-session-id"].clone()
    };
    let (listening, idle, last) = (client(), client(), client());
    let session = opened(&listening).await;
    let request = listening.0.get(&listening.1).header("accept", "text/event-stream");
    let mut stream =
        soon(request.header("mcp-session-id", &session).send()).await.expect("a stream");
    assert_eq!(stream.status(), StatusCode::OK);
    opened(&idle).await;
    // It waits for a place, and so does the one that had to leave.
    opened(&last).await;
    opened(&idle).await;
    let ended = listening.0.delete(&listening.1).header("mcp-session-id", &session);
    assert_eq!(soon(ended.send()).await.expect("an answer").status(), StatusCode::NO_CONTENT);
    while soon(stream.chunk()).await.expect("an end in order").is_some() {}
}

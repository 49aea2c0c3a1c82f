//! Serving: what stands on the port beside the action service, who may call, and
//! how a server ends with calls under way.

#![allow(clippy::unwrap_used)]

#[path = "support/program.rs"]
mod program;

use std::{collections::BTreeSet, future::Future, process::Stdio, sync::Arc, time::Duration};

use a11_grpc::{
    action::{ActionSchema, Context, Port, Registry, handler},
    client,
    serve::{Ending, Limits, Options, Server, Tls, in_process},
    wire::{
        Status,
        pb::{
            self, action_service_client::ActionServiceClient, frame::Body,
            peer_service_client::PeerServiceClient, stream_action_response::Event,
        },
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::{Notify, oneshot},
    task::JoinHandle,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

/// What must happen soon, or the test fails.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("it takes too long")
}

/// An action that puts out `1`, waits to be told, and puts out `2`.
fn gated(gate: Arc<Notify>) -> Arc<Registry> {
    let registry = Registry::new();
    let schema = ActionSchema::builder("gated").output(Port::json("numbers").stream()).build();
    let run = handler(move |context: Context| {
        let gate = gate.clone();
        async move {
            context.write("numbers", &1).await?;
            gate.notified().await;
            context.write("numbers", &2).await
        }
    });
    registry.register(schema, run).unwrap();
    Arc::new(registry)
}

struct Running {
    address: String,
    stop: oneshot::Sender<()>,
    server: JoinHandle<Ending>,
}

async fn start(options: Options) -> Running {
    let server = Server::bind(options).await.unwrap();
    let address = server.address().to_string();
    let (stop, stopped) = oneshot::channel();
    let server = tokio::spawn(async move {
        let stopped = async {
            let _ = stopped.await;
        };
        server.run(stopped).await
    });
    Running { address, stop, server }
}

fn options(registry: Arc<Registry>) -> Options {
    Options::new("127.0.0.1:0", registry)
}

async fn actions(address: &str) -> ActionServiceClient<Channel> {
    client::actions(client::connect(address).await.unwrap())
}

type Events = Streaming<pb::StreamActionResponse>;

/// Starts the gated action and waits for its first number.
async fn open_stream(address: &str) -> Events {
    let request = pb::StreamActionRequest { action: "gated".to_owned(), ..Default::default() };
    let mut events = actions(address).await.stream_action(request).await.unwrap().into_inner();
    let first = soon(events.message()).await.unwrap().unwrap();
    assert!(matches!(first.event, Some(Event::Outputs(_))), "{first:?}");
    events
}

/// The numbers that still come, and the status.
async fn rest(mut events: Events) -> Result<(Vec<String>, Status), tonic::Status> {
    let mut numbers = Vec::new();
    while let Some(message) = events.message().await? {
        match message.event {
            Some(Event::Outputs(outputs)) => {
                let chunks = outputs.fragments.iter().filter_map(|fragment| fragment.chunk());
                let texts = chunks.map(|chunk| String::from_utf8_lossy(chunk.data()).into_owned());
                numbers.extend(texts.filter(|text| !text.is_empty()));
            }
            Some(Event::Status(status)) => return Ok((numbers, status.into())),
            Some(Event::Log(_)) | None => {}
        }
    }
    panic!("the stream ended without a status");
}

#[tokio::test]
async fn a_call_under_way_when_the_server_stops_runs_to_its_end() {
    let gate = Arc::new(Notify::new());
    let Running { address, stop, server } = start(options(gated(gate.clone()))).await;
    let events = open_stream(&address).await;
    let mut health = HealthClient::new(client::connect(&address).await.unwrap());
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    let seen = soon(watch.message()).await.unwrap().unwrap();
    assert_eq!(seen.status(), ServingStatus::Serving);

    stop.send(()).unwrap();
    let seen = soon(watch.message()).await.unwrap().unwrap();
    assert_eq!(seen.status(), ServingStatus::NotServing);
    assert!(soon(watch.message()).await.unwrap().is_none(), "watching holds up the shutdown");
    soon(async {
        while tokio::net::TcpStream::connect(&address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!server.is_finished());

    gate.notify_one();
    let (numbers, status) = soon(rest(events)).await.unwrap();
    assert_eq!((numbers, status), (vec!["2".to_owned()], Status::ok()));
    assert_eq!(soon(server).await.unwrap(), Ending::Drained);
}

#[tokio::test]
async fn a_call_that_outlasts_the_shutdown_is_cancelled() {
    struct Dropped(Option<oneshot::Sender<()>>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.take().map(|sender| sender.send(()));
        }
    }
    let (sender, dropped) = oneshot::channel();
    let guard = Arc::new(parking_lot::Mutex::new(Some(Dropped(Some(sender)))));
    let registry = Registry::new();
    let schema = ActionSchema::builder("gated").output(Port::json("numbers").stream()).build();
    let run = handler(move |context: Context| {
        let guard = guard.lock().take();
        async move {
            let _guard = guard;
            context.write("numbers", &1).await?;
            std::future::pending().await
        }
    });
    registry.register(schema, run).unwrap();
    let limits = Limits { shutdown: Duration::from_millis(50), ..Limits::default() };
    let Running { address, stop, server } =
        start(Options { limits, ..options(Arc::new(registry)) }).await;
    let events = open_stream(&address).await;
    stop.send(()).unwrap();
    assert_eq!(soon(server).await.unwrap(), Ending::Cut);
    assert!(soon(rest(events)).await.is_err());
    soon(dropped).await.unwrap();
}

#[tokio::test]
async fn idle_connections_do_not_hold_up_the_shutdown() {
    let Running { address, stop, server } = start(options(Arc::new(Registry::new()))).await;
    let mut client = actions(&address).await;
    client.list_actions(pb::ListActionsRequest::default()).await.unwrap();
    stop.send(()).unwrap();
    assert_eq!(soon(server).await.unwrap(), Ending::Drained);
    let refused = client.list_actions(pb::ListActionsRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused:?}");
}

#[tokio::test]
async fn connections_past_the_limit_wait_for_room() {
    let limits = Limits { connections: 1, ..Limits::default() };
    let registry = Arc::new(Registry::new());
    let running = start(Options { limits, ..options(registry) }).await;
    let mut first = actions(&running.address).await;
    first.list_actions(pb::ListActionsRequest::default()).await.unwrap();
    let address = running.address.clone();
    let second = tokio::spawn(async move {
        actions(&address).await.list_actions(pb::ListActionsRequest::default()).await
    });
    first.list_actions(pb::ListActionsRequest::default()).await.unwrap();
    assert!(!second.is_finished());
    drop(first);
    soon(second).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_idle_connection_makes_room_and_those_with_a_call_or_a_session_stay() {
    let gate = Arc::new(Notify::new());
    let limits = Limits { connections: 3, idle: Duration::from_millis(100), ..Limits::default() };
    let running = start(Options { limits, ..options(gated(gate.clone())) }).await;
    let events = open_stream(&running.address).await;
    let (say, said) = tokio::sync::mpsc::channel(2);
    let frame = |body| {
        let frame = Some(pb::Frame { number: 0, ack: 0, body: Some(body) });
        pb::OpenSessionRequest { frame }
    };
    say.send(frame(Body::Open(pb::OpenFrame::default()))).await.unwrap();
    let channel = client::connect(&running.address).await.unwrap();
    let mut peer = PeerServiceClient::new(channel);
    let mut frames = soon(peer.open_session(ReceiverStream::new(said))).await.unwrap().into_inner();
    let mut heard = async || {
        let message = soon(frames.message()).await.unwrap().unwrap();
        message.frame.unwrap().body.unwrap()
    };
    assert!(matches!(heard().await, Body::Opened(_)));
    let mut idle = actions(&running.address).await;
    idle.list_actions(pb::ListActionsRequest::default()).await.unwrap();
    // It waits for a place, and so does the one that had to leave.
    let mut last = actions(&running.address).await;
    soon(last.list_actions(pb::ListActionsRequest::default())).await.unwrap();
    soon(idle.list_actions(pb::ListActionsRequest::default())).await.unwrap();
    say.send(frame(Body::Ping(pb::PingFrame { id: 1 }))).await.unwrap();
    while !matches!(heard().await, Body::Pong(_)) {}
    gate.notify_one();
    let (numbers, _) = soon(rest(events)).await.unwrap();
    assert_eq!(numbers, ["2"]);
}

#[tokio::test]
async fn a_connection_carries_as_many_calls_at_once_as_it_may() {
    let registry = || Arc::new(Registry::new());
    let running = start(options(registry())).await;
    let check = async |client: ActionServiceClient<Channel>| {
        let calls = (0..Limits::default().streams_per_connection).map(|_| {
            let mut client = client.clone();
            async move { client.get_action(pb::GetActionRequest::default()).await }
        });
        for answer in futures::future::join_all(calls).await {
            assert_eq!(answer.unwrap_err().code(), tonic::Code::NotFound);
        }
    };
    check(actions(&running.address).await).await;
    check(client::actions(in_process(registry(), None).await.unwrap())).await;
}

#[tokio::test]
async fn the_same_service_runs_in_process() {
    let gate = Arc::new(Notify::new());
    gate.notify_one();
    let channel = in_process(gated(gate), None).await.unwrap();
    let request = pb::StreamActionRequest { action: "gated".to_owned(), ..Default::default() };
    let events = client::actions(channel).stream_action(request).await.unwrap().into_inner();
    let (numbers, status) = soon(rest(events)).await.unwrap();
    assert_eq!((numbers, status), (vec!["1".to_owned(), "2".to_owned()], Status::ok()));
}

#[tokio::test]
async fn reflection_answers_in_both_versions() {
    let running = start(options(Arc::new(Registry::new()))).await;
    let channel = client::connect(&running.address).await.unwrap();
    macro_rules! services {
        ($version:ident) => {{
            use tonic_reflection::pb::$version::{
                ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
                server_reflection_request::MessageRequest,
                server_reflection_response::MessageResponse,
            };
            let request = ServerReflectionRequest {
                host: String::new(),
                message_request: Some(MessageRequest::ListServices(String::new())),
            };
            let requests = futures::stream::iter([request]);
            let mut client = ServerReflectionClient::new(channel.clone());
            let mut answers = client.server_reflection_info(requests).await.unwrap().into_inner();
            match answers.message().await.unwrap().unwrap().message_response {
                Some(MessageResponse::ListServicesResponse(list)) => {
                    list.service.into_iter().map(|service| service.name).collect::<Vec<_>>()
                }
                other => panic!("{other:?}"),
            }
        }};
    }
    for services in [services!(v1), services!(v1alpha)] {
        let expected = [
            "a11.v1.ActionService",
            "a11.v1.InteractionService",
            "a11.v1.NodeService",
            "a11.v1.PeerService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ];
        assert_eq!(BTreeSet::from_iter(services), BTreeSet::from(expected.map(str::to_owned)));
    }
}

#[tokio::test]
async fn health_knows_the_server_and_each_service() {
    let running = start(options(Arc::new(Registry::new()))).await;
    let mut health = HealthClient::new(client::connect(&running.address).await.unwrap());
    let mut check = async |service: &str, expected: Result<ServingStatus, tonic::Code>| {
        let request = HealthCheckRequest { service: service.to_owned() };
        let answer = health.check(request).await;
        let answer = answer.map(|a| a.into_inner().status()).map_err(|status| status.code());
        assert_eq!(answer, expected, "{service}");
    };
    check("", Ok(ServingStatus::Serving)).await;
    check("a11.v1.ActionService", Ok(ServingStatus::Serving)).await;
    check("a11.v1.Nothing", Err(tonic::Code::NotFound)).await;
}

#[tokio::test]
async fn browsers_call_over_grpc_web_where_their_page_may() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let origin = "https://app.example".parse().unwrap();
    let running =
        start(Options { allowed_origins: vec![origin], ..options(Arc::new(Registry::new())) })
            .await;
    let url = format!("http://{}/a11.v1.ActionService/ListActions", running.address);
    let browser = reqwest::Client::builder().no_proxy().build().unwrap();
    const ALLOWED: &str = "access-control-allow-origin";

    let check = async |page: Option<&str>, may: bool| {
        let mut call = browser
            .post(&url)
            .header("content-type", "application/grpc-web+proto")
            // One empty message: no flags, no length.
            .body(vec![0_u8; 5]);
        let mut asked_before = browser
            .request(reqwest::Method::OPTIONS, &url)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "content-type,x-grpc-web");
        if let Some(page) = page {
            call = call.header("origin", page);
            asked_before = asked_before.header("origin", page);
        }
        let asked_before = asked_before.send().await.unwrap();
        let answer = call.send().await.unwrap();
        let origin = |answer: &reqwest::Response| answer.headers().get(ALLOWED).cloned();
        let expected = page.filter(|_| may).map(|page| page.parse().unwrap());
        assert_eq!(origin(&asked_before), expected, "{page:?}");
        assert_eq!(origin(&answer), expected, "{page:?}");
        let refused = answer.headers().get("grpc-status").is_some_and(|status| status == "7");
        let body = answer.bytes().await.unwrap();
        let trailers = String::from_utf8_lossy(&body);
        assert_eq!(trailers.contains("grpc-status:0"), may, "{page:?}: {trailers}");
        assert_eq!(refused || trailers.contains("grpc-status:7"), !may, "{page:?}: {trailers}");
    };
    check(None, true).await;
    check(Some("http://localhost:3000"), true).await;
    check(Some("https://app.example"), true).await;
    check(Some("https://evil.example"), false).await;
    check(Some("null"), false).await;
}

#[tokio::test]
async fn who_asks_in_plain_http_is_told_what_is_here() {
    let running = start(options(Arc::default())).await;
    let mut connection = TcpStream::connect(&running.address).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    connection.write_all(request).await.unwrap();
    let mut answer = String::new();
    soon(connection.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("it speaks gRPC"), "{answer}");
}

#[tokio::test]
async fn tls_proves_the_server() {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let tls =
        Tls { certificate: cert.pem().into_bytes(), key: signing_key.serialize_pem().into_bytes() };
    let running = start(Options { tls: Some(tls), ..options(Arc::new(Registry::new())) }).await;
    let port = running.address.rsplit_once(':').unwrap().1;
    let url = format!("https://localhost:{port}");

    let config = tonic::transport::ClientTlsConfig::new()
        .ca_certificate(tonic::transport::Certificate::from_pem(cert.pem()));
    let trusting = tonic::transport::Endpoint::from_shared(url.clone()).unwrap();
    let channel = trusting.tls_config(config).unwrap().connect().await.unwrap();
    let listed = client::actions(channel).list_actions(pb::ListActionsRequest::default()).await;
    assert!(listed.is_ok(), "{listed:?}");

    // Nobody on the web vouches for it.
    let error = client::connect(&url).await.unwrap_err().to_string();
    assert!(error.contains(&url) && error.to_lowercase().contains("certificate"), "{error}");
    let ran = program::run(&["actions", "--server", &url]).await;
    assert!(ran.code == 3 && ran.stderr.contains("SSL_CERT_FILE="), "{}", ran.stderr);
    let ran = program::run(&["actions", "--server", &running.address]).await;
    assert!(ran.code == 3 && ran.stderr.contains("UNAVAILABLE"), "{}", ran.stderr);
    assert!(ran.stderr.contains("https://"), "{}", ran.stderr);
    let clear = start(options(Arc::new(Registry::new()))).await;
    let ran = program::run(&["actions", "--server", &format!("https://{}", clear.address)]).await;
    assert!(ran.code == 3 && ran.stderr.contains("try http://"), "{}", ran.stderr);
    let listed = program::command(&["actions", "--server", &url])
        .env("SSL_CERT_FILE", "/nowhere/at/all.pem")
        .stderr(Stdio::piped())
        .output();
    let listed = soon(listed).await.unwrap();
    let said = String::from_utf8_lossy(&listed.stderr).into_owned();
    assert!(said.contains("SSL_CERT_FILE=/nowhere/at/all.pem"), "{said}");
    assert_eq!(listed.status.code(), Some(2), "{said}");

    let roots = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(roots.path(), cert.pem()).unwrap();
    let listed = program::command(&["actions", "--server", &url])
        .env("SSL_CERT_FILE", roots.path())
        .stderr(Stdio::piped())
        .output();
    let listed = soon(listed).await.unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));

    let broken = Tls { certificate: b"x".to_vec(), key: b"y".to_vec() };
    let refused = Server::bind(Options { tls: Some(broken), ..options(Arc::new(Registry::new())) });
    assert!(refused.await.is_err());
}

#[tokio::test]
async fn a_connection_that_does_not_begin_is_closed() {
    let limits = Limits { opening: Duration::from_millis(100), ..Limits::default() };
    let running = start(Options { limits, ..options(Arc::default()) }).await;
    // Nothing at all, half of HTTP/2's preface, half of a request of HTTP/1.1.
    for beginning in ["", "PRI * HTTP/2.0\r\n", "POST /a HTTP/1.1\r\nhost: a.example\r\n"] {
        let mut connection = TcpStream::connect(&running.address).await.unwrap();
        connection.write_all(beginning.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A reset is as good as an end.
        let _ = soon(connection.read_to_end(&mut answer)).await;
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{beginning:?}");
    }
}

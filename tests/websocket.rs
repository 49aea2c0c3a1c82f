//! Sessions over WebSocket on the server's own port: who may open one, what it
//! takes, and what becomes of it when the server stops.

#![allow(clippy::unwrap_used)]

use std::{future::Future, sync::Arc, time::Duration};

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
use a11_grpc::serve::{Ending, Limits, Options, Server, Tls};
use a11_grpc::service::WEBSOCKET_PATH;
use a11_grpc::wire::pb::{self, Frame, frame::Body};
use a11_grpc::wire::{Reason, Status};
use futures::{SinkExt as _, StreamExt as _};
use prost::Message as _;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::{Notify, oneshot},
    task::JoinHandle,
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{self, Message, client::IntoClientRequest as _},
};

trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Connection for T {}

type Socket = WebSocketStream<Box<dyn Connection>>;

/// What must happen soon, or the test fails.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("it takes too long")
}

struct Running {
    address: String,
    gate: Arc<Notify>,
    stop: oneshot::Sender<()>,
    server: JoinHandle<Ending>,
}

/// Serves `gated`, which waits to be told, and says `done`.
async fn start(change: impl FnOnce(&mut Options)) -> Running {
    let registry = Registry::new();
    let gate = Arc::new(Notify::new());
    let told = gate.clone();
    let schema = ActionSchema::builder("gated").output(Port::text("said")).build();
    let run = handler(move |context: Context| {
        let told = told.clone();
        async move {
            told.notified().await;
            context.write("said", "done").await
        }
    });
    registry.register(schema, run).unwrap();
    let mut options = Options::new("127.0.0.1:0", Arc::new(registry));
    change(&mut options);
    let server = Server::bind(options).await.unwrap();
    let address = server.address().to_string();
    let (stop, stopped) = oneshot::channel();
    let server = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    Running { address, gate, stop, server }
}

/// The handshake of a page; the HTTP status where it is refused.
async fn open_from(address: &str, origin: Option<&str>) -> Result<Socket, u16> {
    let stream = TcpStream::connect(address).await.unwrap();
    handshake(Box::new(stream), &format!("ws://{address}{WEBSOCKET_PATH}"), origin).await
}

async fn handshake(
    stream: Box<dyn Connection>,
    url: &str,
    origin: Option<&str>,
) -> Result<Socket, u16> {
    let mut request = url.into_client_request().unwrap();
    if let Some(origin) = origin {
        request.headers_mut().insert("origin", origin.parse().unwrap());
    }
    match soon(client_async(request, stream)).await {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::Error::Http(refusal)) => Err(refusal.status().as_u16()),
        Err(other) => panic!("{other}"),
    }
}

async fn send(socket: &mut Socket, number: u64, body: Body) {
    let frame = Frame { number, ack: 0, body: Some(body) };
    socket.send(Message::Binary(frame.encode_to_vec().into())).await.unwrap();
}

/// The next frame that is more than an acknowledgement.
async fn next(socket: &mut Socket) -> Body {
    loop {
        let message = soon(socket.next()).await.expect("a message").unwrap();
        match Frame::decode(message.into_data()).unwrap().body.unwrap() {
            Body::AckOnly(_) => {}
            body => return body,
        }
    }
}

async fn open(socket: &mut Socket, open: pb::OpenFrame) -> pb::OpenedFrame {
    send(socket, 0, Body::Open(open)).await;
    match next(socket).await {
        Body::Opened(opened) => opened,
        other => panic!("{other:?}"),
    }
}

/// A session with a call of `gated` under way.
async fn session_with_call(address: &str) -> (Socket, pb::OpenedFrame) {
    let mut socket = open_from(address, None).await.unwrap();
    let opened = open(&mut socket, pb::OpenFrame::default()).await;
    let call = pb::CallFrame { call: 1, action: "gated".into(), ..Default::default() };
    send(&mut socket, 1, Body::Call(call)).await;
    // Answered once all before it has arrived.
    send(&mut socket, 0, Body::Ping(pb::PingFrame { id: 7 })).await;
    assert_eq!(next(&mut socket).await, Body::Pong(pb::PongFrame { id: 7 }));
    (socket, opened)
}

/// The output of the call of `gated`, and its status.
async fn outcome(socket: &mut Socket) -> (String, Status) {
    let mut said = String::new();
    loop {
        match next(socket).await {
            Body::Fragments(frame) => {
                let chunks = frame.fragments.iter().filter_map(|fragment| fragment.chunk());
                said.extend(chunks.map(|chunk| String::from_utf8_lossy(chunk.data()).into_owned()));
            }
            Body::Status(ended) => return (said, ended.status.unwrap().into()),
            Body::Close(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn pages_of_origins_that_may_call_open_sessions_and_others_are_refused_before_it() {
    let allowed = |options: &mut Options| {
        options.allowed_origins = vec!["https://app.example".parse().unwrap()];
    };
    let running = start(allowed).await;
    let check =
        async |origin, expected: Result<(), u16>| match open_from(&running.address, origin).await {
            Ok(mut socket) => {
                assert_eq!(expected, Ok(()), "{origin:?}");
                open(&mut socket, pb::OpenFrame::default()).await;
            }
            Err(status) => assert_eq!(expected, Err(status), "{origin:?}"),
        };
    check(None, Ok(())).await;
    check(Some("http://localhost:3000"), Ok(())).await;
    check(Some("https://app.example"), Ok(())).await;
    check(Some("https://evil.example"), Err(403)).await;
    check(Some("null"), Err(403)).await;
    // A name that was bound to this address is still the page's own.
    check(Some(&format!("http://evil.example:{}", port(&running.address))), Err(403)).await;
}

fn port(address: &str) -> &str {
    address.rsplit_once(':').unwrap().1
}

#[tokio::test]
async fn what_is_no_handshake_is_told_what_is_wanted() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let running = start(|_| {}).await;
    let url = format!("http://{}{WEBSOCKET_PATH}", running.address);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let over_http2 = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let check = async |request: reqwest::RequestBuilder, expected: u16| {
        let answer = soon(request.send()).await.unwrap();
        assert_eq!(answer.status().as_u16(), expected);
        assert_eq!(answer.headers()["sec-websocket-version"], "13");
    };
    check(client.get(&url), 426).await;
    check(over_http2.get(&url), 426).await;
    check(client.post(&url), 405).await;
    let upgrade =
        || client.get(&url).header("connection", "upgrade").header("upgrade", "websocket");
    check(upgrade().header("sec-websocket-version", "8"), 426).await;
    check(upgrade().header("sec-websocket-version", "13"), 400).await;
}

#[tokio::test]
async fn what_is_no_frame_ends_the_session() {
    let running = start(|_| {}).await;
    let check = async |message: Message| {
        let mut socket = open_from(&running.address, None).await.unwrap();
        let opened = open(&mut socket, pb::OpenFrame::default()).await;
        // Refused before all of it is here, so that sending may fail as well.
        let (mut outgoing, mut incoming) = socket.split();
        let sent = tokio::spawn(async move {
            let _ = outgoing.send(message).await;
            outgoing
        });
        let answer = soon(incoming.next()).await.expect("an answer").unwrap();
        match Frame::decode(answer.into_data()).unwrap().body {
            Some(Body::End(end)) => {
                assert_eq!(Status::from(end.status.unwrap()).reason, Reason::InvalidFrame);
            }
            other => panic!("{other:?}"),
        }
        drop((incoming, sent));

        let mut socket = open_from(&running.address, None).await.unwrap();
        let resume_token = opened.resume_token;
        let again = pb::OpenFrame { resume_token, ..Default::default() };
        send(&mut socket, 0, Body::Open(again)).await;
        let Body::End(end) = next(&mut socket).await else { panic!("it is kept") };
        assert_eq!(Status::from(end.status.unwrap()).reason, Reason::UnknownSession);
    };
    check(Message::text("{}")).await;
    check(Message::Binary(vec![0xff; 8].into())).await;
    check(Message::Binary(vec![0; (16 << 20) + 1].into())).await;
}

#[tokio::test]
async fn a_session_goes_on_over_another_connection() {
    let running = start(|_| {}).await;
    let (socket, opened) = session_with_call(&running.address).await;
    drop(socket);
    let mut socket = open_from(&running.address, None).await.unwrap();
    let resume_token = opened.resume_token.clone();
    let resumed = open(&mut socket, pb::OpenFrame { resume_token, ..Default::default() }).await;
    assert_eq!((resumed.session, resumed.received), (opened.session, 1));
    running.gate.notify_one();
    assert_eq!(outcome(&mut socket).await, ("done".to_owned(), Status::ok()));
}

#[tokio::test]
async fn a_call_under_way_when_the_server_stops_runs_to_its_end_and_then_the_session_ends() {
    let running = start(|_| {}).await;
    let (mut socket, _) = session_with_call(&running.address).await;
    running.stop.send(()).unwrap();
    soon(async {
        while TcpStream::connect(&running.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!running.server.is_finished());
    running.gate.notify_one();
    assert_eq!(outcome(&mut socket).await, ("done".to_owned(), Status::ok()));
    let Body::End(end) = next(&mut socket).await else { panic!("the session does not end") };
    assert_eq!(Status::from(end.status.unwrap()).reason, Reason::ShuttingDown);
    assert!(matches!(soon(socket.next()).await, Some(Ok(Message::Close(_)))));
    drop(socket);
    assert_eq!(soon(running.server).await.unwrap(), Ending::Drained);
}

#[tokio::test]
async fn a_session_that_outlasts_the_shutdown_is_cut() {
    let hasty = Limits { shutdown: Duration::from_millis(50), ..Limits::default() };
    let running = start(|options| options.limits = hasty).await;
    let (mut socket, _) = session_with_call(&running.address).await;
    running.stop.send(()).unwrap();
    assert_eq!(soon(running.server).await.unwrap(), Ending::Cut);
    soon(async { while let Some(Ok(_)) = socket.next().await {} }).await;
}

#[tokio::test]
async fn a_websocket_is_one_of_the_connections_that_there_may_be() {
    let one = Limits { connections: 1, ..Limits::default() };
    let running = start(|options| options.limits = one).await;
    let mut first = open_from(&running.address, None).await.unwrap();
    open(&mut first, pb::OpenFrame::default()).await;
    let address = running.address.clone();
    let second = tokio::spawn(async move {
        let mut second = open_from(&address, None).await.unwrap();
        open(&mut second, pb::OpenFrame::default()).await;
    });
    send(&mut first, 0, Body::Ping(pb::PingFrame { id: 1 })).await;
    assert!(matches!(next(&mut first).await, Body::Pong(_)));
    assert!(!second.is_finished());
    drop(first);
    soon(second).await.unwrap();
}

#[tokio::test]
async fn a_websocket_on_which_nothing_is_said_stays() {
    let few = Limits { connections: 2, idle: Duration::from_millis(50), ..Limits::default() };
    let running = start(|options| options.limits = few).await;
    let mut socket = open_from(&running.address, None).await.unwrap();
    open(&mut socket, pb::OpenFrame::default()).await;
    let mut idle = vec![];
    for _ in 0..2 {
        // Each after the first waits until the one before it was idle for long.
        let channel = a11_grpc::client::connect(&running.address).await.unwrap();
        let mut client = a11_grpc::client::actions(channel);
        soon(client.list_actions(pb::ListActionsRequest::default())).await.unwrap();
        idle.push(client);
    }
    send(&mut socket, 0, Body::Ping(pb::PingFrame { id: 1 })).await;
    assert!(matches!(next(&mut socket).await, Body::Pong(_)));
}

#[tokio::test]
async fn sessions_are_opened_over_tls_too() {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let tls =
        Tls { certificate: cert.pem().into_bytes(), key: signing_key.serialize_pem().into_bytes() };
    let running = start(|options| options.tls = Some(tls)).await;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    // As a browser does for a WebSocket.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let stream = TcpStream::connect(&running.address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = soon(connector.connect("localhost".try_into().unwrap(), stream)).await.unwrap();
    let url = format!("wss://localhost:{}{WEBSOCKET_PATH}", port(&running.address));
    let mut socket = handshake(Box::new(stream), &url, None).await.unwrap();
    open(&mut socket, pb::OpenFrame::default()).await;
}

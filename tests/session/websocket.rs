//! The same frames over a WebSocket, as a browser sends them.

use std::sync::Arc;

use a11_grpc::service::{WEBSOCKET_PATH, upgrade};
use a11_grpc::session::Directory;
use a11_grpc::wire::pb::{self, Frame, frame::Body};
use a11_grpc::wire::{Reason, Status};
use futures::{SinkExt as _, StreamExt as _};
use hyper_util::{
    rt::TokioExecutor, rt::TokioIo, server::conn::auto, service::TowerToHyperService,
};
use prost::Message as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite::Message};

use crate::service::{Service, host_name};

type Socket = WebSocketStream<TcpStream>;

/// Serves the WebSocket path alone, and connects to it.
async fn connect(directory: &Arc<Directory>) -> Socket {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let directory = directory.clone();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a connection");
        let respond = tower::service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let (response, session) = upgrade(&directory, request);
            directory.tasks().spawn(session.expect("no refusal"));
            async { Ok::<_, std::convert::Infallible>(response) }
        });
        let builder = auto::Builder::new(TokioExecutor::new());
        let service = TowerToHyperService::new(respond);
        let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        serving.await.expect("serves");
    });
    let stream = TcpStream::connect(address).await.expect("connects");
    let url = format!("ws://{address}{WEBSOCKET_PATH}");
    client_async(url, stream).await.expect("a handshake").0
}

async fn send(socket: &mut Socket, number: u64, body: Body) {
    let frame = Frame { number, ack: 0, body: Some(body) };
    socket.send(Message::Binary(frame.encode_to_vec().into())).await.expect("is sent");
}

/// The next frame that is more than an acknowledgement.
async fn next(socket: &mut Socket) -> Body {
    loop {
        let message = socket.next().await.expect("a message").expect("no failure");
        let frame = Frame::decode(message.into_data()).expect("a frame");
        match frame.body.expect("a body") {
            Body::AckOnly(_) => {}
            body => return body,
        }
    }
}

#[tokio::test]
async fn a_websocket_calls_and_hosts() {
    let service = Service::start().await;
    host_name(&service.registry, "who", "the service");
    let mut socket = connect(&service.directory).await;
    let schema = pb::ActionSchema { name: "page".into(), ..Default::default() };
    let open = pb::OpenFrame { actions: vec![schema], ..Default::default() };
    send(&mut socket, 0, Body::Open(open)).await;
    let Body::Opened(opened) = next(&mut socket).await else { panic!("not opened") };
    assert_eq!(opened.refused, []);
    assert!(service.registry.entry("page").is_some());

    let call = pb::CallFrame { call: 1, action: "who".into(), ..Default::default() };
    send(&mut socket, 1, Body::Call(call)).await;
    let Body::Fragments(frame) = next(&mut socket).await else { panic!("no output") };
    assert_eq!(frame.fragments[0].id, "name");
    assert_eq!(frame.fragments[0].chunk().expect("a chunk").data(), "the service");
    let Body::Status(ended) = next(&mut socket).await else { panic!("no status") };
    assert_eq!((ended.call, ended.status.expect("a status").code), (1, 0));

    // A new connection goes on with the session.
    drop(socket);
    let mut socket = connect(&service.directory).await;
    let resume_token = opened.resume_token.clone();
    let open = pb::OpenFrame { resume_token, received: 2, ..Default::default() };
    send(&mut socket, 0, Body::Open(open)).await;
    let Body::Opened(resumed) = next(&mut socket).await else { panic!("not resumed") };
    assert_eq!((resumed.session, resumed.received), (opened.session, 1));
}

#[tokio::test]
async fn what_is_no_opening_is_refused_with_a_reason() {
    let service = Service::start().await;
    let check = async |body: Body, expected: Reason| {
        let mut socket = connect(&service.directory).await;
        send(&mut socket, 0, body).await;
        let Body::End(end) = next(&mut socket).await else { panic!("not refused") };
        assert_eq!(Status::from(end.status.expect("a status")).reason, expected);
        assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))));
    };
    check(Body::Ping(pb::PingFrame { id: 1 }), Reason::InvalidFrame).await;
    let limits = Some(pb::SessionLimits { node_window_bytes: 1, ..Default::default() });
    let open = pb::OpenFrame { limits, ..Default::default() };
    check(Body::Open(open), Reason::InvalidFrame).await;
    let open = pb::OpenFrame { resume_token: "unknown".into(), ..Default::default() };
    check(Body::Open(open), Reason::UnknownSession).await;
}

#[tokio::test]
async fn bytes_that_are_no_websocket_frame_end_the_session_with_a_reason() {
    let service = Service::start().await;
    let check = async |bytes: &[u8], is_open: bool| {
        let mut socket = connect(&service.directory).await;
        if is_open {
            send(&mut socket, 0, Body::Open(pb::OpenFrame::default())).await;
            assert!(matches!(next(&mut socket).await, Body::Opened(_)));
        }
        socket.get_mut().write_all(bytes).await.expect("is sent");
        let Body::End(end) = next(&mut socket).await else { panic!("not ended: {bytes:?}") };
        let status = Status::from(end.status.expect("a status"));
        assert_eq!(status.reason, Reason::InvalidFrame, "{bytes:?}: {status}");
        for session in service.directory.sessions() {
            session.ended().await;
        }
    };
    for is_open in [false, true] {
        // A text that is no UTF-8.
        check(&[0x81, 0x82, 0, 0, 0, 0, 0xff, 0xfe], is_open).await;
        // Without the mask that clients need.
        check(&[0x82, 0x01, 0x00], is_open).await;
        // A kind of frame that there is not, and a bit that nothing means.
        check(&[0x83, 0x80, 0, 0, 0, 0], is_open).await;
        check(&[0xc2, 0x80, 0, 0, 0, 0], is_open).await;
    }
}

//! Bytes that are no gRPC, or gRPC that cannot be read: the caller's fault is told
//! as such, with a reason, and the connection is as good as it was.

#![allow(missing_docs)]

#[path = "support/fixtures.rs"]
mod fixtures;

use a11_grpc::client::{actions, connect};
use a11_grpc::serve::{Options, Server};
use a11_grpc::wire::pb::RunActionRequest;
use a11_grpc::wire::{Reason, Status, base64};
use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use tonic::{Code, body::Body, transport::Channel};
use tower::{Service as _, ServiceExt as _};

async fn server() -> Channel {
    let server = Server::bind(Options::new("127.0.0.1:0", fixtures::registry())).await;
    let server = server.expect("a free port");
    let url = format!("http://{}", server.address());
    tokio::spawn(server.run(std::future::pending()));
    connect(&url).await.expect("connects")
}

const RUN: &str = "RunAction";
const CALL: &str = "CallAction";
const GRPC: &str = "application/grpc";
const WEB: &str = "application/grpc-web+proto";
const TEXT: &str = "application/grpc-web-text";

fn request(rpc: &str, kind: &str, encoding: &str, body: &[u8]) -> http::Request<Body> {
    let request = http::Request::post(format!("/a11.v1.ActionService/{rpc}"))
        .header("content-type", kind)
        .header("te", "trailers")
        .header("grpc-encoding", encoding);
    request.body(Body::new(Full::new(body.to_vec().into()))).expect("a request")
}

/// The status that a request is answered with, be it in headers or trailers.
async fn answer(channel: &mut Channel, request: http::Request<Body>) -> Status {
    let response = channel.ready().await.expect("stands").call(request).await.expect("answers");
    assert_eq!(response.status(), http::StatusCode::OK);
    let (parts, body) = response.into_parts();
    let body = body.collect().await.expect("is whole");
    let trailers = body.trailers().cloned().unwrap_or_default();
    let found = [&parts.headers, &trailers].into_iter().find_map(tonic::Status::from_header_map);
    if let Some(status) = found {
        return status.into();
    }
    // gRPC-Web has its trailers in the body.
    let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    assert!(body.contains("grpc-status:0"), "{body}");
    Status::ok()
}

/// A framed message.
fn framed(flag: u8, length: usize, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(length).expect("short").to_be_bytes();
    [&[flag], &length[..], body].concat()
}

fn echo() -> Vec<u8> {
    let request = RunActionRequest {
        action: "echo".into(),
        arguments_json: r#"{"word":"hi"}"#.into(),
        ..Default::default()
    };
    let body = request.encode_to_vec();
    framed(0, body.len(), &body)
}

#[tokio::test]
async fn what_cannot_be_read_is_the_callers_fault_and_says_so() {
    let mut channel = server().await;
    let good = echo();
    let text = base64::encode(&good);
    let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0xff, 0xff, 0xff];
    let check = [
        (RUN, GRPC, "identity", framed(2, 3, b"abc")),
        (RUN, GRPC, "identity", framed(1, 3, b"abc")),
        (RUN, GRPC, "gzip", framed(1, 7, b"no gzip")),
        (RUN, GRPC, "zstd", framed(1, zstd.len(), &zstd)),
        (RUN, GRPC, "identity", framed(0, 1000, &good[5..])),
        (RUN, GRPC, "identity", good[..3].to_vec()),
        (RUN, GRPC, "identity", vec![]),
        (RUN, GRPC, "identity", framed(0, 3, b"\xff\xff\xff")),
        (CALL, GRPC, "identity", framed(2, 3, b"abc")),
        (CALL, GRPC, "identity", framed(0, 3, b"\xff\xff\xff")),
        (RUN, WEB, "identity", framed(2, 3, b"abc")),
        (RUN, WEB, "identity", vec![]),
        (RUN, TEXT, "identity", b"!!!!!!!!".to_vec()),
        (RUN, TEXT, "identity", text.as_bytes()[..text.len() - 3].to_vec()),
        (RUN, TEXT, "identity", b"A".to_vec()),
    ];
    for (rpc, kind, encoding, body) in check {
        let shown = format!("{rpc} {kind} {encoding} {body:?}");
        let status = answer(&mut channel, request(rpc, kind, encoding, &body)).await;
        let refused = (Code::InvalidArgument, Reason::InvalidRequest);
        assert_eq!((status.code, status.reason), refused, "{shown}: {status}");
    }
    assert!(answer(&mut channel, request(RUN, GRPC, "identity", &good)).await.is_ok());
}

#[tokio::test]
async fn what_is_no_grpc_is_answered_in_http() {
    let mut channel = server().await;
    let mut check = async |method: &str, kind: Option<&str>, expected: u16| {
        let mut request = request(RUN, GRPC, "identity", &echo());
        *request.method_mut() = method.parse().expect("a method");
        match kind {
            Some(kind) => {
                request.headers_mut().insert("content-type", kind.parse().expect("ascii"))
            }
            None => request.headers_mut().remove("content-type"),
        };
        let response = channel.ready().await.expect("stands").call(request).await;
        let status = response.expect("answers").status();
        assert_eq!(status.as_u16(), expected, "{method} {kind:?}");
    };
    check("POST", Some("application/json"), 415).await;
    check("POST", None, 415).await;
    check("GET", Some(GRPC), 405).await;
    check("POST", Some("application/grpc+proto"), 200).await;
}

#[tokio::test]
async fn text_whose_parts_are_each_padded_is_read() {
    let mut channel = server().await;
    let good = echo();
    for at in [1, 4, 5, 7] {
        let (first, rest) = good.split_at(at);
        let text = base64::encode(first) + &base64::encode(rest);
        let status = answer(&mut channel, request(RUN, TEXT, "identity", text.as_bytes())).await;
        assert!(status.is_ok(), "{at}: {status}");
    }
}

#[tokio::test]
async fn a_handler_that_fails_in_such_words_fails_as_it_said() {
    let channel = server().await;
    let arguments = r#"{"code": "INTERNAL", "message": "Unexpected EOF decoding stream."}"#;
    let request = RunActionRequest {
        action: "fail_with".into(),
        arguments_json: arguments.into(),
        ..Default::default()
    };
    let status = Status::from(actions(channel).run_action(request).await.expect_err("fails"));
    assert_eq!((status.code, status.reason), (Code::Internal, Reason::HandlerFailed));
}

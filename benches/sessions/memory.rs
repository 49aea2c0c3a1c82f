//! How much a process grows by idle streams, each number in a process of its own.
//! Both ends are in it: what a session costs is what it takes beyond a bare
//! stream.

use std::{env, process::Command};

use a11_grpc::client::connect;
use a11_grpc::wire::pb::{
    Frame, OpenFrame, OpenSessionRequest, OpenSessionResponse, frame::Body,
    peer_service_client::PeerServiceClient,
};
use futures::StreamExt as _;
use tonic::Streaming;

use crate::{bare, service};

const COUNTS: [usize; 2] = [1_000, 10_000];
/// As many as one connection may have.
const STREAMS_PER_CONNECTION: usize = 1000;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Session,
    Bare,
}

/// What this process was started to measure.
pub(crate) fn asked() -> Option<(Kind, usize)> {
    let kind = match env::var("A11_BENCH_MEMORY").ok()?.as_str() {
        "session" => Kind::Session,
        _ => Kind::Bare,
    };
    Some((kind, env::var("A11_BENCH_COUNT").ok()?.parse().ok()?))
}

pub(crate) fn report() {
    // Only a whole run is for numbers.
    if !env::args().any(|argument| argument == "--bench") {
        return;
    }
    for count in COUNTS {
        for kind in ["session", "bare"] {
            let Ok(program) = env::current_exe() else { return };
            let mut child = Command::new(program);
            child.env("A11_BENCH_MEMORY", kind).env("A11_BENCH_COUNT", count.to_string());
            let ended = child.status().expect("starts");
            assert!(ended.success());
        }
    }
}

/// Opens so many, and prints by how much this process has grown.
pub(crate) async fn measure(kind: Kind, count: usize) {
    let address = match kind {
        Kind::Session => service::start().await,
        Kind::Bare => bare::start().await,
    };
    // What there is once for all.
    let mut open = open(&address, 1).await;
    let before = resident_bytes();
    open.append(&mut self::open(&address, count).await);
    let each = resident_bytes().saturating_sub(before) / count;
    println!("memory of {count} idle streams, {kind:?}: {each} bytes each, both ends");
}

type Open = Streaming<OpenSessionResponse>;

async fn open(address: &str, count: usize) -> Vec<Open> {
    let mut open = vec![];
    let mut client = None;
    for at in 0..count {
        if at % STREAMS_PER_CONNECTION == 0 {
            let channel = connect(address).await.expect("connects");
            client = Some(PeerServiceClient::new(channel));
        }
        let Some(client) = &mut client else { return open };
        let frame = Frame { number: 0, ack: 0, body: Some(Body::Open(OpenFrame::default())) };
        let request = OpenSessionRequest { frame: Some(frame) };
        let requests = futures::stream::iter([request]).chain(futures::stream::pending());
        let mut answers = client.open_session(requests).await.expect("opens").into_inner();
        answers.message().await.expect("goes on").expect("an answer");
        open.push(answers);
    }
    open
}

/// Resident memory, where the system says it; 0 elsewhere.
fn resident_bytes() -> usize {
    const PAGE: usize = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or_default() * PAGE
}

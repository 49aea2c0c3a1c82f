//! Callers that leave: a one-shot call is cancelled at once when its caller drops
//! the RPC or the connection breaks; a half-close cancels nothing.

#![allow(missing_docs)]

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/server.rs"]
mod server;
#[path = "support/trials.rs"]
mod trials;
#[path = "support/turns.rs"]
mod turns;

use a11_grpc::wire::pb::{
    CallActionRequest, CallStart, NodeFragments, RunActionRequest, StreamActionRequest,
    StreamActionsFromInteractionRequest, action_service_client::ActionServiceClient,
    call_action_request::Message, call_action_response::Event,
};
use a11_grpc::wire::{Chunk, NodeFragment};
use futures::{FutureExt as _, future::BoxFuture};
use server::TestServer;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Channel};
use turns::{asked, execute, turn};

type Client = ActionServiceClient<Channel>;

/// Holds an RPC open for ever.
type Rpc = fn(Client) -> BoxFuture<'static, ()>;

/// The one-shot RPCs, each with an action that never ends, and how many handlers
/// that makes.
const RPCS: [(&str, usize, Rpc); 5] = [
    ("RunAction", 1, run_action),
    ("StreamAction", 1, stream_action),
    ("CallAction", 1, call_action),
    ("ExecuteActionsFromInteraction", 3, execute_actions),
    ("StreamActionsFromInteraction", 3, stream_actions),
];

fn run_action(mut client: Client) -> BoxFuture<'static, ()> {
    let request = RunActionRequest { action: "hang".into(), ..Default::default() };
    async move { drop(client.run_action(request).await) }.boxed()
}

fn stream_action(mut client: Client) -> BoxFuture<'static, ()> {
    let request = StreamActionRequest { action: "hang".into(), ..Default::default() };
    async move {
        if let Ok(events) = client.stream_action(request).await {
            read(events.into_inner()).await;
        }
    }
    .boxed()
}

fn call_action(mut client: Client) -> BoxFuture<'static, ()> {
    async move {
        let (requests, received) = mpsc::channel(1);
        requests.send(start("hang")).await.expect("room");
        if let Ok(events) = client.call_action(ReceiverStream::new(received)).await {
            read(events.into_inner()).await;
        }
        drop(requests);
    }
    .boxed()
}

async fn read<T>(mut events: Streaming<T>) {
    while let Ok(Some(_)) = events.message().await {}
}

fn calls() -> Vec<turns::Asked> {
    ["a", "b", "c"].map(|id| asked(id, "hang", &[])).into()
}

fn execute_actions(mut client: Client) -> BoxFuture<'static, ()> {
    let request = execute(turn(calls()));
    async move { drop(client.execute_actions_from_interaction(request).await) }.boxed()
}

fn stream_actions(mut client: Client) -> BoxFuture<'static, ()> {
    let request = StreamActionsFromInteractionRequest { request: Some(execute(turn(calls()))) };
    async move {
        if let Ok(events) = client.stream_actions_from_interaction(request).await {
            read(events.into_inner()).await;
        }
    }
    .boxed()
}

fn start(action: &str) -> CallActionRequest {
    let start = CallStart { action: action.into(), ..Default::default() };
    CallActionRequest { message: Some(Message::Start(start)) }
}

#[tokio::test]
async fn a_caller_that_drops_the_rpc_cancels_what_it_started() {
    let server = TestServer::start(trials::registry()).await;
    let client = server.client().await;
    for (name, handlers, rpc) in RPCS {
        println!("{name}");
        let rpc = tokio::spawn(rpc(client.clone()));
        server.busy(handlers).await;
        rpc.abort();
        server.idle().await;
    }
    let request = RunActionRequest {
        action: "echo".into(),
        arguments_json: r#"{"word":"hi"}"#.into(),
        ..Default::default()
    };
    client.clone().run_action(request).await.expect("the connection is as good as before");
}

#[tokio::test]
async fn a_connection_that_breaks_cancels_what_was_started_over_it() {
    let server = TestServer::start(trials::registry()).await;
    for (name, handlers, rpc) in RPCS {
        println!("{name}");
        // A relay in between, whose end is the connection's.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let upstream = server.url.trim_start_matches("http://").to_owned();
        let relay = tokio::spawn(async move {
            let (mut near, _) = listener.accept().await.expect("a client");
            let mut far = tokio::net::TcpStream::connect(upstream).await.expect("the server");
            tokio::io::copy_bidirectional(&mut near, &mut far).await.ok();
        });
        let client = Client::connect(url).await.expect("connects");
        let rpc = tokio::spawn(rpc(client));
        server.busy(handlers).await;
        relay.abort();
        server.idle().await;
        rpc.abort();
    }
}

#[tokio::test]
async fn a_half_close_ends_the_inputs_and_cancels_nothing() {
    let server = TestServer::start(trials::registry()).await;
    let mut client = server.client().await;

    let (requests, received) = mpsc::channel(1);
    requests.send(start("hang")).await.expect("room");
    drop(requests);
    let events = client.call_action(ReceiverStream::new(received)).await.expect("starts");
    let mut events = events.into_inner();
    let first = events.message().await.expect("no failure").expect("an event");
    assert!(matches!(first.event, Some(Event::Outputs(_))), "{first:?}");
    // Nothing tells that a cancellation does not come; a whole other call is
    // long enough for one that would.
    client.run_action(echo()).await.expect("runs");
    assert_eq!(server.handlers.running(), 1);
    drop(events);
    server.idle().await;

    let (requests, received) = mpsc::channel(4);
    requests.send(start("relay")).await.expect("room");
    for word in ["a", "b"] {
        let fragments = vec![NodeFragment::more("words", Chunk::text(word))];
        let message = Some(Message::Inputs(NodeFragments { fragments }));
        requests.send(CallActionRequest { message }).await.expect("room");
    }
    drop(requests);
    let events = client.call_action(ReceiverStream::new(received)).await.expect("starts");
    let mut events = events.into_inner();
    let mut words = vec![];
    let mut ended = None;
    while let Some(event) = events.message().await.expect("no failure") {
        match event.event.expect("an event") {
            Event::Outputs(outputs) => {
                let chunks = outputs.fragments.iter().filter_map(NodeFragment::chunk);
                let values = chunks.filter(|chunk| !chunk.is_null());
                words
                    .extend(values.map(|chunk| String::from_utf8_lossy(chunk.data()).into_owned()));
            }
            Event::Log(_) => {}
            Event::Status(status) => ended = Some(status.code),
        }
    }
    assert_eq!((words, ended), (vec!["a".to_owned(), "b".to_owned()], Some(0)));
    server.idle().await;
}

fn echo() -> RunActionRequest {
    RunActionRequest {
        action: "echo".into(),
        arguments_json: r#"{"word":"hi"}"#.into(),
        ..Default::default()
    }
}

//! The ports of calls, reached from other connections by the id of the run.

use a11_grpc::action::{ActionSchema, Context, Port, handler};
use a11_grpc::client::{Client, actions};
use a11_grpc::wire::pb::node_service_client::NodeServiceClient;
use a11_grpc::wire::pb::read_node_response::Event;
use a11_grpc::wire::pb::write_node_request::Message;
use a11_grpc::wire::pb::{self, call_action_request, call_action_response};
use a11_grpc::wire::{Chunk, Code, NodeFragment, Reason, Status};
use futures::StreamExt as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Streaming, transport::Channel};

use crate::service::{Service, host_echo, host_failure, host_name};

type Nodes = NodeServiceClient<Channel>;

/// Another one each time, as callers are to choose them.
fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

async fn nodes(service: &Service) -> Nodes {
    NodeServiceClient::new(service.channel().await)
}

/// Begins to read an output.
async fn attach(
    nodes: &mut Nodes,
    run: &str,
    port: &str,
    offset: u32,
) -> Result<Streaming<pb::ReadNodeResponse>, Status> {
    let (run, id) = (run.to_owned(), port.to_owned());
    let request = pb::ReadNodeRequest { run, id, offset, ..Default::default() };
    Ok(nodes.read_node(request).await?.into_inner())
}

/// The next `count` fragments with their places, or all up to the end.
async fn read(events: &mut Streaming<pb::ReadNodeResponse>, count: usize) -> Vec<(u32, String)> {
    let mut read = vec![];
    while read.len() < count {
        let event = events.message().await.expect("goes on").expect("more").event;
        match event.expect("an event") {
            Event::Fragments(fragments) => read.extend(fragments.fragments.iter().map(|it| {
                let text = it.chunk().map(|chunk| String::from_utf8_lossy(chunk.data()));
                (it.seq.expect("a place"), text.unwrap_or_default().into_owned())
            })),
            Event::End(status) => {
                read.push((u32::MAX, Code::from_i32(status.code).to_string()));
                return read;
            }
        }
    }
    read
}

fn texts(from: u32, texts: &[&str]) -> Vec<(u32, String)> {
    (from..).zip(texts.iter().map(|text| (*text).to_owned())).collect()
}

/// Writes to an input, as one connection that then is over.
async fn write(
    nodes: &mut Nodes,
    run: &str,
    messages: Vec<Message>,
) -> Result<pb::WriteNodeResponse, Status> {
    let (run, id) = (run.to_owned(), "values".to_owned());
    let start = pb::WriteNodeStart { run, id, ..Default::default() };
    let messages = std::iter::once(Message::Start(start)).chain(messages);
    let requests = messages.map(|message| pb::WriteNodeRequest { message: Some(message) });
    let requests: Vec<_> = requests.collect();
    Ok(nodes.write_node(futures::stream::iter(requests)).await?.into_inner())
}

fn value(seq: u32, text: &str) -> Message {
    let fragment = NodeFragment { seq: Some(seq), ..NodeFragment::more("", Chunk::text(text)) };
    Message::Fragments(pb::NodeFragments { fragments: vec![fragment] })
}

/// A call of `echo` over `CallAction` that is held open.
async fn call_echo(
    service: &Service,
    run: &str,
) -> (mpsc::Sender<pb::CallActionRequest>, Streaming<pb::CallActionResponse>) {
    let (sender, requests) = mpsc::channel(8);
    let start = pb::CallStart { action: "echo".into(), ..Default::default() };
    let message = Some(call_action_request::Message::Start(start));
    sender.send(pb::CallActionRequest { message }).await.expect("is sent");
    let mut request = Request::new(ReceiverStream::new(requests));
    request.metadata_mut().insert("x-a11-run", run.parse().expect("ascii"));
    let mut client = actions(service.channel().await);
    let mut events = client.call_action(request).await.expect("is called").into_inner();
    // It narrates once it has begun.
    let begun = events.message().await.expect("runs").expect("an event").event;
    assert!(matches!(begun, Some(call_action_response::Event::Log(_))), "{begun:?}");
    (sender, events)
}

#[tokio::test]
async fn several_read_and_write_a_running_call_at_their_own_pace_and_come_back() {
    let service = Service::start().await;
    host_echo(&service.registry);
    let run = new_id();
    let (caller, events) = call_echo(&service, &run).await;
    let (mut one, mut other) = (nodes(&service).await, nodes(&service).await);
    let mut early = attach(&mut one, &run, "echoes", 0).await.expect("is there");
    let answer = write(&mut other, &run, vec![value(0, "a"), value(1, "b")]).await;
    assert_eq!(answer.expect("is written").next_seq, 2);
    assert_eq!(read(&mut early, 2).await, texts(0, &["a", "b"]));

    // The connections are lost; both go on where they were, over others.
    drop((early, one, other));
    let mut again = nodes(&service).await;
    let repeated = vec![value(1, "b"), value(2, "c"), Message::Close(pb::Status::default())];
    let answer = write(&mut again, &run, repeated).await.expect("is written");
    assert_eq!(answer.next_seq, 3);
    let mut resumed = attach(&mut again, &run, "echoes", 2).await.expect("is there");
    assert_eq!(read(&mut resumed, 1).await, texts(2, &["c"]));
    let mut late = attach(&mut again, &run, "echoes", 0).await.expect("is there");
    assert_eq!(read(&mut late, 3).await, texts(0, &["a", "b", "c"]));

    let events: Vec<_> = events.collect().await;
    let last = events.last().expect("a status").as_ref().expect("no failure").event.clone();
    assert_eq!(last, Some(call_action_response::Event::Status(Status::ok().into())));
    drop(caller);
}

#[tokio::test]
async fn a_run_that_is_over_can_be_read_and_no_longer_be_written() {
    let service = Service::start().await;
    host_echo(&service.registry);
    let run = new_id();
    let request = pb::StreamActionRequest {
        action: "echo".into(),
        arguments_json: r#"{"values": ["a", "b"]}"#.into(),
        headers: [("x-a11-run".to_owned(), run.clone().into())].into(),
        ..Default::default()
    };
    let events = actions(service.channel().await).stream_action(request).await.expect("runs");
    let _: Vec<_> = events.into_inner().collect().await;
    let mut nodes = nodes(&service).await;
    let mut late = attach(&mut nodes, &run, "echoes", 1).await.expect("is kept");
    assert_eq!(read(&mut late, 1).await, texts(1, &["b"]));
    let status = write(&mut nodes, &run, vec![value(2, "c")]).await.expect_err("is over");
    assert_eq!(status.reason, Reason::NodeClosed);
}

#[tokio::test]
async fn the_failure_of_a_call_is_the_end_of_its_outputs() {
    let service = Service::start().await;
    host_failure(&service.registry);
    let mut nodes = nodes(&service).await;
    let client = Client::connect(service.channel().await).await.expect("attaches");
    let run = new_id();
    let call = client.call("fail").header("x-a11-run", run.clone());
    assert_eq!(call.run().await.expect_err("fails").code, Code::NotFound);
    let mut late = attach(&mut nodes, &run, "parts", 0).await.expect("is kept");
    let end = (u32::MAX, Code::NotFound.to_string());
    assert_eq!(read(&mut late, 2).await, [texts(0, &["before"]), vec![end]].concat());
}

#[tokio::test]
async fn a_call_of_a_session_is_reached_and_its_cancelling_is_told() {
    let service = Service::start().await;
    host_echo(&service.registry);
    let client = Client::connect(service.channel().await).await.expect("attaches");
    let run = new_id();
    let mut call = client.call("echo").header("x-a11-run", run.clone()).start().await.expect("ok");
    let mut values = call.input("values").expect("an input");
    values.send(Chunk::text("mine")).await.expect("is written");
    let mut nodes = nodes(&service).await;
    assert!(call.next_event().await.is_some());
    let mut reading = attach(&mut nodes, &run, "echoes", 0).await.expect("is there");
    assert_eq!(read(&mut reading, 1).await, texts(0, &["mine"]));
    write(&mut nodes, &run, vec![value(1, "yours")]).await.expect("is written");
    assert_eq!(read(&mut reading, 1).await, texts(1, &["yours"]));
    drop(call);
    assert_eq!(read(&mut reading, 1).await, [(u32::MAX, Code::Cancelled.to_string())]);
}

#[tokio::test]
async fn what_runs_is_not_told_the_id() {
    let service = Service::start().await;
    let schema = ActionSchema::builder("tell").output(Port::json("headers").required()).build();
    let run = |context: Context| async move {
        let names: Vec<_> = context.headers().iter().map(|(name, _)| name.to_owned()).collect();
        context.write("headers", &names).await
    };
    service.registry.register(schema, handler(run)).expect("registers");
    let client = Client::connect(service.channel().await).await.expect("attaches");
    let call = client.call("tell").header("x-a11-run", new_id()).header("x-a11-other", "sent");
    let outputs = call.run().await.expect("runs");
    assert_eq!(outputs.value::<Vec<String>>("headers").expect("names"), ["x-a11-other"]);
}

#[tokio::test]
async fn ids_that_are_taken_or_no_good_are_refused() {
    let service = Service::start().await;
    host_echo(&service.registry);
    host_name(&service.registry, "who", "me");
    let run = new_id();
    let _open = call_echo(&service, &run).await;
    let mut client = actions(service.channel().await);
    let mut check = async |id: &str, expected: Reason| {
        let mut request =
            Request::new(pb::RunActionRequest { action: "who".into(), ..Default::default() });
        request.metadata_mut().insert("x-a11-run", id.parse().expect("ascii"));
        let status = client.run_action(request).await.expect_err("is refused");
        assert_eq!(Status::from(status).reason, expected, "{id}");
    };
    check(&run, Reason::NameTaken).await;
    check("run-1", Reason::InvalidRequest).await;
    let mut nodes = nodes(&service).await;
    let status = attach(&mut nodes, &new_id(), "echoes", 0).await.expect_err("is unknown");
    assert_eq!(status.reason, Reason::UnknownNode);
    let both = pb::ReadNodeRequest { session: "s".into(), run, ..Default::default() };
    let status = nodes.read_node(both).await.expect_err("is ambiguous");
    assert_eq!(Status::from(status).reason, Reason::InvalidRequest);
}

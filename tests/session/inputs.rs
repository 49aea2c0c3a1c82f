//! An input that no chunk may be, or whose bytes are somewhere else: the same
//! refusal on every way in, whoever hosts the action.

use std::sync::Arc;

use a11_grpc::action::Registry;
use a11_grpc::client::{Client, Peer, actions};
use a11_grpc::wire::pb::node_service_client::NodeServiceClient;
use a11_grpc::wire::pb::peer_service_client::PeerServiceClient;
use a11_grpc::wire::pb::{
    self, Frame, NodeFragments, call_action_request, call_action_response, chunk, frame::Body,
    node_fragment::Payload, stream_action_response, write_node_request,
};
use a11_grpc::wire::{Chunk, Code, NodeFragment, Reason, Status};
use futures::{StreamExt as _, stream};
use prost::Message as _;
use tonic::Request;

use crate::service::{Service, host_echo};

/// A fragment of the input, and how it is refused.
type Case = (NodeFragment, Code, Reason, &'static str);

fn cases() -> Vec<Case> {
    let with = |payload| NodeFragment {
        payload: Some(payload),
        ..NodeFragment::last("values", Chunk::null())
    };
    let at = |place: String| {
        with(Payload::Chunk(Chunk { metadata: None, body: Some(chunk::Body::Ref(place)) }))
    };
    let node = |id: &str| with(Payload::NodeRef(pb::NodeRef { id: id.into(), ..<_>::default() }));
    let typed = |len| with(Payload::Chunk(Chunk::new("t".repeat(len), "hi")));
    let having = |count: usize, name: &str, bytes: usize| {
        let mut chunk = Chunk::text("hi");
        let attributes = &mut chunk.metadata.get_or_insert_default().attributes;
        attributes.extend((0..count).map(|n| (format!("{name}{n}"), vec![0; bytes].into())));
        with(Payload::Chunk(chunk))
    };
    let odd = |fragment, names| (fragment, Code::InvalidArgument, Reason::InvalidRequest, names);
    let elsewhere = |fragment, names| (fragment, Code::NotFound, Reason::UnknownNode, names);
    vec![
        odd(typed(256), "metadata."),
        odd(at("r".repeat(2049)), "ref"),
        odd(at(String::new()), "ref"),
        odd(having(65, "n", 0), "metadata.attributes"),
        odd(having(1, "n", 1 << 16), "metadata.attributes"),
        odd(having(1, "a b", 0), "metadata.attributes"),
        elsewhere(at("gs://bucket/text".to_owned()), "gs://bucket/text"),
        elsewhere(node("other"), "other"),
    ]
}

type End = Result<(), Status>;

fn ended(status: Status) -> End {
    if status.is_ok() { Ok(()) } else { Err(status) }
}

async fn run(service: &Service, input: NodeFragment) -> End {
    let request =
        pb::RunActionRequest { action: "echo".into(), inputs: vec![input], ..<_>::default() };
    actions(service.channel().await).run_action(request).await?;
    Ok(())
}

async fn stream_it(service: &Service, input: NodeFragment) -> End {
    let request =
        pb::StreamActionRequest { action: "echo".into(), inputs: vec![input], ..<_>::default() };
    let mut events = actions(service.channel().await).stream_action(request).await?.into_inner();
    while let Some(event) = events.message().await? {
        if let Some(stream_action_response::Event::Status(status)) = event.event {
            return ended(status.into());
        }
    }
    Ok(())
}

fn start() -> call_action_request::Message {
    call_action_request::Message::Start(pb::CallStart { action: "echo".into(), ..<_>::default() })
}

async fn call(service: &Service, input: NodeFragment) -> End {
    let inputs = call_action_request::Message::Inputs(NodeFragments { fragments: vec![input] });
    let requests = [start(), inputs].map(|it| pb::CallActionRequest { message: Some(it) });
    let requests = stream::iter(requests);
    let mut events = actions(service.channel().await).call_action(requests).await?.into_inner();
    while let Some(event) = events.message().await? {
        if let Some(call_action_response::Event::Status(status)) = event.event {
            return ended(status.into());
        }
    }
    Ok(())
}

async fn execute(service: &Service, input: NodeFragment) -> End {
    let call = pb::ActionMessage { id: "c".into(), name: "echo".into(), ..<_>::default() };
    let turn = pb::Interaction {
        role: pb::Role::Model as i32,
        action_calls: vec![call],
        action_inputs: [("c".to_owned(), NodeFragments { fragments: vec![input] })].into(),
        ..<_>::default()
    };
    let request = pb::ExecuteActionsFromInteractionRequest {
        interaction: Some(turn.encode_to_vec().into()),
        allowed_actions: vec![".*".into()],
        ..<_>::default()
    };
    let mut client = actions(service.channel().await);
    let response = client.execute_actions_from_interaction(request).await?.into_inner();
    ended(response.results[0].status.clone().expect("a status").into())
}

/// Writes the input of a call that runs, from a connection apart.
async fn write_node(service: &Service, input: NodeFragment) -> End {
    let run = uuid::Uuid::new_v4().to_string();
    let mut request = Request::new(
        stream::iter([pb::CallActionRequest { message: Some(start()) }]).chain(stream::pending()),
    );
    request.metadata_mut().insert("x-a11-run", run.parse().expect("ascii"));
    let mut events = actions(service.channel().await).call_action(request).await?.into_inner();
    // It runs, and so can be reached, once it narrates.
    events.message().await?.expect("an event");
    let start = pb::WriteNodeStart { run, id: "values".into(), ..<_>::default() };
    let fragments = NodeFragments { fragments: vec![input] };
    let messages = [
        write_node_request::Message::Start(start),
        write_node_request::Message::Fragments(fragments),
    ];
    let requests = messages.map(|message| pb::WriteNodeRequest { message: Some(message) });
    let mut nodes = NodeServiceClient::new(service.channel().await);
    nodes.write_node(stream::iter(requests)).await?;
    Ok(())
}

/// A caller that speaks frames, so that no client looks at the input first.
async fn session(service: &Service, input: NodeFragment) -> End {
    let call = pb::CallFrame { call: 1, action: "echo".into(), ..<_>::default() };
    let fragments = pb::FragmentsFrame { call: 1, fragments: vec![input] };
    let bodies =
        [Body::Open(<_>::default()), Body::Call(call), Body::Fragments(fragments)].into_iter();
    let frames = bodies.zip(0..).map(|(body, number)| pb::OpenSessionRequest {
        frame: Some(Frame { number, ack: 0, body: Some(body) }),
    });
    let frames: Vec<_> = frames.collect();
    let requests = stream::iter(frames).chain(stream::pending());
    let mut peers = PeerServiceClient::new(service.channel().await);
    let mut responses = peers.open_session(requests).await?.into_inner();
    while let Some(response) = responses.message().await? {
        if let Some(Body::Status(frame)) = response.frame.and_then(|frame| frame.body) {
            return ended(frame.status.map_or_else(Status::ok, Status::from));
        }
    }
    panic!("the call did not end")
}

async fn check_all(service: &Service) {
    for (input, code, reason, names) in cases() {
        let ends = [
            ("RunAction", run(service, input.clone()).await),
            ("StreamAction", stream_it(service, input.clone()).await),
            ("CallAction", call(service, input.clone()).await),
            ("Execute", execute(service, input.clone()).await),
            ("WriteNode", write_node(service, input.clone()).await),
            ("OpenSession", session(service, input).await),
        ];
        for (way, end) in ends {
            let status = end.expect_err(way);
            assert_eq!((status.code, status.reason), (code, reason), "{way} {names}: {status}");
            assert!(status.message.contains(names), "{way} {names}: {status}");
        }
    }
    let fit = NodeFragment::last("values", Chunk::text("hi"));
    assert_eq!(session(service, fit.clone()).await, Ok(()));
    assert_eq!(call(service, fit).await, Ok(()));
}

#[tokio::test]
async fn an_input_that_cannot_be_is_refused_on_every_way_in() {
    let service = Service::start().await;
    host_echo(&service.registry);
    check_all(&service).await;
}

#[tokio::test]
async fn a_peers_action_is_not_given_such_an_input_either() {
    let service = Service::start().await;
    let registry = Arc::new(Registry::new());
    host_echo(&registry);
    let host: Client =
        Peer::host(registry).connect(service.channel().await).await.expect("attaches");
    check_all(&service).await;
    host.close().await;
}

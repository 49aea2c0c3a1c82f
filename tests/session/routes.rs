//! Calls of an interaction that a config sends to a session.

use std::sync::Arc;

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
use a11_grpc::client::{Client, Peer};
use a11_grpc::wire::pb::{self, action_service_client::ActionServiceClient};
use a11_grpc::wire::{Code, Reason, Status};
use prost::Message as _;
use tonic::Request;

use crate::service::{Service, host_name};

/// Runs one call of `who`, sent to `peer`, and answers its result.
async fn run(
    service: &Service,
    peer: pb::Peer,
    session: Option<&Client>,
) -> Result<String, Status> {
    let call = pb::ActionMessage { id: "c1".into(), name: "who".into(), ..Default::default() };
    let config = pb::ActionConfig { peer: Some(peer), ..Default::default() };
    let interaction = pb::Interaction {
        action_calls: vec![call],
        action_configs: [("who".to_owned(), config)].into(),
        ..Default::default()
    };
    let mut request = Request::new(pb::ExecuteActionsFromInteractionRequest {
        interaction: Some(interaction.encode_to_vec().into()),
        allowed_actions: vec!["who".into()],
        ..Default::default()
    });
    if let Some(client) = session {
        let id = client.session().id().parse().expect("an id is metadata");
        request.metadata_mut().insert("x-a11-session", id);
    }
    let mut client = ActionServiceClient::new(service.channel().await);
    let response = client.execute_actions_from_interaction(request).await?.into_inner();
    let status = Status::from(response.results[0].status.clone().unwrap_or_default());
    if !status.is_ok() {
        return Err(status);
    }
    let outputs = response.interaction.expect("a turn").action_outputs;
    let fragments = &outputs["c1"].fragments;
    let data = fragments[0].chunk().expect("a chunk").data().to_vec();
    Ok(String::from_utf8(data).expect("text"))
}

#[tokio::test]
async fn a_config_sends_a_call_to_one_session() {
    let service = Service::start().await;
    host_name(&service.registry, "who", "the service");
    let mut peers = vec![];
    for answer in ["one", "two"] {
        let registry = Arc::new(Registry::new());
        host_name(&registry, "who", answer);
        let peer = Peer::host(registry).connect(service.channel().await).await;
        peers.push((peer.expect("attaches"), answer));
    }
    for (peer, answer) in &peers {
        let address = pb::Peer::session(peer.session().id());
        let said = run(&service, address, None).await.expect("runs");
        assert!(said.contains(answer), "{said}");
        let said = run(&service, pb::Peer::sender(), Some(peer)).await.expect("runs");
        assert!(said.contains(answer), "{said}");
    }
}

#[tokio::test]
async fn a_config_that_leads_nowhere_fails_its_call() {
    let service = Service::start().await;
    let idle = Client::connect(service.channel().await).await.expect("attaches");
    let check = async |peer: pb::Peer, session: Option<&Client>, expected: (Code, Reason)| {
        let status = run(&service, peer, session).await.expect_err("leads nowhere");
        assert_eq!((status.code, status.reason), expected);
    };
    let sender = pb::Peer::sender;
    check(sender(), None, (Code::FailedPrecondition, Reason::NoSender)).await;
    check(sender(), Some(&idle), (Code::NotFound, Reason::UnknownAction)).await;
    let gone = pb::Peer::session("nobody");
    check(gone, None, (Code::Unavailable, Reason::UnknownSession)).await;
    let dialled = "a11+grpc://elsewhere:1".parse().expect("an address");
    check(dialled, None, (Code::Unimplemented, Reason::UnsupportedPeer)).await;
}

/// A host is somebody else: it is not told by what the caller can be called, nor does
/// the turn say what is allowed.
#[tokio::test]
async fn a_host_learns_neither_the_callers_session_nor_limits_that_a_turn_made_up() {
    let service = Service::start().await;
    let schema = ActionSchema::builder("seen")
        .header("x-a11-session", "", None)
        .output(Port::text("headers"));
    let seen = handler(|context: Context| async move {
        let headers = context.headers().iter();
        let headers = headers.map(|(name, value)| format!("{name}={value:?}"));
        context.write("headers", &headers.collect::<Vec<_>>().join(" ")).await
    });
    let registry = Registry::new();
    registry.register(schema.build(), seen).expect("registers");
    let peer = Peer::host(Arc::new(registry)).connect(service.channel().await).await;
    let peer = peer.expect("attaches");
    let caller = Client::connect(service.channel().await).await.expect("attaches");
    let id = caller.session().id().to_owned();

    let autofills = [
        ("X-A11-Allowed-LLM-Actions", ".*"),
        ("x-a11-deadline", "1"),
        ("x-a11-session", "made-up"),
        ("x-a11-tenant", "mine"),
    ];
    let config = pb::ActionConfig {
        peer: Some(pb::Peer::session(peer.session().id())),
        header_autofills: autofills.map(|(name, value)| (name.to_owned(), value.into())).into(),
    };
    let call = pb::ActionMessage { id: "c1".into(), name: "seen".into(), ..Default::default() };
    let interaction = pb::Interaction {
        action_calls: vec![call],
        action_configs: [("seen".to_owned(), config)].into(),
        ..Default::default()
    };
    let mut request = Request::new(pb::ExecuteActionsFromInteractionRequest {
        interaction: Some(interaction.encode_to_vec().into()),
        allowed_actions: vec!["seen".into()],
        ..Default::default()
    });
    request.metadata_mut().insert("x-a11-session", id.parse().expect("an id is metadata"));
    let mut client = ActionServiceClient::new(service.channel().await);
    let round = client.execute_actions_from_interaction(request).await.expect("runs").into_inner();
    let fragments = &round.interaction.expect("a turn").action_outputs["c1"].fragments;
    let seen = fragments[0].chunk().expect("a chunk").data().to_vec();
    let seen = String::from_utf8(seen).expect("text");
    assert!(!seen.contains(&id) && !seen.contains("x-a11-session"), "{seen}");
    assert!(seen.contains(r#"x-a11-allowed-llm-actions=b"seen""#), "{seen}");
    assert!(seen.contains(r#"x-a11-tenant=b"mine""#), "what is no limit is set: {seen}");

    // Neither by a call of its own, whatever it says itself.
    let run = caller.call("seen").header("x-a11-session", id.clone()).run().await.expect("runs");
    let seen: String = run.value("headers").expect("a text");
    assert!(!seen.contains(&id), "{seen}");
}

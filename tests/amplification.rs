//! Small requests that would take much memory or time: refused before they do,
//! on a connection that stays usable.

#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/server.rs"]
mod server;
#[path = "support/trials.rs"]
mod trials;
#[path = "support/turns.rs"]
mod turns;

use std::sync::Arc;

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
use a11_grpc::wire::Reason;
use a11_grpc::wire::pb::{
    ActionMessage, ConvertInteractionsRequest, Interaction, ListActionsRequest, NodeFragment,
    RunActionRequest, interaction_service_client::InteractionServiceClient,
};
use server::TestServer;
use tonic::Code;
use turns::{asked, endings, execute, failure, turn};

/// Past what a message may hold, in a few hundred kilobytes.
const TOO_MANY: usize = 300_000;

#[tokio::test]
async fn a_message_of_very_many_parts_is_refused_before_it_is_decoded() {
    let server = TestServer::start(trials::registry()).await;
    let mut client = server.client().await;
    let calls = Interaction {
        action_calls: vec![ActionMessage::default(); TOO_MANY],
        ..Default::default()
    };
    let status = client.execute_actions_from_interaction(execute(calls)).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let inputs = RunActionRequest {
        action: "echo".into(),
        inputs: vec![NodeFragment::default(); TOO_MANY],
        ..Default::default()
    };
    let status = client.run_action(inputs).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let one = execute(turn([asked("c", "echo", &[("word", "hi")])]));
    assert_eq!(endings(&mut client, one).await[0].0, Code::Ok, "the connection is usable");
}

#[tokio::test]
async fn a_turn_of_very_many_calls_is_refused() {
    let server = TestServer::start(trials::registry()).await;
    let mut client = server.client().await;
    let turn = |calls: usize| turn((0..calls).map(|i| asked(&format!("c{i}"), "none", &[])));
    let status = client.execute_actions_from_interaction(execute(turn(16_385))).await.unwrap_err();
    assert!(status.message().contains("16385 calls"), "{status}");
    assert_eq!(failure(status), (Code::InvalidArgument, Reason::InvalidRequest));
    assert_eq!(endings(&mut client, execute(turn(100))).await.len(), 100);
}

#[tokio::test]
async fn a_conversion_of_very_many_interactions_is_refused() {
    let server = a11_grpc::serve::in_process(Arc::default(), None).await.unwrap();
    let interactions = vec![Interaction::default(); TOO_MANY];
    let request = ConvertInteractionsRequest { interactions, ..Default::default() };
    let status =
        InteractionServiceClient::new(server).convert_interactions(request).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
}

#[tokio::test]
async fn a_list_of_long_descriptions_comes_in_pages_that_fit() {
    let registry = Registry::new();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
        let schema = ActionSchema::builder(name)
            .describe("x".repeat(1_000_000))
            .output(Port::text("o"))
            .build();
        registry.register(schema, handler(|_: Context| async { Ok(()) })).unwrap();
    }
    let server = TestServer::start(Arc::new(registry)).await;
    let mut client = server.client().await;
    let (mut names, mut pages, mut page_token) = (String::new(), 0, String::new());
    loop {
        let request =
            ListActionsRequest { page_token, include_document: true, ..Default::default() };
        let page = client.list_actions(request).await.unwrap().into_inner();
        names.extend(page.actions.iter().map(|action| action.name.as_str()));
        pages += 1;
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!((names.as_str(), pages), ("abcdefghi", 2));
}

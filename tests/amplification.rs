//! Small requests that would take much memory or time: refused before they do,
//! on a connection that stays usable.

#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/memory.rs"]
mod memory;
#[path = "support/server.rs"]
mod server;
#[path = "support/trials.rs"]
mod trials;
#[path = "support/turns.rs"]
mod turns;

use std::sync::Arc;

use a11_grpc::action::{ActionSchema, Context, Port, Registry, Scope, handler};
use a11_grpc::interaction::store::sqlite::SqliteStore;
use a11_grpc::runner::{AllowList, Plan, Request, execute as execute_plan};
use a11_grpc::wire::pb::{
    self, ActionMessage, ConvertInteractionsRequest, Interaction, ListActionsRequest, NodeFragment,
    RunActionRequest, append_interaction_request as append, chunk::Body,
    interaction_service_client::InteractionServiceClient,
    normalize_interaction_request as normalize, validate_interaction_request as validation,
};
use a11_grpc::wire::{Chunk, Reason};
use pbjson_types::value::Kind;
use prost::Message as _;
use server::TestServer;
use tonic::Code;
use turns::{asked, endings, execute, failure, turn};

/// One test at a time: the memory is that of the whole program.
async fn alone() -> tokio::sync::MutexGuard<'static, ()> {
    static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    ALONE.lock().await
}

/// Past what a message may hold, in a few hundred kilobytes.
const TOO_MANY: usize = 300_000;

#[tokio::test]
async fn a_message_of_very_many_parts_is_refused_before_it_is_decoded() {
    let _alone = alone().await;
    let server = TestServer::start(trials::registry()).await;
    let mut client = server.client().await;
    let calls = Interaction {
        action_calls: vec![ActionMessage::default(); TOO_MANY],
        ..Default::default()
    };
    let status = client.execute_actions_from_interaction(execute(calls)).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    // After an interaction that is none: it is kept as it came, and read later.
    let request = pb::ExecuteActionsFromInteractionRequest {
        interaction: Some(vec![0xff].into()),
        rejected_calls: vec![pb::RejectedCall::default(); TOO_MANY],
        ..Default::default()
    };
    let status = client.execute_actions_from_interaction(request).await.unwrap_err();
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
    let _alone = alone().await;
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
    let _alone = alone().await;
    let server = a11_grpc::serve::in_process(Arc::default(), None).await.unwrap();
    let interactions = vec![Interaction::default(); TOO_MANY];
    let request = ConvertInteractionsRequest { interactions, ..Default::default() };
    let status =
        InteractionServiceClient::new(server).convert_interactions(request).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
}

/// An interaction with something worth a note in each of very many fragments, all of
/// them under one long key: 2 GB of paths, if each were written in full.
fn turn_of_many_notes() -> Interaction {
    let fragment = NodeFragment { id: "a b".into(), ..NodeFragment::default() };
    let fragments = pb::NodeFragments { fragments: vec![fragment; 100_000] };
    Interaction {
        role: pb::Role::Model as i32,
        action_outputs: [("k".repeat(20_000), fragments)].into(),
        ..Interaction::default()
    }
}

#[tokio::test]
async fn what_is_wrong_with_an_interaction_is_told_in_little_memory() {
    let _alone = alone().await;
    let channel = a11_grpc::serve::in_process(Arc::default(), None).await.unwrap();
    let mut client = a11_grpc::client::actions(channel.clone());
    let mut interactions = a11_grpc::client::interactions(channel);
    let notes = turn_of_many_notes();
    let mut refused = notes.clone();
    for outputs in refused.action_outputs.values_mut() {
        let nowhere = Chunk { metadata: None, body: Some(Body::Ref(String::new())) };
        outputs.fragments.push(NodeFragment::last("x", nowhere));
    }
    for (interaction, valid) in [(notes, true), (refused, false)] {
        let body = Some(validation::Body::Interaction(interaction.clone()));
        let request = pb::ValidateInteractionRequest { body };
        let answer = interactions.validate_interaction(request).await.unwrap().into_inner();
        check_memory("validate");
        assert_eq!(answer.valid, valid, "a refusal is told however many notes there are");
        assert_eq!(answer.problems.len(), if valid { 999 } else { 1000 });
        assert_eq!(answer.problems.last().map(|problem| problem.refused), Some(!valid));
        let executed = client.execute_actions_from_interaction(execute(interaction.clone())).await;
        check_memory("execute");
        assert_eq!(executed.is_ok(), valid, "{executed:?}");
        let body = Some(normalize::Body::Interaction(interaction.clone()));
        let request = pb::NormalizeInteractionRequest { body };
        let normalized = interactions.normalize_interaction(request).await;
        check_memory("normalize");
        assert_eq!(normalized.is_ok(), valid, "{normalized:?}");
        let request = ConvertInteractionsRequest {
            interactions: vec![interaction],
            to: pb::Backend::Claude as i32,
            ..Default::default()
        };
        let converted = interactions.convert_interactions(request).await;
        check_memory("convert");
        assert_eq!(converted.is_ok(), valid, "{converted:?}");
    }
}

/// The most memory that this program may come to. Its JSON, as values, would take
/// 450 to 730 MB.
const MOST_MEMORY: usize = 300_000_000;
const JSON_BYTES: usize = 8_000_000;

/// A list of so many of an item that it has about [`JSON_BYTES`].
fn list_of(item: &str) -> String {
    format!("[{}]", vec![item; JSON_BYTES / (item.len() + 1)].join(","))
}

fn check_memory(what: &str) {
    let peak = memory::peak().unwrap_or_default();
    assert!(peak < MOST_MEMORY, "{what}: {peak} bytes");
}

/// How a request with JSON of very many values was refused.
fn refused<T: std::fmt::Debug>(what: &str, answer: Result<T, tonic::Status>) -> tonic::Status {
    check_memory(what);
    answer.expect_err(what)
}

#[tokio::test]
async fn json_of_very_many_values_is_refused_before_it_is_read() {
    let _alone = alone().await;
    let registry = Registry::new();
    let schema = ActionSchema::builder("take")
        .input(Port::json("any"))
        .input(Port::json("checked").schema("{}"))
        .input(Port::json("many").stream())
        .output(Port::json("out"));
    let run = |context: Context| async move {
        match context.read_optional::<serde_json::Value>("any").await? {
            None => context.write_chunk("out", Chunk::new("", list_of("[0]"))).await,
            Some(value) => context.write("out", &value).await,
        }
    };
    registry.register(schema.build(), handler(run)).unwrap();
    let channel = a11_grpc::serve::in_process(Arc::new(registry), None).await.unwrap();
    let mut client = a11_grpc::client::actions(channel.clone());
    let mut interactions = a11_grpc::client::interactions(channel);

    // Each kind of value, each way in: what takes most in memory goes every way.
    for (item, most) in [("[0]", usize::MAX), (r#"{"":0}"#, 1), ("{}", 1)] {
        let list = list_of(item);
        let exhausted = |what: &str, status: tonic::Status| {
            assert_eq!(status.code(), Code::ResourceExhausted, "{what} {item}: {status}");
        };
        for json in [
            list.clone(),
            format!(r#"{{"role":"model","action_calls":{list}}}"#),
            format!(r#"{{"role":"user","content":{list}}}"#),
            format!(r#"{{"role":"ROLE_USER","content":{list}}}"#),
            format!(r#"{{"role":{list}}}"#),
            format!(r#"{{"choices":{list}}}"#),
        ]
        .into_iter()
        .take(most)
        {
            let what = format!("{json:.40}");
            let request = pb::ExecuteActionsFromInteractionRequest {
                interaction_json: json.clone(),
                ..Default::default()
            };
            let executed = client.execute_actions_from_interaction(request);
            exhausted(&what, refused(&what, executed.await));
            let encoded =
                pb::EncodedInteraction { media_type: "application/json".into(), data: json.into() };
            let body = Some(normalize::Body::Encoded(encoded));
            let request = pb::NormalizeInteractionRequest { body };
            let normalized = interactions.normalize_interaction(request);
            exhausted(&what, refused(&what, normalized.await));
        }
        // A raw reply.
        let reply = Chunk::new("application/json", format!(r#"{{"choices":{list}}}"#));
        let reply = Interaction {
            role: pb::Role::Model as i32,
            content: vec![reply],
            ..Default::default()
        };
        let executed = client.execute_actions_from_interaction(execute(reply));
        exhausted("reply", refused("reply", executed.await));
        // Arguments.
        for arguments_json in [
            format!(r#"{{"any":{list}}}"#),
            format!(r#"{{"checked":{list}}}"#),
            format!(r#"{{"many":{list}}}"#),
            list.clone(),
            // A list as text, as models send it now and then.
            format!(r#"{{"many":{}}}"#, serde_json::to_string(&list).unwrap()),
        ]
        .into_iter()
        .take(most)
        {
            let what = format!("arguments {arguments_json:.20}");
            let request =
                RunActionRequest { action: "take".into(), arguments_json, ..Default::default() };
            let ran = client.run_action(request);
            exhausted(&what, refused(&what, ran.await));
        }
        // Fragments, on a port with a schema and one that is read as any value.
        for (port, expected) in
            [("checked", Code::InvalidArgument), ("any", Code::ResourceExhausted)]
        {
            let value = Chunk::new("application/json", list.clone());
            let inputs = vec![NodeFragment::last(port, value)];
            let request = RunActionRequest { action: "take".into(), inputs, ..Default::default() };
            let status = refused(port, client.run_action(request).await);
            assert_eq!(status.code(), expected, "{port} {item}: {status}");
            assert!(status.message().contains("too many values"), "{port} {item}: {status}");
        }
    }
    // What an action puts out is not refused; it is not made into values.
    let request = RunActionRequest { action: "take".into(), ..Default::default() };
    let answer = client.run_action(request).await.unwrap().into_inner();
    check_memory("outputs");
    assert!(matches!(answer.result.and_then(|it| it.kind), Some(Kind::StringValue(_))));
}

#[tokio::test]
async fn a_kept_conversation_of_very_many_parts_is_handed_out_in_little_memory() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("a11.db")).await.unwrap();
    let channel = a11_grpc::serve::in_process(Arc::default(), Some(Arc::new(store))).await.unwrap();
    let mut interactions = a11_grpc::client::interactions(channel);
    for at in 0..8 {
        let turn = Interaction {
            id: format!("t{at}"),
            role: pb::Role::User as i32,
            content: vec![Chunk::default(); 150_000],
            ..Interaction::default()
        };
        let request = pb::AppendInteractionRequest {
            conversation: "heavy".into(),
            body: Some(append::Body::Interaction(turn.encode_to_vec().into())),
        };
        interactions.append_interaction(request).await.unwrap();
    }
    let request = ConvertInteractionsRequest {
        conversation: "heavy".into(),
        to: pb::Backend::Claude as i32,
        ..Default::default()
    };
    let status = interactions.convert_interactions(request).await.unwrap_err();
    check_memory("convert");
    assert_eq!(failure(status), (Code::ResourceExhausted, Reason::HistoryTooLarge));
    let (mut after_position, mut ids) = (0, vec![]);
    loop {
        let request = pb::ListInteractionsRequest {
            conversation: "heavy".into(),
            form: pb::RecordForm::Decoded as i32,
            after_position,
            ..Default::default()
        };
        let page = interactions.list_interactions(request).await.unwrap().into_inner();
        check_memory("list");
        ids.extend(page.records.into_iter().map(|record| record.id));
        after_position = page.next_after_position;
        if after_position == 0 {
            break;
        }
    }
    assert_eq!(ids, ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"]);
}

#[tokio::test]
async fn the_headers_of_a_turn_are_not_copied_for_each_of_its_calls() {
    let _alone = alone().await;
    let registry = Arc::new(Registry::new());
    let schema = ActionSchema::builder("nothing").build();
    registry.register(schema, handler(|_: Context| async { Ok(()) })).unwrap();
    let headers = (0..1400).map(|at| (format!("x-a11-{at:04}"), "v"));
    let calls = (0..16_000).map(|at| asked(&format!("c{at}"), "nothing", &[]));
    let request = Request {
        interaction: turn(calls),
        allow_list: AllowList::new([".*"]).unwrap(),
        headers: headers.collect(),
        ..Request::default()
    };
    let plan = Plan::new(&registry, request).unwrap();
    check_memory("settled");
    let round = execute_plan(&Scope::root(registry), plan, None).await;
    check_memory("run");
    assert!(round.results.iter().all(|result| result.status.is_ok()));
}

#[tokio::test]
async fn a_value_and_a_schema_that_are_too_large_together_are_refused_at_once() {
    let _alone = alone().await;
    let registry = Registry::new();
    let schema =
        format!(r#"{{"items":{{"anyOf":[{}]}}}}"#, vec!["{\"maximum\":-1}"; 16_000].join(","));
    let schema = ActionSchema::builder("take").input(Port::json("list").schema(schema)).build();
    registry.register(schema, handler(|_: Context| async { Ok(()) })).unwrap();
    let server = TestServer::start(Arc::new(registry)).await;
    let arguments_json = format!(r#"{{"list":[{}]}}"#, vec!["1"; 900_000].join(","));
    let request = RunActionRequest { action: "take".into(), arguments_json, ..Default::default() };
    let status = server.client().await.run_action(request).await.unwrap_err();
    assert!(status.message().contains("too many checks"), "{status}");
    assert_eq!(failure(status), (Code::InvalidArgument, Reason::InvalidInput));
}

#[tokio::test]
async fn a_list_of_long_descriptions_comes_in_pages_that_fit() {
    let _alone = alone().await;
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

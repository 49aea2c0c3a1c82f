//! Depth: JSON, messages and results nested without end are refused or carried,
//! and never crash anything.

#![allow(missing_docs)]

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/server.rs"]
mod server;
#[path = "support/trials.rs"]
mod trials;
#[path = "support/turns.rs"]
mod turns;

use a11_grpc::wire::Reason;
use a11_grpc::wire::pb::{
    self, ExecuteActionsFromInteractionRequest, ListActionsRequest, RunActionRequest,
};
use server::TestServer;
use tonic::{Code, Request, transport::Channel};
use turns::{Client, asked, endings, execute, execute_reply, failure, turn};

async fn server() -> (TestServer, Client) {
    let server = TestServer::start(trials::registry()).await;
    let client = server.client().await;
    (server, client)
}

fn one_call() -> ExecuteActionsFromInteractionRequest {
    execute(turn([asked("c", "echo", &[("word", "hi")])]))
}

#[tokio::test]
async fn nesting_without_end_is_refused_or_carried_and_never_a_crash() {
    let (_server, mut client) = server().await;
    const DEEP: usize = 100_000;
    let lists = format!("{}{}", "[".repeat(DEEP), "]".repeat(DEEP));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(DEEP), "}".repeat(DEEP));
    for deep in [&lists, &objects, &"[".repeat(DEEP), &r#"{"a":"#.repeat(DEEP)] {
        let inside = [
            deep.clone(),
            format!(r#"{{"role":"assistant","content":{deep}}}"#),
            format!(r#"{{"role":"model","action_calls":{deep}}}"#),
            format!(r#"{{"role":"model","action_calls":[],"content":[{deep}]}}"#),
            format!(r#"{{"role":"model","action_calls":[],"unknown":{deep}}}"#),
            format!(r#"{{"role":"ROLE_MODEL","actionCalls":[],"unknown":{deep}}}"#),
            format!(r#"{{"role":"ROLE_MODEL","actionInputs":{deep}}}"#),
            format!(r#"{{"candidates":{deep}}}"#),
            format!(r#"{{"choices":[{{"message":{deep}}}]}}"#),
            format!(
                r#"{{"type":"message","role":"assistant","content":[{{"type":"tool_use","id":"c","name":"parse","input":{{"value":{deep}}}}}]}}"#
            ),
        ];
        for text in inside {
            let shown: String = text.chars().take(60).collect();
            let result = client.execute_actions_from_interaction(execute_reply(text)).await;
            match result {
                Ok(response) => {
                    for result in &response.get_ref().results {
                        let (_, code, message) = turns::of_result(result);
                        assert_eq!(code, Code::InvalidArgument, "{shown} {message}");
                    }
                }
                Err(status) => {
                    assert_eq!(status.code(), Code::InvalidArgument, "{shown} {status}");
                }
            }
        }
        for action in ["parse", "slow", "echo", "sum_numbers"] {
            for key in ["value", "millis", "word", "numbers"] {
                let request = RunActionRequest {
                    action: action.into(),
                    arguments_json: format!(r#"{{"{key}":{deep}}}"#),
                    ..Default::default()
                };
                let status = client.run_action(request).await.expect_err("no value so deep");
                assert_eq!(status.code(), Code::InvalidArgument, "{action} {key} {status}");
            }
        }
    }
    assert_eq!(endings(&mut client, one_call()).await[0].0, Code::Ok, "the connection is usable");
}

#[tokio::test]
async fn a_result_of_any_depth_can_be_read_by_its_caller() {
    let (_server, mut client) = server().await;
    for depth in [1, 20, 30, 33, 40, 60, 101, 120] {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            let deep = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let request = RunActionRequest {
                action: "say".into(),
                arguments_json: format!(r#"{{"value":{deep}}}"#),
                ..Default::default()
            };
            let response = client.run_action(request).await.unwrap_or_else(|status| {
                panic!("{depth} of {open}: {status}");
            });
            let response = response.into_inner();
            let chunk = response.outputs[0].chunk().expect("a chunk");
            assert_eq!(chunk.data(), deep.as_bytes(), "exactly, whatever `result` can hold");
        }
    }
}

#[tokio::test]
async fn a_message_nested_past_what_is_read_or_no_message_at_all_is_the_callers_fault() {
    use pbjson_types::{ListValue, Struct, Value, value::Kind};
    let (server, mut client) = server().await;
    let mut value = Value { kind: Some(Kind::BoolValue(true)) };
    for _ in 0..60 {
        value = Value { kind: Some(Kind::ListValue(ListValue { values: vec![value] })) };
    }
    let request = RunActionRequest {
        action: "parse".into(),
        arguments: Some(Struct { fields: [("value".to_owned(), value)].into() }),
        ..Default::default()
    };
    let status = client.run_action(request.clone()).await.map(drop).expect_err("too deep");
    assert_eq!(failure(status), (Code::InvalidArgument, Reason::InvalidRequest));
    let start = pb::CallStart {
        action: request.action,
        arguments: request.arguments,
        ..Default::default()
    };
    let start = pb::call_action_request::Message::Start(start);
    let start = pb::CallActionRequest { message: Some(start) };
    let events = client.call_action(futures::stream::iter([start])).await.expect("headers");
    let status = events.into_inner().message().await.map(drop).expect_err("too deep");
    assert_eq!(failure(status), (Code::InvalidArgument, Reason::InvalidRequest));

    // A field of another type under the number of `action`.
    let channel = Channel::from_shared(server.url.clone()).expect("a URL");
    let mut raw = tonic::client::Grpc::new(channel.connect().await.expect("connects"));
    raw.ready().await.expect("ready");
    let path = "/a11.v1.ActionService/RunAction".parse().expect("a path");
    let codec = tonic_prost::ProstCodec::<pb::ListActionsRequest, pb::RunActionResponse>::default();
    let odd = ListActionsRequest {
        patterns: vec!["x".into()],
        runnable_only: true,
        ..Default::default()
    };
    let status = raw.unary(Request::new(odd), path, codec).await.map(drop).expect_err("malformed");
    assert_eq!(failure(status), (Code::InvalidArgument, Reason::InvalidRequest));
    assert_eq!(endings(&mut client, one_call()).await[0].0, Code::Ok, "the connection is usable");
}

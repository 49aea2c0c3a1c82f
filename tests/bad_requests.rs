//! Malformed and hostile requests: each gets the right code and reason, with the
//! field or call named, and leaves the connection as good as it was.

#![allow(missing_docs)]

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/server.rs"]
mod server;
#[path = "support/trials.rs"]
mod trials;
#[path = "support/turns.rs"]
mod turns;

use std::time::{Duration, Instant};

use a11_grpc::wire::Reason;
use a11_grpc::wire::pb::{
    self, ExecuteActionsFromInteractionRequest, Interaction, ListActionsRequest, RejectedCall,
    RunActionRequest, StreamActionRequest, StreamActionsFromInteractionRequest,
};
use serde_json::{Value, json};
use server::TestServer;
use tonic::{Code, Request};
use turns::{Client, asked, check_refused, endings, execute, execute_reply, failure, turn};

async fn server() -> (TestServer, Client) {
    let server = TestServer::start(trials::registry()).await;
    let client = server.client().await;
    (server, client)
}

fn one_call() -> ExecuteActionsFromInteractionRequest {
    execute(turn([asked("c", "echo", &[("word", "hi")])]))
}

#[tokio::test]
async fn a_request_that_contradicts_itself_is_refused_before_anything_starts() {
    let (server, mut client) = server().await;
    let json = r#"{"role":"model","action_calls":[]}"#.to_owned();
    let duration = |seconds, nanos| Some(pbjson_types::Duration { seconds, nanos });
    let refused = |position, code| RejectedCall {
        position,
        id: format!("r{position}"),
        name: "x".into(),
        status: Some(pb::Status { code, ..Default::default() }),
    };
    let twice = turn([asked("c", "echo", &[]), asked("c", "echo", &[])]);
    let reply_twice = json!({"type": "message", "role": "assistant", "content": [
        {"type": "tool_use", "id": "t", "name": "echo", "input": {}},
        {"type": "tool_use", "id": "t", "name": "echo", "input": {}}]});
    let same_as_rejected = RejectedCall { id: "c".into(), ..refused(1, 5) };
    let check = [
        (ExecuteActionsFromInteractionRequest::default(), Reason::InvalidRequest, "interaction"),
        (
            ExecuteActionsFromInteractionRequest { interaction_json: json, ..one_call() },
            Reason::InvalidRequest,
            "interaction_json",
        ),
        (
            ExecuteActionsFromInteractionRequest { conversation: "c".into(), ..one_call() },
            Reason::InvalidRequest,
            "conversation",
        ),
        (
            ExecuteActionsFromInteractionRequest { backend: 99, ..one_call() },
            Reason::InvalidRequest,
            "backend",
        ),
        (
            ExecuteActionsFromInteractionRequest { backend: -1, ..one_call() },
            Reason::InvalidRequest,
            "backend",
        ),
        (
            ExecuteActionsFromInteractionRequest { call_timeout: duration(1, -1), ..one_call() },
            Reason::InvalidRequest,
            "call_timeout",
        ),
        (
            ExecuteActionsFromInteractionRequest { call_timeout: duration(-1, 1), ..one_call() },
            Reason::InvalidRequest,
            "call_timeout",
        ),
        (
            ExecuteActionsFromInteractionRequest {
                call_timeout: duration(i64::MIN, i32::MIN),
                ..one_call()
            },
            Reason::InvalidRequest,
            "call_timeout",
        ),
        (
            ExecuteActionsFromInteractionRequest {
                call_timeout: duration(1, i32::MAX),
                ..one_call()
            },
            Reason::InvalidRequest,
            "call_timeout",
        ),
        (
            ExecuteActionsFromInteractionRequest {
                rejected_calls: vec![refused(2, 5)],
                ..one_call()
            },
            Reason::InvalidRequest,
            "position 2",
        ),
        (
            ExecuteActionsFromInteractionRequest {
                rejected_calls: vec![refused(u32::MAX, 5)],
                ..one_call()
            },
            Reason::InvalidRequest,
            "position",
        ),
        (
            ExecuteActionsFromInteractionRequest {
                rejected_calls: vec![refused(0, 5), refused(0, 5)],
                ..one_call()
            },
            Reason::InvalidRequest,
            "position 0",
        ),
        (
            ExecuteActionsFromInteractionRequest {
                rejected_calls: vec![refused(0, 0)],
                ..one_call()
            },
            Reason::InvalidRequest,
            "status OK",
        ),
        (
            ExecuteActionsFromInteractionRequest {
                rejected_calls: vec![RejectedCall { status: None, ..refused(0, 5) }],
                ..one_call()
            },
            Reason::InvalidRequest,
            "status OK",
        ),
        (
            ExecuteActionsFromInteractionRequest {
                rejected_calls: vec![same_as_rejected],
                ..one_call()
            },
            Reason::DuplicateCall,
            "\"c\"",
        ),
        (execute(twice), Reason::DuplicateCall, "\"c\""),
        (execute_reply(reply_twice.to_string()), Reason::DuplicateCall, "\"t\""),
        (
            ExecuteActionsFromInteractionRequest {
                allowed_actions: vec!["(".into()],
                ..one_call()
            },
            Reason::InvalidPattern,
            "regular expression",
        ),
        (
            ExecuteActionsFromInteractionRequest {
                allowed_actions: vec!["a".repeat(5000)],
                ..one_call()
            },
            Reason::InvalidPattern,
            "too large",
        ),
        (
            ExecuteActionsFromInteractionRequest {
                allowed_actions: vec!["a".into(); 300],
                ..one_call()
            },
            Reason::InvalidPattern,
            "256",
        ),
        (
            ExecuteActionsFromInteractionRequest {
                allowed_actions: vec!["((((.{99}){99}){99}){99})".into()],
                ..one_call()
            },
            Reason::InvalidPattern,
            "too large",
        ),
        (execute(Interaction { role: 77, ..turn([]) }), Reason::InvalidRequest, "role"),
        (execute(turn([asked("c\nd", "echo", &[])])), Reason::InvalidRequest, "action_calls[0].id"),
        (execute(turn([asked("c", "e!", &[])])), Reason::InvalidRequest, "action_calls[0].name"),
        (execute_reply("{"), Reason::InvalidRequest, "JSON"),
        (execute_reply("\u{feff}"), Reason::InvalidRequest, "JSON"),
        (execute_reply("{}"), Reason::UnknownReply, "object"),
        (execute_reply("7"), Reason::UnknownReply, "number"),
        (execute_reply(r#"{"role":"user","content":"hello"}"#), Reason::UnknownReply, "user"),
        (
            execute_reply(r#"{"role":"model","action_calls":7}"#),
            Reason::InvalidRequest,
            "action_calls",
        ),
    ];
    for (request, reason, names) in check {
        check_refused(&mut client, request, reason, names).await;
    }
    assert_eq!(server.handlers.running(), 0);
    assert_eq!(endings(&mut client, one_call()).await[0].0, Code::Ok, "the connection is usable");
}

#[tokio::test]
async fn a_deadline_that_is_no_number_is_refused_by_every_rpc() {
    let (_server, mut client) = server().await;
    for text in ["", " ", "soon", "-1", "1.5", "1e12", "0x10", "99999999999999999999999"] {
        let request = || {
            let mut request = Request::new(());
            request.metadata_mut().insert("x-a11-deadline", text.parse().expect("ascii"));
            request
        };
        let run = RunActionRequest { action: "echo".into(), ..Default::default() };
        let stream = StreamActionRequest { action: "echo".into(), ..Default::default() };
        let streamed = StreamActionsFromInteractionRequest { request: Some(one_call()) };
        let statuses = [
            client.run_action(request().map(|()| run)).await.map(drop),
            client.stream_action(request().map(|()| stream)).await.map(drop),
            client.execute_actions_from_interaction(request().map(|()| one_call())).await.map(drop),
            client.stream_actions_from_interaction(request().map(|()| streamed)).await.map(drop),
            client.call_action(request().map(|()| futures::stream::empty())).await.map(drop),
        ];
        for result in statuses {
            let status = result.expect_err(text);
            assert!(status.message().contains("x-a11-deadline"), "{text:?}: {status}");
            let refused = (Code::InvalidArgument, Reason::InvalidRequest);
            assert_eq!(failure(status), refused, "{text:?}");
        }
    }
    let run = RunActionRequest {
        action: "no_outputs".into(),
        headers: [("x-a11-deadline".to_owned(), "soon".into())].into(),
        ..Default::default()
    };
    let status = client.run_action(run).await.map(drop).expect_err("no number");
    assert_eq!(failure(status), (Code::InvalidArgument, Reason::InvalidRequest));
}

#[tokio::test]
async fn a_turn_cannot_widen_its_own_limits() {
    let (server, mut client) = server().await;
    let mut odd = asked("odd", "hang", &[]);
    for (name, value) in [("x-a11-deadline", "99999999999999"), ("X-A11-Allowed-Llm-Actions", ".*")]
    {
        odd.message.headers.insert(name.to_owned(), value.into());
    }
    let mut request = execute(turn([odd, asked("say", "say", &[("value", "1")])]));
    request.allowed_actions = vec!["hang".into()];
    request.call_timeout = Some(turns::millis(100));
    let got = endings(&mut client, request).await;
    assert_eq!(got[0].0, Code::DeadlineExceeded, "{}", got[0].2);
    assert_eq!(got[1].0, Code::PermissionDenied, "{}", got[1].2);
    let none = ExecuteActionsFromInteractionRequest { allowed_actions: vec![], ..one_call() };
    assert_eq!(endings(&mut client, none).await[0].0, Code::PermissionDenied);
    server.idle().await;
}

#[tokio::test]
async fn ids_that_are_missing_or_no_names_come_back_as_they_came() {
    let (_server, mut client) = server().await;
    let long = "i".repeat(5000);
    let ids = ["functions.echo:0", " ", "é/\u{1f600}", "\"quoted\"", "a\u{0}b", &long];
    let calls: Vec<Value> = ids
        .iter()
        .map(|id| {
            json!({"id": id, "type": "function",
            "function": {"name": "echo", "arguments": "{\"word\":\"hi\"}"}})
        })
        .chain([json!({"type": "function",
            "function": {"name": "echo", "arguments": "{\"word\":\"hi\"}"}})])
        .collect();
    let reply = json!({"choices": [{"message": {"role": "assistant", "tool_calls": calls}}]});
    let response = client.execute_actions_from_interaction(execute_reply(reply.to_string())).await;
    let response = response.expect("runs").into_inner();
    assert_eq!(response.results.len(), ids.len() + 1);
    let outputs = &response.interaction.expect("a turn").action_outputs;
    for (at, result) in response.results.iter().enumerate() {
        assert_eq!(turns::of_result(result).1, Code::Ok, "{result:?}");
        if let Some(id) = ids.get(at) {
            assert_eq!(result.id, *id);
            let message: Value = serde_json::from_str(&response.messages[at]).expect("JSON");
            assert_eq!(message["tool_call_id"], **id);
        } else {
            assert!(!result.id.is_empty(), "one is made where there is none");
        }
        assert_eq!(outputs[&result.id].fragments.len(), 1);
    }
}

#[tokio::test]
async fn a_typed_calls_id_that_is_no_name_comes_back_as_it_came() {
    let (_server, mut client) = server().await;
    let ids = ["functions.echo:0", "c d", "é"];
    let request = execute(turn(ids.map(|id| asked(id, "echo", &[("word", "hi")]))));
    let request =
        ExecuteActionsFromInteractionRequest { backend: pb::Backend::Gpt as i32, ..request };
    let response = client.execute_actions_from_interaction(request).await;
    let response = response.expect("runs").into_inner();
    let outputs = &response.interaction.expect("a turn").action_outputs;
    assert_eq!(response.results.len(), ids.len());
    for (at, (id, result)) in ids.iter().zip(&response.results).enumerate() {
        assert_eq!((result.id.as_str(), turns::of_result(result).1), (*id, Code::Ok));
        assert_eq!(outputs[*id].fragments.len(), 1);
        assert!(response.messages[at].contains(&format!("{id:?}")), "{:?}", response.messages);
    }
}

#[tokio::test]
async fn a_list_of_costly_patterns_is_dealt_with_quickly() {
    let (_server, mut client) = server().await;
    let check = [
        r"(?i)\pL".repeat(500),
        r"(?i)\pL".repeat(9),
        r"(?i)[\pL&&a]".repeat(4),
        r"\w{200}".repeat(10),
        r"\w{20}".to_owned(),
        r"(?i)[\x{0}-\x{10FFFF}]{50}".repeat(20),
        r"(a|b|c|d|e|f|g|h){500}".to_owned(),
        r"(.*a.*b.*c){50}".to_owned(),
        r"\pL|\pN|\pM|".repeat(300) + "a",
        "(((((((((a?){9}){9}){9}){9}){9}){9}){9}){9})".to_owned(),
    ];
    for pattern in check {
        let shown: String = pattern.chars().take(40).collect();
        let list = vec![pattern; 256];
        let began = Instant::now();
        let request =
            ExecuteActionsFromInteractionRequest { allowed_actions: list.clone(), ..one_call() };
        let result = client.execute_actions_from_interaction(request).await;
        if let Err(status) = result {
            let refused = (Code::InvalidArgument, Reason::InvalidPattern);
            assert_eq!(failure(status), refused, "{shown}");
        }
        println!("{shown}: {:?}", began.elapsed());
        let request = ListActionsRequest { patterns: list, ..Default::default() };
        client.list_actions(request).await.ok();
        assert!(began.elapsed() < Duration::from_secs(5), "{shown}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_listing_that_is_asked_for_wrongly_is_refused() {
    let (_server, mut client) = server().await;
    let check = [
        (
            ListActionsRequest { patterns: vec!["(".into()], ..Default::default() },
            Reason::InvalidPattern,
        ),
        (
            ListActionsRequest { page_token: "no such token!".into(), ..Default::default() },
            Reason::InvalidRequest,
        ),
    ];
    for (request, reason) in check {
        let status = client.list_actions(request).await.map(drop).expect_err("refused");
        assert_eq!(failure(status), (Code::InvalidArgument, reason));
    }
    let request = pb::GetActionRequest { name: "x".repeat(100_000), ..Default::default() };
    let status = client.get_action(request).await.map(drop).expect_err("unknown");
    assert!(status.message().len() < 4096);
    assert_eq!(failure(status), (Code::NotFound, Reason::UnknownAction));
    let huge = ListActionsRequest { page_size: u32::MAX, ..Default::default() };
    assert!(!client.list_actions(huge).await.expect("lists").get_ref().actions.is_empty());
}

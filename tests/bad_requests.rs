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

use a11_grpc::wire::pb::{
    self, ExecuteActionsFromInteractionRequest, Interaction, ListActionsRequest, RejectedCall,
    RunActionRequest, StreamActionRequest, StreamActionsFromInteractionRequest,
    action_service_client::ActionServiceClient,
};
use a11_grpc::wire::{Chunk, NodeFragment, Reason, Status};
use serde_json::{Value, json};
use server::TestServer;
use tonic::{Code, Request, transport::Channel};
use turns::{asked, execute, execute_reply, failure, turn};

type Client = ActionServiceClient<Channel>;
type Execute = ExecuteActionsFromInteractionRequest;

async fn server() -> (TestServer, Client) {
    let server = TestServer::start(trials::registry()).await;
    let client = server.client().await;
    (server, client)
}

fn one_call() -> Execute {
    execute(turn([asked("c", "echo", &[("word", "hi")])]))
}

/// Both forms refuse the request, with the reason and naming `names`.
async fn check_refused(client: &mut Client, request: Execute, reason: Reason, names: &str) {
    let streamed = StreamActionsFromInteractionRequest { request: Some(request.clone()) };
    let streamed = client.stream_actions_from_interaction(streamed).await.map(|_| ());
    let whole = client.execute_actions_from_interaction(request).await.map(|_| ());
    for result in [whole, streamed] {
        let status = Status::from(result.expect_err(names));
        assert_eq!((status.code, status.reason), (Code::InvalidArgument, reason), "{status}");
        assert!(status.message.contains(names), "{names}: {status}");
    }
}

/// The statuses of the calls of a round that runs.
async fn endings(client: &mut Client, request: Execute) -> Vec<(Code, Reason, String)> {
    let response = client.execute_actions_from_interaction(request).await.expect("runs");
    let results = response.into_inner().results.into_iter();
    let status = |result: pb::CallResult| {
        let status = Status::from(result.status.expect("a status"));
        (status.code, status.reason, status.message)
    };
    results.map(status).collect()
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
        (Execute::default(), Reason::InvalidRequest, "interaction"),
        (
            Execute { interaction_json: json, ..one_call() },
            Reason::InvalidRequest,
            "interaction_json",
        ),
        (Execute { backend: 99, ..one_call() }, Reason::InvalidRequest, "backend"),
        (Execute { backend: -1, ..one_call() }, Reason::InvalidRequest, "backend"),
        (
            Execute { call_timeout: duration(-1, 0), ..one_call() },
            Reason::InvalidRequest,
            "call_timeout",
        ),
        (
            Execute { call_timeout: duration(0, -1), ..one_call() },
            Reason::InvalidRequest,
            "call_timeout",
        ),
        (
            Execute { call_timeout: duration(i64::MIN, 0), ..one_call() },
            Reason::InvalidRequest,
            "call_timeout",
        ),
        (
            Execute { call_timeout: duration(1, i32::MAX), ..one_call() },
            Reason::InvalidRequest,
            "call_timeout",
        ),
        (
            Execute { rejected_calls: vec![refused(2, 5)], ..one_call() },
            Reason::InvalidRequest,
            "position 2",
        ),
        (
            Execute { rejected_calls: vec![refused(u32::MAX, 5)], ..one_call() },
            Reason::InvalidRequest,
            "position",
        ),
        (
            Execute { rejected_calls: vec![refused(0, 5), refused(0, 5)], ..one_call() },
            Reason::InvalidRequest,
            "position 0",
        ),
        (
            Execute { rejected_calls: vec![refused(0, 0)], ..one_call() },
            Reason::InvalidRequest,
            "status OK",
        ),
        (
            Execute {
                rejected_calls: vec![RejectedCall { status: None, ..refused(0, 5) }],
                ..one_call()
            },
            Reason::InvalidRequest,
            "status OK",
        ),
        (
            Execute { rejected_calls: vec![same_as_rejected], ..one_call() },
            Reason::DuplicateCall,
            "\"c\"",
        ),
        (execute(twice), Reason::DuplicateCall, "\"c\""),
        (execute_reply(reply_twice.to_string()), Reason::DuplicateCall, "\"t\""),
        (
            Execute { allowed_actions: vec!["(".into()], ..one_call() },
            Reason::InvalidPattern,
            "regular expression",
        ),
        (
            Execute { allowed_actions: vec!["a".repeat(5000)], ..one_call() },
            Reason::InvalidPattern,
            "too large",
        ),
        (
            Execute { allowed_actions: vec!["a".into(); 300], ..one_call() },
            Reason::InvalidPattern,
            "256",
        ),
        (
            Execute { allowed_actions: vec!["((((.{99}){99}){99}){99})".into()], ..one_call() },
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
async fn inputs_of_one_call_that_do_not_fit_are_that_calls_failure() {
    let (_server, mut client) = server().await;
    let with = |name: &str, inputs: Vec<NodeFragment>| {
        let mut odd = asked("odd", name, &[]);
        odd.inputs = inputs;
        execute(turn([odd, asked("good", "echo", &[("word", "hi")])]))
    };
    let at = |seq, fragment: NodeFragment| NodeFragment { seq: Some(seq), ..fragment };
    let more = |text: &str| NodeFragment::more("word", Chunk::text(text));
    let last = |text: &str| NodeFragment::last("word", Chunk::text(text));
    let on = |port: &str, chunk: Chunk| NodeFragment::last(port, chunk);
    let json = |text: &str| Chunk::new("application/json", text.to_owned());
    let reference = NodeFragment {
        payload: Some(pb::node_fragment::Payload::NodeRef(pb::NodeRef {
            id: "elsewhere".into(),
            ..Default::default()
        })),
        ..last("")
    };
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let check = [
        ("echo", vec![], Code::InvalidArgument, Reason::MissingInput),
        (
            "echo",
            vec![at(0, more("a")), at(0, more("b")), last("")],
            Code::InvalidArgument,
            Reason::SeqConflict,
        ),
        ("echo", vec![at(0, more("a")), at(2, last("c"))], Code::DataLoss, Reason::Gap),
        ("echo", vec![last("a"), more("b")], Code::InvalidArgument, Reason::PastFinal),
        ("echo", vec![at(u32::MAX, last("a"))], Code::DataLoss, Reason::Gap),
        (
            "echo",
            vec![on("word", Chunk::new("text/plain", vec![0xff]))],
            Code::InvalidArgument,
            Reason::InvalidInput,
        ),
        (
            "echo",
            vec![on("word", Chunk::new("image/png", "x"))],
            Code::InvalidArgument,
            Reason::InvalidInput,
        ),
        (
            "echo",
            vec![on("nope", Chunk::text("x"))],
            Code::InvalidArgument,
            Reason::UndeclaredInput,
        ),
        (
            "echo",
            vec![on(&"n".repeat(100_000), Chunk::text("x"))],
            Code::InvalidArgument,
            Reason::UndeclaredInput,
        ),
        ("echo", vec![reference], Code::NotFound, Reason::UnknownNode),
        (
            "who_am_i",
            vec![on("question", Chunk::text("who?")), on("user_id", Chunk::text("root"))],
            Code::InvalidArgument,
            Reason::AutofilledInput,
        ),
        ("slow", vec![on("millis", json("{"))], Code::InvalidArgument, Reason::InvalidInput),
        ("slow", vec![on("millis", json("\"x\""))], Code::InvalidArgument, Reason::InvalidInput),
        ("slow", vec![on("millis", json("1.5"))], Code::InvalidArgument, Reason::InvalidInput),
        ("slow", vec![on("millis", json(&deep))], Code::InvalidArgument, Reason::InvalidInput),
        ("parse", vec![on("value", json(&deep))], Code::InvalidArgument, Reason::InvalidInput),
        ("schema_only", vec![], Code::NotFound, Reason::NoHandler),
    ];
    for (name, inputs, code, reason) in check {
        let shown: String = format!("{name} {inputs:?}").chars().take(300).collect();
        let got = endings(&mut client, with(name, inputs)).await;
        assert_eq!((got[0].0, got[0].1), (code, reason), "{shown} {}", got[0].2);
        assert!(got[0].2.len() <= 4096, "{} bytes", got[0].2.len());
        assert_eq!(got[1].0, Code::Ok, "the other call is untouched: {}", got[1].2);
    }
}

#[tokio::test]
async fn a_node_bound_to_one_port_and_named_like_another_is_ambiguous() {
    let (_server, mut client) = server().await;
    let bind = |name: &str, id: &str| pb::PortBinding { name: name.into(), id: id.into() };
    let mut odd = asked("odd", "fail_with", &[("message", "NOT_FOUND")]);
    odd.message.inputs = vec![bind("code", "message")];
    let got = endings(&mut client, execute(turn([odd]))).await;
    assert_eq!((got[0].0, got[0].1), (Code::InvalidArgument, Reason::InvalidInput), "{}", got[0].2);
    let mut bound = asked("bound", "echo", &[("node-1", "hi")]);
    bound.message.inputs = vec![bind("word", "node-1"), bind("nope", "node-2")];
    let got = endings(&mut client, execute(turn([bound]))).await;
    assert_eq!(got[0].0, Code::Ok, "{}", got[0].2);
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
    let none = Execute { allowed_actions: vec![], ..one_call() };
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
    let request = Execute { backend: pb::Backend::Gpt as i32, ..request };
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
        let request = Execute { allowed_actions: list.clone(), ..one_call() };
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

#[tokio::test]
async fn one_actions_arguments_given_two_ways_or_in_no_way_are_refused() {
    use pbjson_types::Struct;
    let (_server, mut client) = server().await;
    let echo = || RunActionRequest { action: "echo".into(), ..Default::default() };
    let json = || r#"{"word":"hi"}"#.to_owned();
    let fragments = || vec![NodeFragment::last("word", Chunk::text("hi"))];
    let object = || Some(Struct { fields: Default::default() });
    let duration = |seconds, nanos| Some(pbjson_types::Duration { seconds, nanos });
    let check = [
        (
            RunActionRequest { arguments: object(), arguments_json: json(), ..echo() },
            Reason::InvalidRequest,
            "arguments",
        ),
        (
            RunActionRequest { inputs: fragments(), arguments_json: json(), ..echo() },
            Reason::InvalidRequest,
            "inputs",
        ),
        (
            RunActionRequest { inputs: fragments(), arguments: object(), ..echo() },
            Reason::InvalidRequest,
            "inputs",
        ),
        (
            RunActionRequest { arguments_json: json(), timeout: duration(-1, 0), ..echo() },
            Reason::InvalidRequest,
            "timeout",
        ),
        (
            RunActionRequest { arguments_json: json(), timeout: duration(0, i32::MIN), ..echo() },
            Reason::InvalidRequest,
            "timeout",
        ),
        (RunActionRequest { arguments_json: "{".into(), ..echo() }, Reason::InvalidInput, "JSON"),
        (echo(), Reason::MissingInput, "word"),
    ];
    for (request, reason, names) in check {
        let status = Status::from(client.run_action(request).await.map(drop).expect_err(names));
        assert_eq!((status.code, status.reason), (Code::InvalidArgument, reason), "{status}");
        assert!(status.message.contains(names), "{status}");
    }
    for name in ["", "no_such_action", "e!", &"x".repeat(100_000)] {
        let request = RunActionRequest { action: name.into(), ..Default::default() };
        let status = client.run_action(request).await.map(drop).expect_err("unknown");
        assert_eq!(failure(status), (Code::NotFound, Reason::UnknownAction));
    }
}

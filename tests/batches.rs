//! One batch in which every kind of ending comes up: each call has one result, in
//! call order, under its own id, and no call touches another.

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
    Backend, ExecuteActionsFromInteractionRequest, ExecuteActionsFromInteractionResponse,
    StreamActionsFromInteractionRequest, stream_actions_from_interaction_response::Event,
};
use a11_grpc::wire::{NodeFragment, Reason};
use serde_json::{Value, json};
use server::TestServer;
use tonic::Code;
use turns::{BACKENDS, asked, execute, execute_reply, millis, of_result, turn};

/// Id, action, arguments, and how the call ends: code, reason, and what its
/// message says.
type Case = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
    Code,
    Reason,
    &'static str,
);

const CALLS: [Case; 9] = [
    ("success", "echo", &[("word", "hi")], Code::Ok, Reason::Unspecified, ""),
    (
        "error",
        "fail_with",
        &[("code", "NOT_FOUND"), ("message", "no such order")],
        Code::NotFound,
        Reason::HandlerFailed,
        "no such order",
    ),
    (
        "empty",
        "fail_with",
        &[("code", "UNAVAILABLE"), ("message", "")],
        Code::Unavailable,
        Reason::HandlerFailed,
        "",
    ),
    ("panic", "panic", &[], Code::Internal, Reason::HandlerPanicked, "boom"),
    ("timeout", "hang", &[], Code::DeadlineExceeded, Reason::Deadline, "hang"),
    ("denied", "say", &[], Code::PermissionDenied, Reason::NotAllowed, "say"),
    ("unknown", "nothing", &[], Code::NotFound, Reason::UnknownAction, "nothing"),
    (
        "partial",
        "partial_then_fail",
        &[("word", "hi")],
        Code::DataLoss,
        Reason::HandlerFailed,
        "disk",
    ),
    ("last", "split_words", &[("text", "a b")], Code::Ok, Reason::Unspecified, ""),
];

fn limited(
    mut request: ExecuteActionsFromInteractionRequest,
    backend: Backend,
) -> ExecuteActionsFromInteractionRequest {
    request.allowed_actions =
        ["echo", "fail_with", "panic", "hang", "nothing", "partial_.*", "split_words"]
            .map(str::to_owned)
            .into();
    request.call_timeout = Some(millis(1_000));
    request.backend = backend as i32;
    request
}

fn request(backend: Backend) -> ExecuteActionsFromInteractionRequest {
    let calls = CALLS.map(|(id, name, inputs, ..)| asked(id, name, inputs));
    limited(execute(turn(calls)), backend)
}

fn check_results(response: &ExecuteActionsFromInteractionResponse) {
    assert_eq!(response.results.len(), CALLS.len(), "one result each");
    for (result, (id, name, _, code, reason, says)) in response.results.iter().zip(CALLS) {
        let (got_id, got_code, message) = of_result(result);
        assert_eq!((got_id, result.name.as_str(), got_code), (id, name, code), "{message}");
        let got = result.status.as_ref().expect("a status").reason;
        assert_eq!(got, reason as i32, "{id}: {message}");
        assert!(message.contains(says), "{id}: {message}");
        assert!(!says.is_empty() || message.is_empty(), "{id}: {message}");
    }
    let turn = response.interaction.as_ref().expect("a turn");
    assert_eq!(turn.previous_interaction_id, "turn");
    let mut ids: Vec<&str> = turn.action_outputs.keys().map(String::as_str).collect();
    let mut expected = CALLS.map(|call| call.0);
    ids.sort_unstable();
    expected.sort_unstable();
    assert_eq!(ids, expected, "every call has its entry");
    let put_out = |id: &str| -> Vec<String> {
        let chunks = turn.action_outputs[id].fragments.iter().filter_map(NodeFragment::chunk);
        chunks
            .filter(|chunk| !chunk.is_null())
            .map(|chunk| String::from_utf8_lossy(chunk.data()).into_owned())
            .collect()
    };
    assert_eq!(put_out("success"), ["hi"]);
    assert_eq!(put_out("last"), ["a", "b"]);
    for id in ["error", "empty", "panic", "denied", "unknown"] {
        assert!(put_out(id).is_empty(), "{id}");
    }
    let statuses: Value =
        serde_json::from_slice(&turn.backend_specific_metadata["tool_statuses"]).expect("JSON");
    for (id, _, _, code, ..) in CALLS {
        assert_eq!(statuses[id]["code"], json!(code as i32), "{id}");
    }
}

/// One result as a provider is told it: its id or name, whether it says itself
/// that it failed, and its text.
type Told = (Option<String>, Option<bool>, String);

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What the messages of a backend tell, each result in order.
fn told(backend: Backend, messages: &[Value]) -> Vec<Told> {
    let id = |value: &Value, key: &str| value[key].as_str().map(str::to_owned);
    let flag = |value: &Value, key: &str| Some(value[key].as_bool().unwrap_or(false));
    match backend {
        Backend::Claude => {
            let [message] = messages else { panic!("one message: {messages:?}") };
            assert_eq!(message["role"], "user");
            let blocks = message["content"].as_array().expect("blocks");
            let told = blocks.iter().map(|block| {
                assert_eq!(block["type"], "tool_result", "{block}");
                let text = text_of(&block["content"]);
                (id(block, "tool_use_id"), flag(block, "is_error"), text)
            });
            told.collect()
        }
        Backend::ClaudeCode | Backend::Codex => {
            let key = if backend == Backend::Codex { "isError" } else { "is_error" };
            let told = messages.iter().map(|result| {
                let content = result["content"].as_array().expect("content");
                assert_eq!(content[0]["type"], "text", "{result}");
                (None, flag(result, key), text_of(&content[0]["text"]))
            });
            told.collect()
        }
        Backend::Gpt | Backend::Vllm => {
            let told = messages.iter().map(|message| {
                assert_eq!(message["role"], "tool", "{message}");
                (id(message, "tool_call_id"), None, text_of(&message["content"]))
            });
            told.collect()
        }
        Backend::Ollama => {
            let told = messages.iter().map(|message| {
                assert_eq!(message["role"], "tool", "{message}");
                (id(message, "tool_name"), None, text_of(&message["content"]))
            });
            told.collect()
        }
        Backend::Gemini => {
            let told = messages.iter().map(|step| {
                assert_eq!(step["type"], "function_result", "{step}");
                assert!(step["name"].is_string(), "{step}");
                (id(step, "call_id"), flag(step, "is_error"), step["result"].to_string())
            });
            told.collect()
        }
        Backend::Unspecified => vec![],
    }
}

fn check_messages(backend: Backend, response: &ExecuteActionsFromInteractionResponse) {
    let read = |text: &String| serde_json::from_str(text).expect("JSON");
    let messages: Vec<Value> = response.messages.iter().map(read).collect();
    let content = &response.interaction.as_ref().expect("a turn").content;
    let content: Vec<Value> =
        content.iter().map(|chunk| serde_json::from_slice(chunk.data()).expect("JSON")).collect();
    assert_eq!(content, messages, "the turn's content is the same list");
    let told = told(backend, &messages);
    assert_eq!(told.len(), CALLS.len(), "{backend:?}: one each: {messages:?}");
    for ((own, failed, text), (id, name, _, code, _, says)) in told.into_iter().zip(CALLS) {
        let expected = match backend {
            Backend::Ollama => Some(name),
            Backend::ClaudeCode | Backend::Codex => None,
            _ => Some(id),
        };
        assert_eq!(own.as_deref(), expected, "{backend:?}");
        if let Some(failed) = failed {
            assert_eq!(failed, code != Code::Ok, "{backend:?} {id}: {text}");
        }
        if code == Code::Ok {
            assert!(!text.is_empty(), "{backend:?} {id}");
        } else {
            let code = a11_grpc::wire::status::code_name(code);
            assert!(text.contains(code) && text.contains(says), "{backend:?} {id}: {text}");
        }
    }
}

#[tokio::test]
async fn each_call_of_a_batch_has_its_own_ending_for_every_backend() {
    let server = TestServer::start(trials::registry()).await;
    let mut client = server.client().await;
    for backend in BACKENDS {
        let response =
            client.execute_actions_from_interaction(request(backend)).await.expect("runs");
        check_results(response.get_ref());
        check_messages(backend, response.get_ref());
    }
    server.idle().await;
}

#[tokio::test]
async fn a_batch_streamed_tells_each_ending_once_and_then_the_same() {
    let server = TestServer::start(trials::registry()).await;
    let mut client = server.client().await;
    for backend in BACKENDS {
        let request = StreamActionsFromInteractionRequest { request: Some(request(backend)) };
        let events = client.stream_actions_from_interaction(request).await.expect("starts");
        let mut events = events.into_inner();
        let mut started = vec![];
        let mut finished = vec![];
        let mut summary = None;
        while let Some(event) = events.message().await.expect("no failure") {
            assert!(summary.is_none(), "the summary is last");
            match event.event.expect("an event") {
                Event::Started(call) => started.push(call.id),
                Event::Log(log) => assert!(started.contains(&log.id), "{log:?}"),
                Event::Output(output) => {
                    assert!(started.contains(&output.id), "{output:?}");
                    let ended = |result: &&a11_grpc::wire::pb::CallResult| result.id == output.id;
                    assert!(finished.iter().find(ended).is_none(), "{output:?} after its end");
                }
                Event::Finished(result) => finished.push(result),
                Event::Summary(whole) => summary = Some(whole),
            }
        }
        let summary = summary.expect("a summary");
        check_results(&summary);
        check_messages(backend, &summary);
        assert_eq!(finished.len(), CALLS.len());
        for result in &summary.results {
            let told: Vec<_> = finished.iter().filter(|other| other.id == result.id).collect();
            assert_eq!(told, [result], "told once, and the same");
        }
        // What was refused never began.
        for id in ["denied", "unknown"] {
            assert!(!started.iter().any(|other| other == id), "{id}");
        }
        assert_eq!(started.len(), CALLS.len() - 2);
    }
    server.idle().await;
}

#[tokio::test]
async fn a_raw_reply_with_the_same_calls_ends_the_same() {
    let server = TestServer::start(trials::registry()).await;
    let mut client = server.client().await;
    let blocks = CALLS.map(|(id, name, inputs, ..)| {
        let input: serde_json::Map<String, Value> =
            inputs.iter().map(|(port, text)| ((*port).to_owned(), json!(text))).collect();
        json!({"type": "tool_use", "id": id, "name": name, "input": input})
    });
    let reply = json!({"id": "turn", "type": "message", "role": "assistant", "content": blocks});
    let request = limited(execute_reply(reply.to_string()), Backend::Unspecified);
    let response = client.execute_actions_from_interaction(request).await.expect("runs");
    assert_eq!(response.get_ref().backend, Backend::Claude as i32);
    check_messages(Backend::Claude, response.get_ref());
}

#[tokio::test]
async fn a_batch_of_ten_thousand_has_ten_thousand_results() {
    let server = TestServer::start(trials::registry()).await;
    let mut client = server.client().await;
    const MANY: usize = 10_000;
    let calls = (0..MANY).map(|at| asked(&format!("c{at}"), "no_outputs", &[]));
    let response = client.execute_actions_from_interaction(execute(turn(calls))).await;
    let response = response.expect("runs").into_inner();
    assert_eq!(response.results.len(), MANY);
    for (at, result) in response.results.iter().enumerate() {
        assert_eq!(result.id, format!("c{at}"));
        assert_eq!(of_result(result).1, Code::Ok);
    }
    server.idle().await;
}

#[tokio::test]
async fn what_the_caller_refused_stands_in_its_place() {
    use a11_grpc::wire::pb;
    let server = TestServer::start(trials::registry()).await;
    let mut client = server.client().await;
    let rejected = |position, id: &str, code: Code| pb::RejectedCall {
        position,
        id: id.into(),
        name: "echo".into(),
        status: Some(pb::Status { code: code as i32, message: "no".into(), ..Default::default() }),
    };
    let mut request =
        execute(turn([asked("b", "echo", &[("word", "b")]), asked("d", "echo", &[("word", "d")])]));
    request.backend = Backend::Gpt as i32;
    // In any order; an id may be no Name, or missing.
    request.rejected_calls = vec![
        rejected(4, "functions.x:0", Code::InvalidArgument),
        rejected(0, "a", Code::PermissionDenied),
        rejected(2, "", Code::NotFound),
    ];
    let response = client.execute_actions_from_interaction(request).await.expect("runs");
    let response = response.into_inner();
    let results: Vec<_> =
        response.results.iter().map(|r| (of_result(r).0, of_result(r).1)).collect();
    assert_eq!(
        results,
        [
            ("a", Code::PermissionDenied),
            ("b", Code::Ok),
            ("call_2", Code::NotFound),
            ("d", Code::Ok),
            ("functions.x:0", Code::InvalidArgument)
        ]
    );
    assert_eq!(response.messages.len(), 5);
}

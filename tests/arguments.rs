//! What a model may write as arguments: nothing in any form means none, what is
//! malformed is that call's own failure and is quoted, a string stays a string.

#![allow(missing_docs)]

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/server.rs"]
mod server;
#[path = "support/trials.rs"]
mod trials;
#[path = "support/turns.rs"]
mod turns;

use a11_grpc::wire::pb::{RunActionRequest, action_service_client::ActionServiceClient};
use a11_grpc::wire::{Reason, Status};
use serde_json::{Value, json};
use server::TestServer;
use tonic::{Code, transport::Channel};
use turns::execute_reply;

type Client = ActionServiceClient<Channel>;

/// The result of a call as text, or its code and message.
type Ending = Result<String, (Code, String)>;

/// Chat completions write arguments as text: `arguments` is that text, or absent.
async fn over_chat(client: &mut Client, action: &str, arguments: Option<Value>) -> Ending {
    let mut function = json!({"name": action});
    if let Some(arguments) = arguments {
        function["arguments"] = arguments;
    }
    let bystander = json!({"id": "other", "type": "function",
        "function": {"name": "echo", "arguments": "{\"word\":\"hi\"}"}});
    let reply = json!({"choices": [{"finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": null,
        "tool_calls": [{"id": "c", "type": "function", "function": function}, bystander],
    }}]});
    let messages = messages(client, &reply).await?;
    Ok(messages["content"].as_str().expect("text").to_owned())
}

/// Claude writes arguments as an object.
async fn over_claude(client: &mut Client, action: &str, arguments: Option<Value>) -> Ending {
    let mut block = json!({"type": "tool_use", "id": "c", "name": action});
    if let Some(arguments) = arguments {
        block["input"] = arguments;
    }
    let bystander = json!({"type": "tool_use", "id": "other", "name": "echo",
        "input": {"word": "hi"}});
    let reply = json!({"type": "message", "role": "assistant", "content": [block, bystander]});
    let message = messages(client, &reply).await?;
    Ok(message["content"][0]["content"].as_str().expect("text").to_owned())
}

/// Runs a reply whose first call is looked at, and whose second must never mind.
async fn messages(client: &mut Client, reply: &Value) -> Result<Value, (Code, String)> {
    let response = client.execute_actions_from_interaction(execute_reply(reply.to_string())).await;
    let response =
        response.expect("the round runs, whatever one call's arguments are").into_inner();
    let status = |at: usize| Status::from(response.results[at].status.clone().expect("a status"));
    assert_eq!(response.results.len(), 2);
    assert!(status(1).is_ok(), "the other call is untouched: {}", status(1));
    let Status { code, message, .. } = status(0);
    if code == Code::Ok {
        Ok(serde_json::from_str(&response.messages[0]).expect("JSON"))
    } else {
        Err((code, message))
    }
}

async fn over_run_action(client: &mut Client, action: &str, arguments_json: &str) -> Ending {
    let request = RunActionRequest {
        action: action.into(),
        arguments_json: arguments_json.into(),
        ..Default::default()
    };
    match client.run_action(request).await {
        Ok(response) => {
            let result = response.into_inner().result.expect("a result");
            let text = match result.kind {
                Some(pbjson_types::value::Kind::StringValue(text)) => text,
                other => serde_json::to_string(&pbjson_types::Value { kind: other }).expect("JSON"),
            };
            Ok(text)
        }
        Err(status) => Err((status.code(), status.message().to_owned())),
    }
}

const NOTHING_GIVEN: &str = "None None []";

#[tokio::test]
async fn nothing_in_any_form_means_no_arguments() {
    let server = TestServer::start(trials::registry()).await;
    let mut client = server.client().await;
    let nothing = Ok(NOTHING_GIVEN.to_owned());
    for written in ["", " ", " \n\t", "{}", " { } ", "null", "[]"] {
        let got = over_chat(&mut client, "optional", Some(json!(written))).await;
        assert_eq!(got, nothing, "chat {written:?}");
        let got = over_run_action(&mut client, "optional", written).await;
        assert_eq!(got, nothing, "RunAction {written:?}");
    }
    for written in [None, Some(Value::Null), Some(json!({})), Some(json!([])), Some(json!(""))] {
        let got = over_claude(&mut client, "optional", written.clone()).await;
        assert_eq!(got, nothing, "claude {written:?}");
        let got = over_chat(&mut client, "optional", written.clone()).await;
        assert_eq!(got, nothing, "chat {written:?}");
    }
    for written in ["", "{}", "null", "[]"] {
        let (code, message) =
            over_chat(&mut client, "echo", Some(json!(written))).await.expect_err("required");
        assert_eq!(code, Code::InvalidArgument);
        assert!(message.contains("word"), "{message}");
    }
}

#[tokio::test]
async fn malformed_arguments_are_that_calls_failure_and_are_quoted() {
    let server = TestServer::start(trials::registry()).await;
    let mut client = server.client().await;
    let deep = "[".repeat(100_000);
    let check = [
        (r#"{"word": "hel"#, r#"{"word": "hel"#),
        ("word=hello", "word=hello"),
        ("{word: 1}", "{word: 1}"),
        (r#"{"word":"a"} {"word":"b"}"#, r#"{"word":"a"}"#),
        ("[1,2]", "[1,2]"),
        ("42", "42"),
        ("true", "true"),
        (r#"{"word":"\ud800"}"#, r"\ud800"),
        (deep.as_str(), "[[["),
        (r#"{"word": NaN}"#, "NaN"),
    ];
    for (written, quoted) in check {
        let ending = over_chat(&mut client, "echo", Some(json!(written))).await;
        let (code, message) = ending.expect_err(quoted);
        assert_eq!(code, Code::InvalidArgument, "{message}");
        assert!(message.contains(quoted), "{message}");
        assert!(message.len() < 4096, "{} bytes", message.len());
        let (code, message) =
            over_run_action(&mut client, "echo", written).await.expect_err(quoted);
        assert_eq!(code, Code::InvalidArgument, "{message}");
        assert!(message.len() < 4096, "{} bytes", message.len());
    }
    let check = [
        (json!({"word": 5}), "5 is not a string"),
        (json!({"word": null}), "null"),
        (json!({"word": ["a"]}), r#"["a"]"#),
        (json!({"word": "a", "wrod": "b"}), "wrod"),
        (json!([1]), "[1]"),
        (json!("word"), "word"),
        (json!(7), "7"),
    ];
    for (written, quoted) in check {
        let ending = over_claude(&mut client, "echo", Some(written)).await;
        let (code, message) = ending.expect_err(quoted);
        assert_eq!(code, Code::InvalidArgument, "{message}");
        assert!(message.contains(quoted), "{message}");
    }
}

#[tokio::test]
async fn a_string_stays_a_string_whatever_it_holds() {
    let server = TestServer::start(trials::registry()).await;
    let mut client = server.client().await;
    let texts = [
        "5",
        "1e3",
        "true",
        "null",
        "{}",
        "{\"a\": 1}",
        "[1, 2]",
        "\"quoted\"",
        "",
        " ",
        "NaN",
        "\u{0}",
        "é\u{1f600}",
    ];
    for text in texts {
        let arguments = json!({"word": text});
        let expected = json!({"echoed": text});
        let read = |text: String| -> Value { serde_json::from_str(&text).expect("JSON") };
        let got = over_claude(&mut client, "echo", Some(arguments.clone())).await.expect(text);
        assert_eq!(read(got), expected, "claude {text:?}");
        let got = over_chat(&mut client, "echo", Some(json!(arguments.to_string()))).await;
        assert_eq!(read(got.expect(text)), expected, "chat {text:?}");
        let got = over_run_action(&mut client, "echo", &arguments.to_string()).await.expect(text);
        assert_eq!(read(got), expected, "RunAction {text:?}");
    }
}

#[tokio::test]
async fn optional_arguments_left_out_blank_or_null_are_told_apart_where_it_matters() {
    let server = TestServer::start(trials::registry()).await;
    let mut client = server.client().await;
    let check = [
        (json!({"text": ""}), r#"Some("") None []"#),
        (json!({"text": null, "json": {}, "texts": []}), r#"None Some("{}") []"#),
        (json!({"texts": ["", "x"]}), r#"None None ["", "x"]"#),
        (json!({"texts": "[\"x\"]"}), r#"None None ["x"]"#),
        (json!({"json": "{\"a\":1}"}), r#"None Some("{\"a\":1}") []"#),
        (json!({"json": "plain"}), r#"None Some("\"plain\"") []"#),
        (json!({"json": "7"}), r#"None Some("\"7\"") []"#),
        (json!({"json": []}), r#"None Some("[]") []"#),
    ];
    for (written, expected) in check {
        let expected = Ok(expected.to_owned());
        let got = over_claude(&mut client, "optional", Some(written.clone())).await;
        assert_eq!(got, expected, "claude {written}");
        let got = over_run_action(&mut client, "optional", &written.to_string()).await;
        assert_eq!(got, expected, "RunAction {written}");
    }
}

#[tokio::test]
async fn arguments_as_a_message_are_read_like_json() {
    use pbjson_types::{ListValue, Struct, Value, value::Kind};
    let server = TestServer::start(trials::registry()).await;
    let mut client = server.client().await;
    let value = |kind| Value { kind: Some(kind) };
    let mut run = async |action: &str, fields: Vec<(&str, Value)>| {
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
        let request = RunActionRequest {
            action: action.into(),
            arguments: Some(Struct { fields: fields.collect() }),
            ..Default::default()
        };
        let response = client.run_action(request).await.map_err(turns::failure)?;
        Ok(serde_json::to_value(response.into_inner().result).expect("JSON"))
    };
    let text = |text: &str| value(Kind::StringValue(text.to_owned()));
    assert_eq!(run("echo", vec![("word", text("5"))]).await, Ok(json!({"echoed": "5"})));
    let numbers = [1.0, 2.5].map(|number| value(Kind::NumberValue(number)));
    let numbers = value(Kind::ListValue(ListValue { values: numbers.into() }));
    assert_eq!(run("sum_numbers", vec![("numbers", numbers)]).await, Ok(json!({"total": 3.5})));
    let whole = value(Kind::NumberValue(3.0));
    assert_eq!(run("big", vec![("bytes", whole)]).await, Ok(json!({"data": "xxx"})));
    // JSON has no such numbers, and null is another value.
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let nested =
            value(Kind::ListValue(ListValue { values: vec![value(Kind::NumberValue(number))] }));
        for odd in [value(Kind::NumberValue(number)), nested] {
            let got = run("say", vec![("value", odd)]).await;
            assert_eq!(got, Err((Code::InvalidArgument, Reason::InvalidRequest)), "{number}");
        }
    }
    // A value without a kind says nothing.
    let got = run("say", vec![("value", Value { kind: None })]).await;
    assert_eq!(got, Ok(json!(null)));
}

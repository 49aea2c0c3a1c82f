//! MCP on lines: answers, bad lines, and the end of input; over streams in this
//! process, and with the program itself.

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/program.rs"]
mod program;

use std::{collections::BTreeMap, future::pending, process::Stdio, time::Duration};

use a11_grpc::mcp::{McpOptions, McpServer, stdio::StdioError};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    time::timeout,
};

const PATIENCE: Duration = Duration::from_secs(60);

async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it takes too long")
}

fn initialize() -> String {
    let request = json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}});
    format!("{request}\n{}\n", json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
}

fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> String {
    let request = json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call",
        "params": {"name": tool, "arguments": arguments}});
    format!("{request}\n")
}

/// Everything a server answers to an input that ends.
async fn answers(input: &[u8]) -> Vec<Value> {
    let server = McpServer::new(McpOptions::new(fixtures::registry()));
    let (mut here, there) = tokio::io::duplex(1024);
    let (reader, writer) = tokio::io::split(there);
    let serving = server.serve_lines(reader, writer, pending(), PATIENCE);
    let exchange = async {
        let (mut read, mut write) = tokio::io::split(&mut here);
        let feed = async {
            write.write_all(input).await.expect("written");
            write.shutdown().await.expect("ended");
        };
        let mut output = String::new();
        let (_, read) = tokio::join!(feed, read.read_to_string(&mut output));
        read.expect("UTF-8");
        output
    };
    let (served, output) = soon(async { tokio::join!(serving, exchange) }).await;
    served.expect("serves");
    output.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

/// The answers by id, as JSON text; several to one id fail the test.
fn by_id(answers: Vec<Value>) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for answer in answers {
        let id = answer["id"].to_string();
        assert!(found.insert(id.clone(), answer).is_none(), "{id} is answered twice");
    }
    found
}

#[tokio::test]
async fn two_hundred_large_answers_come_each_once_with_their_own_id() {
    let mut input = initialize();
    for number in 0..200 {
        let id = if number % 2 == 0 { json!(number) } else { json!(number.to_string()) };
        input.push_str(&call(id, "big", json!({"bytes": 65536})));
    }
    // The end of input comes right after the last request, in mid-line.
    let answers = by_id(answers(input.trim_end().as_bytes()).await);
    assert_eq!(answers.len(), 201);
    for number in 0..200 {
        let id = if number % 2 == 0 { number.to_string() } else { format!("\"{number}\"") };
        let data = &answers[&id]["result"]["structuredContent"]["data"];
        assert_eq!(data.as_str().map(str::len), Some(65536), "{id}");
    }
}

#[tokio::test]
async fn a_bad_line_has_its_error_and_the_server_goes_on() {
    let echo = |id: i64| call(id, "echo", json!({"word": id.to_string()}));
    let check = async |line: &[u8], code: Option<i64>| {
        let mut input = initialize().into_bytes();
        input.extend_from_slice(line);
        input.extend_from_slice(b"\n");
        input.extend_from_slice(echo(9).as_bytes());
        let answers = answers(&input).await;
        let shown = String::from_utf8_lossy(line);
        let codes: Vec<i64> =
            answers.iter().filter_map(|answer| answer["error"]["code"].as_i64()).collect();
        assert_eq!(codes, Vec::from_iter(code), "{shown}");
        let echoed = answers.iter().find(|answer| answer["id"] == 9).expect("goes on");
        assert_eq!(echoed["result"]["structuredContent"], json!({"echoed": "9"}), "{shown}");
    };
    check(b"not json", Some(-32700)).await;
    check(b"\xff\xfe\x00", Some(-32700)).await;
    check(b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{", Some(-32700))
        .await;
    check(b"7", Some(-32600)).await;
    check(b"[]", Some(-32600)).await;
    check(format!("[{}]", echo(5).trim_end()).as_bytes(), Some(-32600)).await;
    check(b"{\"jsonrpc\":\"2.0\",\"id\":5}", Some(-32600)).await;
    check(b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"tools/list\"}", Some(-32600)).await;
    check(b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"no/such\"}", Some(-32601)).await;
    check(b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":[]}", Some(-32602))
        .await;
    check(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/odd\",\"params\":3}", None).await;
    check(b"{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}", None).await;
    check(b"", None).await;
    check(b"  \r", None).await;
    check(&vec![b'x'; (16 << 20) + 1], Some(-32600)).await;
}

#[tokio::test]
async fn byte_order_marks_and_carriage_returns_are_no_fault() {
    let input = format!("\u{feff}{}", initialize() + &call(1, "echo", json!({"word": "x"})));
    let answers = by_id(answers(input.replace('\n', "\r\n").as_bytes()).await);
    assert_eq!(answers["1"]["result"]["structuredContent"], json!({"echoed": "x"}));
}

#[tokio::test]
async fn a_message_before_the_protocol_is_open_does_not_end_the_server() {
    let early = [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 4, "result": {}}),
        json!({"jsonrpc": "2.0", "id": "early", "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    ];
    let early: String = early.iter().map(|message| format!("{message}\n")).collect();
    let input = early + &initialize() + &call(1, "echo", json!({"word": "x"}));
    let answers = by_id(answers(input.as_bytes()).await);
    assert!(answers["\"early\""]["error"]["code"].is_i64());
    assert_eq!(answers["1"]["result"]["structuredContent"], json!({"echoed": "x"}));
}

#[tokio::test]
async fn an_id_in_use_is_refused_and_its_request_is_answered_once() {
    let input = initialize()
        + &call(1, "slow", json!({"millis": 100}))
        + &call(1, "echo", json!({"word": "x"}));
    let answers = by_id(answers(input.as_bytes()).await);
    assert_eq!(answers["1"]["result"]["structuredContent"], json!({"done": "done"}));
    assert_eq!(answers["null"]["error"]["code"], -32600);
}

#[tokio::test]
async fn narration_and_answers_of_calls_that_run_at_the_end_of_input_are_written() {
    let narrate = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "narrate", "arguments": {"topic": "x"}, "_meta": {"progressToken": "t"}}});
    let answers = answers(format!("{}{narrate}", initialize()).as_bytes()).await;
    let messages: Vec<&Value> = answers.iter().skip(1).collect();
    let [first, second, answer] = messages[..] else { panic!("{messages:?}") };
    for (progress, number) in [(first, 1.0), (second, 2.0)] {
        assert_eq!(progress["method"], "notifications/progress");
        assert_eq!(progress["params"]["progressToken"], "t");
        assert_eq!(progress["params"]["progress"].as_f64(), Some(number));
    }
    assert_eq!(answer["id"], 1);
}

#[tokio::test]
async fn a_client_that_takes_no_more_ends_the_server() {
    let server = McpServer::new(McpOptions::new(fixtures::registry()));
    let (here, there) = tokio::io::duplex(1024);
    let (reader, writer) = tokio::io::split(there);
    let serving = server.serve_lines(reader, writer, pending(), PATIENCE);
    let leave = async {
        let mut here = BufReader::new(here);
        here.write_all(initialize().as_bytes()).await.expect("written");
        let mut line = String::new();
        here.read_line(&mut line).await.expect("an answer");
        here.write_all(call(1, "big", json!({"bytes": 100_000})).as_bytes())
            .await
            .expect("written");
    };
    let (served, ()) = soon(async { tokio::join!(serving, leave) }).await;
    assert!(matches!(served, Err(StdioError::Output(_))), "{served:?}");
}

const CONFIG: &str = r#"
[actions.shout]
description = "Writes to both of its outputs, and says again what it was given."
command = ["sh", "-c", "echo noise >&2; cat; echo loud"]
stdin = { argument = "text" }
max_output_bytes = 1000000
inputs.text = {}
"#;

/// What the program itself answers on standard output to an input that ends, all of
/// which is the protocol's.
async fn answers_of_the_program(input: &[u8]) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("actions.toml");
    std::fs::write(&config, CONFIG).expect("written");
    let config = config.to_str().expect("UTF-8");
    let mut child =
        program::command(&["--log", "trace", "serve", "--mcp-stdio", "--config", config])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    let feed = async {
        stdin.write_all(input).await.expect("written");
        drop(stdin);
    };
    let ran = async { tokio::join!(feed, child.wait_with_output()).1 };
    let output = soon(ran).await.expect("it ends");
    assert!(output.status.success(), "{:?}", output.status);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.ends_with('\n'), "the last line is cut off");
    text.lines().map(|line| serde_json::from_str(line).expect("protocol only")).collect()
}

#[tokio::test]
async fn the_program_writes_nothing_but_the_protocol_and_ends_with_its_input() {
    let input =
        initialize() + &call(1, "shout", json!({})) + "nonsense\n" + &call(2, "shout", json!({}));
    let answers = by_id(answers_of_the_program(input.as_bytes()).await);
    assert_eq!(answers.len(), 4);
    for id in ["1", "2"] {
        let result = &answers[id]["result"];
        assert!(result.to_string().contains("loud"), "{result}");
    }
    assert_eq!(answers["null"]["error"]["code"], -32700);
}

#[tokio::test]
async fn the_program_answers_two_hundred_large_messages_among_bad_lines() {
    const BYTES: usize = 65536;
    let text = |number: usize| format!("{number:03}{}", "x".repeat(BYTES - 3));
    let mut input = format!("\u{feff}{}", initialize());
    for number in 0..200 {
        let id = if number % 2 == 0 { json!(number) } else { json!(number.to_string()) };
        input.push_str(&call(id, "shout", json!({"text": text(number)})));
        match number {
            50 => input.push_str("not json\n\n"),
            100 => input.push_str(&format!("[{}]\n", call(1000, "shout", json!({})).trim_end())),
            150 => input
                .push_str("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":\"odd\",\"method\":\"no/such\"}\n"),
            _ => {}
        }
    }
    // The end of input comes right after the last request, in mid-line.
    let input = input.replace('\n', "\r\n");
    let answers = answers_of_the_program(input.trim_end().as_bytes()).await;
    let code = |answer: &Value| answer["error"]["code"].as_i64();
    let mut codes: Vec<_> = answers.iter().filter_map(code).collect();
    codes.sort();
    assert_eq!(codes, [-32700, -32601, -32600]);
    let answered = answers.into_iter().filter(|answer| answer["result"].is_object());
    let answers = by_id(answered.collect());
    assert_eq!(answers.len(), 201);
    for number in 0..200 {
        let id = if number % 2 == 0 { number.to_string() } else { format!("\"{number}\"") };
        let output = &answers[&id]["result"]["structuredContent"]["output"];
        assert_eq!(output.as_str(), Some(&*(text(number) + "loud")), "{id}");
    }
}

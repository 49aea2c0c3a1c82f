//! MCP messages of few bytes and very many values: refused before they are read, as
//! those of gRPC are, by a server that stays usable.

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/mcp.rs"]
mod mcp;
#[path = "support/mcp_raw.rs"]
mod raw;
#[path = "support/memory.rs"]
mod memory;

use a11_grpc::mcp::McpOptions;
use mcp::TestServer;
use raw::{NEWEST, OnLines, OverHttp, VERSIONS, call, soon};
use reqwest::StatusCode;
use serde_json::{Value, json};

/// The most memory that this program may come to. One of the messages, as
/// values, would take half a gigabyte and more; the largest that is taken 330 MB.
const MOST_MEMORY: usize = 450_000_000;
/// Of a message; HTTP takes 4 MiB.
const JSON_BYTES: usize = 4_000_000;

fn check_memory(what: &str) {
    let peak = memory::peak().unwrap_or_default();
    assert!(peak < MOST_MEMORY, "{what}: {peak} bytes");
}

/// Messages with very many values at `@`, and the id of those that are requests.
const PLACES: [(&str, &str); 8] = [
    (
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"word":@}}}"#,
        "7",
    ),
    (r#"{"jsonrpc":"2.0","id":"a","method":"ping","params":{"_meta":@}}"#, "\"a\""),
    (r#"{"x":@,"jsonrpc":"2.0","id":8,"method":"initialize","params":{}}"#, "8"),
    (r#"{"jsonrpc":"2.0","method":"notifications/odd","params":{"x":@}}"#, "null"),
    (r#"{"jsonrpc":"2.0","id":9,"result":{"x":@}}"#, "null"),
    (r#"{"jsonrpc":"2.0","id":@,"method":"ping"}"#, "null"),
    ("@", "null"),
    (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":@"#, "null"),
];

/// The same in full; one at a time, for each is large.
fn heavy() -> impl Iterator<Item = (String, &'static str)> {
    ["[]", "{}", "0", r#"{"":0}"#].into_iter().flat_map(|item| {
        let list = format!("[{}]", vec![item; JSON_BYTES / (item.len() + 1)].join(","));
        PLACES.into_iter().map(move |(message, id)| (message.replace('@', &list), id))
    })
}

fn check_refusal(what: &str, answer: &Value, id: &str) {
    assert_eq!(answer["error"]["code"], -32600, "{what}: {answer}");
    assert_eq!(answer["id"].to_string(), id, "{what}: {answer}");
    let text = answer["error"]["message"].as_str().expect("a text");
    assert!(text.contains("too many values"), "{what}: {text}");
}

/// One test for both transports: the memory is that of the whole program.
#[tokio::test]
async fn messages_of_very_many_values_are_refused_before_they_are_read() {
    let server = TestServer::start(McpOptions::new(fixtures::registry())).await;
    let client = reqwest::Client::new();
    for (message, id) in heavy() {
        let what = format!("over HTTP {message:.90}");
        let posted = client
            .post(&server.url)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(message);
        let response = soon(posted.send()).await.expect("an answer");
        check_memory(&what);
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE, "{what}");
        let answer = serde_json::from_str(&response.text().await.expect("read")).expect("JSON");
        check_refusal(&what, &answer, id);
    }
    for version in [VERSIONS[0], NEWEST] {
        let (client, _) = OverHttp::open(&server.url, version).await;
        let echoed = client.ask(&call(version, 7, "echo", json!({"word": "on"}))).await;
        assert_eq!(echoed[0]["result"]["structuredContent"], json!({"echoed": "on"}));
    }
    let (mut client, _) = OnLines::open(&server.server, NEWEST).await;
    for (message, id) in heavy() {
        let what = format!("on lines {message:.90}");
        client.send_text(&message).await;
        let answer = client.next().await.expect("an answer");
        check_memory(&what);
        check_refusal(&what, &answer, id);
    }
    let echoed = client.ask(&call(NEWEST, 7, "echo", json!({"word": "on"}))).await;
    assert_eq!(echoed[0]["result"]["structuredContent"], json!({"echoed": "on"}));

    // As many as there may be are taken, within the same memory.
    for (item, weight) in [("0", 1), ("[]", 3), ("{}", 4), (r#"{"":0}"#, 4)] {
        let list = vec![item; (1 << 20) / weight - 100].join(",");
        let call = call(NEWEST, 7, "echo", json!({"word": ["@"]}));
        client.send_text(&call.to_string().replace("\"@\"", &list)).await;
        let answer = client.next().await.expect("an answer");
        check_memory(item);
        let text = answer["result"]["content"][0]["text"].as_str().expect("a text");
        assert!(text.starts_with("INVALID_ARGUMENT: input \"word\""), "{item}: {text:.200}");
    }
}

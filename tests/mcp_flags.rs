//! The program's MCP flags, each by what it changes for a client; and that `actions
//! --mcp` says what is served.

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/mcp.rs"]
mod mcp;
#[path = "support/mcp_raw.rs"]
mod mcp_raw;
#[path = "support/program.rs"]
mod program;
#[path = "support/server.rs"]
mod server;
#[path = "support/turns.rs"]
mod turns;

use std::sync::Arc;

use a11_grpc::action::{ActionSchema, Port, Registry, handler};
use a11_grpc::client::{actions, connect};
use a11_grpc::mcp::{McpOptions, McpServer, declaration::Describe};
use a11_grpc::runner::AllowList;
use a11_grpc::wire::{Code, Status, pb};
use mcp_raw::{OverHttp, call, initialize, initialized, request, soon};
use program::{run, run_with, serving};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turns::{asked, execute, turn};

const VERSION: &str = "2025-11-25";

const CONFIG: &str = r#"
[actions.word_count]
description = "Counts."
command = ["wc", "-w"]
stdin = { argument = "text" }
idempotent = true
inputs.text = { required = true }

[actions."with#mark"]
command = ["true"]

[actions.nap]
command = ["sleep", "600"]
"#;

fn config() -> tempfile::NamedTempFile {
    let config = tempfile::NamedTempFile::with_suffix(".toml").expect("a file");
    std::fs::write(config.path(), CONFIG).expect("written");
    config
}

/// How the only call of a turn ends, at a peer.
async fn status_at(peer: &str, address: &str) -> Status {
    let mut turn = turn([asked("c1", "echo", &[("word", "x")])]);
    let peer = Some(peer.parse().expect("an address"));
    let config = pb::ActionConfig { peer, header_autofills: [].into() };
    turn.action_configs.insert("echo".to_owned(), config);
    let mut client = actions(connect(address).await.expect("connects"));
    let round = client.execute_actions_from_interaction(execute(turn));
    let response = soon(round).await.expect("an answer").into_inner();
    response.results[0].status.clone().unwrap_or_default().into()
}

#[tokio::test]
async fn each_flag_changes_what_it_says() {
    let far = mcp::TestServer::start(McpOptions::new(fixtures::registry())).await;
    let peer = far.url.replacen("http://", "mcp://", 1);
    let config = config();
    let near = serving(
        &[
            &["--config", config.path().to_str().expect("UTF-8")][..],
            &["--mcp-allow", "word_.*", "--mcp-allow", "nap"],
            &["--mcp-accept-header", "x-a11-deadline"],
            &["--mcp-deadline", "300ms"],
            &["--mcp-allow-host", "tools.example"],
            &["--mcp-no-describe"],
            &["--mcp-peer", &peer],
        ]
        .concat(),
        &[],
    )
    .await;
    let (mut client, _) = OverHttp::open(&near.mcp, VERSION).await;
    let list = request(VERSION, 1, "tools/list", json!({}));
    let tools = client.ask(&list).await[0]["result"]["tools"].clone();
    let tools: Vec<(&str, Option<&Value>)> = tools
        .as_array()
        .expect("tools")
        .iter()
        .map(|tool| (tool["name"].as_str().expect("a name"), tool.get("_meta")))
        .collect();
    assert_eq!(tools, [("nap", None), ("word_count", None)]);

    let ask = async |request: Value| client.ask(&request).await[0].clone();
    let unlisted = ask(call(VERSION, 2, "http_fetch", json!({"url": "http://x"}))).await;
    assert_eq!(unlisted["error"]["code"], -32602, "{unlisted}");
    let late = ask(call(VERSION, 3, "nap", json!({}))).await["result"].clone();
    let said = late["content"][0]["text"].as_str().expect("a text");
    assert!(said.starts_with("DEADLINE_EXCEEDED: "), "{late}");
    let mut counted = call(VERSION, 4, "word_count", json!({"text": "a b"}));
    let count = ask(counted.clone()).await;
    assert_eq!(count["result"]["structuredContent"], json!({"output": "2"}), "{count}");
    // Long past, and believed.
    counted["params"]["_meta"] = json!({"x-a11-deadline": "1"});
    let passed = ask(counted).await;
    assert_eq!(
        passed["result"]["content"][0]["text"],
        "DEADLINE_EXCEEDED: the deadline has passed"
    );

    for (host, expected) in [("tools.example", StatusCode::OK), ("x", StatusCode::FORBIDDEN)] {
        client.headers = vec![("host".to_owned(), host.to_owned())];
        assert_eq!(client.send(Method::POST, Some(&list)).await.status(), expected, "{host}");
    }

    let status = status_at(&peer, &near.address).await;
    assert!(status.is_ok(), "{status}");
    let other = status_at(&peer.replace("/mcp", "/other"), &near.address).await;
    assert_eq!(other.code, Code::PermissionDenied, "{other}");
}

/// What `actions --mcp` prints.
async fn said(flags: &[&str]) -> Value {
    let ran = run(&[&["actions", "--mcp"], flags].concat()).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    serde_json::from_str::<Value>(&ran.stdout).expect("JSON")["tools"].take()
}

const SETTINGS: [&[&str]; 4] = [
    &[],
    &["--mcp-no-describe"],
    &["--mcp-allow", "word_.*|with#mark|pict.*|who_am_i", "--mcp-allow", "counted"],
    &["--mcp-allow", "word_.*", "--mcp-no-describe"],
];

#[tokio::test]
async fn what_is_declared_without_serving_is_what_is_served() {
    let config = config();
    let config = ["--config", config.path().to_str().expect("UTF-8")];
    let near = serving(&config, &[]).await;
    let list = request(VERSION, 1, "tools/list", json!({}));
    let input = format!("{}\n{}\n{list}\n", initialize(VERSION), initialized());
    for setting in SETTINGS {
        let serve = [&["serve", "--mcp-stdio"][..], &config, setting].concat();
        let ran = run_with(&serve, &input).await;
        let answer = ran.stdout.lines().last().expect("an answer");
        let answer: Value = serde_json::from_str(answer).expect("JSON");
        let served = &answer["result"]["tools"];
        assert!(served.as_array().is_some_and(|tools| !tools.is_empty()), "{answer}");
        assert_eq!(&said(&[&config[..], setting].concat()).await, served, "{setting:?}");
        let there = ["--server", &near.address];
        assert_eq!(&said(&[&there[..], setting].concat()).await, served, "{setting:?}");
    }
    let refused = run(&["actions", "--mcp", "--mcp-allow", "("]).await;
    assert_eq!(refused.code, 2, "{}", refused.stderr);
}

/// The fixtures, and whatever else there is to say of an action.
fn every_kind() -> Arc<Registry> {
    let registry = fixtures::registry();
    let schema = ActionSchema::builder("word_tree")
        .describe("Two\nlines.")
        .header("x-tenant", "whose", None)
        .input(Port::json("tree").schema(
            r##"{"type":"object","properties":{"next":{"$ref":"#"}},"required":["next"]}"##,
        ))
        .input(Port::of("frame", "image/png").stream())
        .output(Port::json("tree").schema(r#"{"type":"object","properties":{}}"#))
        .map("tree", "$")
        .idempotent();
    let run = handler(|_| async { Ok(()) });
    registry.register(schema.build(), run).expect("registered");
    registry
}

#[tokio::test]
async fn what_is_declared_of_another_service_is_what_it_would_serve() {
    let registry = every_kind();
    let there = server::TestServer::start(registry.clone()).await;
    for setting in SETTINGS {
        let mut options = McpOptions::new(registry.clone());
        let patterns: Vec<&str> =
            setting.iter().copied().filter(|word| !word.starts_with("--")).collect();
        if !patterns.is_empty() {
            options.allow = Some(AllowList::new(patterns).expect("patterns"));
        }
        if setting.contains(&"--mcp-no-describe") {
            options.describe = Describe::Nothing;
        }
        let served = serde_json::to_value(&*McpServer::new(options).declarations()).expect("JSON");
        let said = said(&[&["--server", &there.url][..], setting].concat()).await;
        assert_eq!(said, served, "{setting:?}");
    }
}

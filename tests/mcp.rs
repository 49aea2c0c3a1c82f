//! MCP: what a client gets for what it calls, over every transport and protocol
//! generation, with the official SDK's client.

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/mcp.rs"]
mod mcp;

use std::{sync::Arc, time::Duration};

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
use a11_grpc::mcp::{McpOptions, request_headers::Accepted};
use a11_grpc::runner::AllowList;
use a11_grpc::wire::{Chunk, headers};
use mcp::{Client, PATIENCE, TestServer, WAYS, call, options};
use rmcp::{
    model::{CallToolRequestParams, ClientRequest, ErrorCode, Request},
    service::{PeerRequestOptions, ServiceError},
};
use serde_json::{Map, Value, json};
use tokio::{sync::Notify, time::timeout};

async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it takes too long")
}

async fn result(client: &Client, tool: &str, arguments: Value) -> Value {
    call(client, tool, &arguments, Map::new()).await.expect("a result").0
}

/// The texts of a result.
fn texts(result: &Value) -> Vec<&str> {
    let blocks = result["content"].as_array().expect("content");
    blocks.iter().filter_map(|block| block["text"].as_str()).collect()
}

#[tokio::test]
async fn two_megabytes_of_text_are_cut_with_a_notice() {
    let server = TestServer::start(options(fixtures::registry())).await;
    for way in WAYS {
        let client = server.client(way).await;
        let result = result(&client, "big", json!({"bytes": 2_000_000})).await;
        let texts = texts(&result);
        let [copy, notice] = texts[..] else { panic!("{} texts over {way:?}", texts.len()) };
        assert_eq!(notice, "[The result was cut: it has 2000011 bytes in all.]");
        // What the official Python SDK takes of one event.
        let size = result.to_string().len();
        assert!((1_000_000..1 << 20).contains(&size), "{size} bytes");
        let structured = result["structuredContent"]["data"].as_str().expect("a string");
        assert!(structured.ends_with("… [cut, 2000000 bytes in all]"));
        assert_eq!(serde_json::from_str::<Value>(copy).expect("JSON"), result["structuredContent"]);
        assert_eq!(result["_meta"]["to.a11/cut"], 2_000_011);
    }
}

#[tokio::test]
async fn a_picture_beside_a_document_is_never_repeated_as_text() {
    let server = TestServer::start(options(fixtures::registry())).await;
    for way in WAYS {
        let client = server.client(way).await;
        let result = result(&client, "picture", json!({"caption": "a hall"})).await;
        let picture = result["content"][1]["data"].as_str().expect("a picture");
        assert_eq!(result.to_string().matches(picture).count(), 1);
        let legend = json!({"legend": {"caption": "a hall", "floor_index": 0}});
        assert_eq!(result["structuredContent"], legend);
        let tools = client.list_all_tools().await.expect("tools");
        let tool = tools.iter().find(|tool| tool.name == "picture").expect("the tool");
        let schema = Value::Object((**tool.output_schema.as_ref().expect("a schema")).clone());
        let valid = jsonschema::is_valid(&schema, &result["structuredContent"]);
        assert!(valid, "{schema}");
    }
}

#[tokio::test]
async fn each_kind_of_failure_has_its_own_kind_of_error() {
    let server = TestServer::start(options(fixtures::registry())).await;
    for way in WAYS {
        let client = server.client(way).await;
        for unknown in ["no_such_tool", "schema_only"] {
            let error = call(&client, unknown, &json!({}), Map::new()).await.expect_err("refused");
            let ServiceError::McpError(error) = error else { panic!("{error}") };
            assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{way:?}");
            assert_eq!(error.message, format!("there is no tool {unknown:?}"));
        }
        let failures = [
            ("echo", json!({"word": 7}), "INVALID_ARGUMENT: "),
            ("echo", json!({"word": "x", "wrod": "y"}), "INVALID_ARGUMENT: "),
            ("fail_with", json!({"code": "ABORTED", "message": "late"}), "ABORTED: late"),
            ("partial_then_fail", json!({"word": "w"}), "DATA_LOSS: disk went away"),
        ];
        for (tool, arguments, expected) in failures {
            let result = result(&client, tool, arguments).await;
            assert_eq!(result["isError"], true, "{result}");
            assert_eq!(result.get("structuredContent"), None);
            assert!(texts(&result)[0].starts_with(expected), "{result}");
        }
        let text = result(&client, "whole_string", json!({"query": "q"})).await;
        assert_eq!(texts(&text), ["answer to q"]);
        assert_eq!(text.get("structuredContent"), None);
    }
}

/// An action that says it began, then waits; and says when it was stopped.
fn waiting() -> (Arc<Registry>, Arc<Notify>, Arc<Notify>) {
    struct Tell(Arc<Notify>);
    impl Drop for Tell {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let (began, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let registry = fixtures::registry();
    let schema = ActionSchema::builder("wait").output(Port::text("never")).build();
    let notices = (began.clone(), stopped.clone());
    let run = handler(move |_: Context| {
        let (began, stopped) = notices.clone();
        async move {
            let _tell = Tell(stopped);
            began.notify_one();
            std::future::pending().await
        }
    });
    registry.register(schema, run).expect("registered");
    (registry, began, stopped)
}

#[tokio::test]
async fn cancelling_a_call_stops_its_action_and_nothing_is_sent_for_it() {
    for way in WAYS {
        let (registry, began, stopped) = waiting();
        let server = TestServer::start(options(registry)).await;
        let client = server.client(way).await;
        let params = CallToolRequestParams::new("wait");
        let request = ClientRequest::CallToolRequest(Request::new(params));
        let call = client
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await
            .expect("sent");
        soon(began.notified()).await;
        call.cancel(Some("enough".to_owned())).await.expect("cancelled");
        soon(stopped.notified()).await;
        // The connection goes on, and what comes is the next call's.
        let next = result(&client, "echo", json!({"word": "on"})).await;
        assert_eq!(next["structuredContent"], json!({"echoed": "on"}), "{way:?}");
    }
}

#[tokio::test]
async fn a_list_is_followed_live() {
    for way in WAYS {
        let registry = fixtures::registry();
        let mut options = options(registry.clone());
        options.allow = Some(AllowList::new(["echo|new_.*|a#b"]).expect("a pattern"));
        let server = TestServer::start(options).await;
        let client = server.client(way).await;
        let names = async || -> Vec<String> {
            let tools = client.list_all_tools().await.expect("tools");
            tools.into_iter().map(|tool| tool.name.into_owned()).collect()
        };
        assert_eq!(names().await, ["echo"], "{way:?}");
        let mut changes = client.service().list_changes.subscribe();
        let newest = matches!(way, mcp::Way::NewestHttp | mcp::Way::NewestLines);
        let filter = rmcp::model::SubscriptionFilter::builder().tools_list_changed().build();
        let mut subscription = None;
        if newest {
            subscription = Some(client.listen(filter).await.expect("subscribes"));
        }
        for name in ["hidden", "new_one", "a#b"] {
            let schema = ActionSchema::builder(name).build();
            registry.register(schema, handler(|_| async { Ok(()) })).expect("registered");
        }
        match &mut subscription {
            Some(subscription) => {
                soon(subscription.next()).await.expect("told").expect("open");
            }
            None => {
                soon(changes.wait_for(|count| *count > 0)).await.expect("told");
            }
        }
        assert_eq!(names().await, ["a_b_8187fc8f7f00", "echo", "new_one"], "{way:?}");
        let result = result(&client, "a_b_8187fc8f7f00", json!({})).await;
        assert_eq!(result["isError"], Value::Null);
        registry.remove("new_one").expect("there");
        assert_eq!(names().await, ["a_b_8187fc8f7f00", "echo"], "{way:?}");
    }
}

#[tokio::test]
async fn metadata_becomes_headers_only_where_that_is_let() {
    let registry = Registry::new();
    let schema = ActionSchema::builder("headers")
        .header("x-tenant", "whose", None)
        .output(Port::json("seen"))
        .build();
    let run = handler(|context: Context| async move {
        let names: Vec<String> = context
            .headers()
            .iter()
            .filter(|(name, _)| *name != headers::DEADLINE)
            .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)))
            .collect();
        context.write_chunk("seen", Chunk::json(&names).expect("JSON")).await
    });
    registry.register(schema, run).expect("registered");
    let registry = Arc::new(registry);
    let meta = json!({
        "to.a11/headers": {"X-Tenant": "t1", "x-a11-allowed-llm-actions": ".*",
            "x-a11-deadline": "1"},
        "x-a11-role": "admin",
    });
    let check = async |patterns: &[&str], expected: Value| {
        let mut options = options(registry.clone());
        options.accept_headers = Accepted::new(patterns).expect("patterns");
        let server = TestServer::start(options).await;
        for way in WAYS {
            let client = server.client(way).await;
            let meta = meta.as_object().expect("an object").clone();
            let (result, _) = call(&client, "headers", &json!({}), meta).await.expect("a result");
            assert_eq!(result["structuredContent"]["seen"], expected, "{way:?} {result}");
        }
    };
    check(&[], json!(["x-tenant=t1"])).await;
    check(
        &["x-a11-.*"],
        json!([r#"x-a11-mcp-meta={"x-a11-role": "admin"}"#, "x-a11-role=admin", "x-tenant=t1"]),
    )
    .await;
    check(&["x-a11-allowed-llm-actions"], json!(["x-a11-allowed-llm-actions=.*", "x-tenant=t1"]))
        .await;
    // An accepted deadline that has passed ends the call before it begins.
    check(&["x-a11-deadline"], Value::Null).await;
}

#[tokio::test]
async fn a_server_that_drains_finishes_what_it_accepted_and_takes_no_more() {
    for way in WAYS {
        let registry = fixtures::registry();
        let (began, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let schema = ActionSchema::builder("gated").output(Port::text("done")).build();
        let gates = (began.clone(), go.clone());
        let run = handler(move |context: Context| {
            let (began, go) = gates.clone();
            async move {
                began.notify_one();
                go.notified().await;
                context.write("done", "yes").await
            }
        });
        registry.register(schema, run).expect("registered");
        let server = TestServer::start(options(registry)).await;
        let client = server.client(way).await;
        let gated = result(&client, "gated", json!({}));
        let drain = async {
            began.notified().await;
            let drained = server.server.drain();
            tokio::pin!(drained);
            assert!(futures::poll!(&mut drained).is_pending());
            let refused = result(&client, "echo", json!({"word": "late"})).await;
            assert!(texts(&refused)[0].starts_with("UNAVAILABLE: "), "{refused}");
            go.notify_one();
            drained.await;
        };
        let (gated, ()) = soon(async { tokio::join!(gated, drain) }).await;
        assert_eq!(gated["structuredContent"], json!({"done": "yes"}), "{way:?}");
    }
}

#[tokio::test]
async fn a_call_has_the_servers_deadline() {
    let (registry, _, stopped) = waiting();
    let mut options = McpOptions::new(registry);
    options.deadline = Duration::from_millis(50);
    let server = TestServer::start(options).await;
    for way in WAYS {
        let client = server.client(way).await;
        let result = result(&client, "wait", json!({})).await;
        assert!(texts(&result)[0].starts_with("DEADLINE_EXCEEDED: "), "{result}");
        soon(stopped.notified()).await;
    }
}

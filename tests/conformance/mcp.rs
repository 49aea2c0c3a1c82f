//! `mcp.json`: declarations, results and narration over each transport and
//! protocol generation with the official SDK's client, and the headers that a
//! request's `_meta` asks for.

use std::{fs, path::Path, time::Duration};

use a11_grpc::mcp::{McpOptions, request_headers};
use serde_json::{Map, Value, json};

use crate::fixtures;
use crate::mcp_client::{Client, TestServer, WAYS, call};
use crate::tally::{Tally, same};

pub fn run(dir: &Path, tally: &mut Tally) {
    let recorded = fs::read_to_string(dir.join("mcp.json")).expect("mcp.json");
    let recorded: Value = serde_json::from_str(&recorded).expect("JSON");
    let cases = |key: &str| recorded[key].as_array().expect("cases").clone();

    for case in cases("headers_from_meta") {
        tally.check(&format!("mcp headers {}", case["meta"]), headers(&case));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let server = TestServer::start(McpOptions::new(fixtures::registry())).await;
        for way in WAYS {
            let client = server.client(way).await;
            let listed = client.list_all_tools().await.expect("tools");
            let listed = serde_json::to_value(listed).expect("JSON");
            for expected in cases("tools") {
                let name = &expected["name"];
                let tools = listed.as_array().expect("tools");
                let actual = tools.iter().find(|tool| tool["name"] == *name);
                let result = same(actual.unwrap_or(&Value::Null), &expected);
                tally.check(&format!("mcp tool {name} over {way:?}"), result);
            }
            for case in cases("calls") {
                let name = format!("mcp call {} {} over {way:?}", case["tool"], case["arguments"]);
                let result = match case["deadline_ms"].as_u64() {
                    None => one_call(&client, &case).await,
                    Some(millis) => {
                        let mut options = McpOptions::new(fixtures::registry());
                        options.deadline = Duration::from_millis(millis);
                        let server = TestServer::start(options).await;
                        one_call(&server.client(way).await, &case).await
                    }
                };
                tally.check(&name, result);
            }
        }
    });
}

fn headers(case: &Value) -> Result<(), String> {
    let asked = request_headers::asked(case["meta"].as_object().expect("an object"));
    let texts = asked.iter().map(|(name, value)| (name, String::from_utf8_lossy(value)));
    same(&json!(texts.collect::<std::collections::BTreeMap<_, _>>()), &case["headers"])
}

async fn one_call(client: &Client, case: &Value) -> Result<(), String> {
    let tool = case["tool"].as_str().expect("a tool");
    let (mut actual, told) = call(client, tool, &case["arguments"], Map::new())
        .await
        .map_err(|error| error.to_string())?;
    let mut expected = case["result"].clone();
    // The newest version says what kind of result it is and who made it.
    actual.as_object_mut().expect("an object").remove("resultType");
    if let Some(Value::Object(meta)) = actual.get_mut("_meta") {
        meta.retain(|key, _| !key.starts_with("io.modelcontextprotocol/"));
        if meta.is_empty() {
            actual.as_object_mut().expect("an object").remove("_meta");
        }
    }
    for result in [&mut actual, &mut expected] {
        for block in result["content"].as_array_mut().into_iter().flatten() {
            comparable(block);
        }
    }
    same(&actual, &expected)?;
    same(&json!(told), &case["progress"])
}

/// JSON text becomes JSON, and wording that is free is left out.
fn comparable(block: &mut Value) {
    let Some(text) = block["text"].as_str() else { return };
    let failure = text.split_once(": ").filter(|(code, wording)| {
        ["INVALID_ARGUMENT", "DEADLINE_EXCEEDED"].contains(code) && !wording.is_empty()
    });
    block["text"] = match failure {
        Some((code, _)) => code.into(),
        None => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
    };
}

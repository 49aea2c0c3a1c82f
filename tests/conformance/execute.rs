//! `execute.json`: a model's turn in, outputs, failures and provider messages
//! out, over a real gRPC connection. Each case runs as an interaction for every
//! recorded backend, and as a raw reply that makes the same calls.

use std::path::Path;

use a11_grpc::interaction::portable;
use a11_grpc::wire::pb::{
    Backend, ExecuteActionsFromInteractionRequest, ExecuteActionsFromInteractionResponse,
    Interaction, RejectedCall, action_service_client::ActionServiceClient,
};
use a11_grpc::wire::status::{code_name, code_of_name};
use a11_grpc::wire::{NodeFragment, base64, pb};
use prost::Message as _;
use serde_json::{Value, json};
use tonic::transport::Channel;

use crate::fixtures;
use crate::server::TestServer;
use crate::tally::{Tally, cases, same};

type Client = ActionServiceClient<Channel>;

const BACKENDS: [(&str, Backend); 6] = [
    ("claude", Backend::Claude),
    ("claude_code", Backend::ClaudeCode),
    ("gemini", Backend::Gemini),
    ("gpt", Backend::Gpt),
    ("ollama", Backend::Ollama),
    ("vllm", Backend::Vllm),
];

pub fn run(dir: &Path, tally: &mut Tally) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let server = TestServer::start(fixtures::registry()).await;
        let mut client = server.client().await;
        for case in cases(dir, "execute.json") {
            let name = case["name"].as_str().unwrap_or_default();
            for (backend_name, backend) in BACKENDS {
                let result = as_interaction(&mut client, &case, backend_name, backend).await;
                tally.check(&format!("execute {name} for {backend_name}"), result);
            }
            let result = as_reply(&mut client, &case).await;
            tally.check(&format!("execute {name} from a raw reply"), result);
        }
    });
}

/// The recorded interaction, with what was rejected before handed over as such.
async fn as_interaction(
    client: &mut Client,
    case: &Value,
    backend_name: &str,
    backend: Backend,
) -> Result<(), String> {
    let interaction = portable::from_json(case["interaction"].to_string().as_bytes())
        .map_err(|error| error.to_string())?;
    let rejected = case["expect"]["rejected"].as_object().into_iter().flatten();
    let calls = case["tool_calls"].as_array().expect("tool_calls");
    let rejected_calls = rejected.map(|(id, status)| {
        let position = calls.iter().position(|call| call["id"] == **id).expect("a call");
        let code = code_of_name(status["code"].as_str().unwrap_or_default()).expect("a code");
        RejectedCall {
            position: position as u32,
            id: id.clone(),
            name: calls[position]["name"].as_str().unwrap_or_default().to_owned(),
            status: Some(pb::Status {
                code: code as i32,
                message: "refused".into(),
                ..Default::default()
            }),
        }
    });
    let rejected_calls = rejected_calls.collect();
    let original = interaction.clone();
    let response = execute(client, case, interaction, backend, rejected_calls).await?;
    check_turn(&response, &original)?;
    check_calls(case, &response)?;
    check_messages(case, backend_name, &response)
}

/// The same calls as a Claude reply: what the recorded interaction says must be
/// derivable from it.
async fn as_reply(client: &mut Client, case: &Value) -> Result<(), String> {
    let calls = case["tool_calls"].as_array().expect("tool_calls");
    let content: Vec<Value> = calls
        .iter()
        .map(|call| {
            json!({"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["params"]})
        })
        .collect();
    let reply = json!({"type": "message", "role": "assistant", "content": content});
    let interaction = Interaction {
        role: pb::Role::Model as i32,
        content: vec![a11_grpc::wire::Chunk::json(&reply).expect("JSON")],
        ..Interaction::default()
    };
    let response = execute(client, case, interaction, Backend::Unspecified, vec![]).await?;
    check_calls(case, &response)?;
    check_messages(case, "claude", &response)
}

async fn execute(
    client: &mut Client,
    case: &Value,
    interaction: Interaction,
    backend: Backend,
    rejected_calls: Vec<RejectedCall>,
) -> Result<ExecuteActionsFromInteractionResponse, String> {
    let max_output_bytes = case["max_output_bytes"].as_u64().map(|most| most as u32);
    let call_timeout = case["deadline_ms"].as_u64().map(|millis| pbjson_types::Duration {
        seconds: (millis / 1000) as i64,
        nanos: (millis % 1000) as i32 * 1_000_000,
    });
    let mut request = tonic::Request::new(ExecuteActionsFromInteractionRequest {
        interaction: Some(interaction.encode_to_vec().into()),
        backend: backend as i32,
        max_output_bytes,
        call_timeout,
        rejected_calls,
        ..Default::default()
    });
    if let Some(allowed) = case["allowed"].as_str() {
        let allowed = allowed.parse().map_err(|_| format!("{allowed:?} is no metadata"))?;
        request.metadata_mut().insert("x-a11-allowed-llm-actions", allowed);
    }
    let response = client.execute_actions_from_interaction(request).await;
    response.map(tonic::Response::into_inner).map_err(|status| status.to_string())
}

/// What holds for every tool-result turn.
fn check_turn(
    response: &ExecuteActionsFromInteractionResponse,
    original: &Interaction,
) -> Result<(), String> {
    let turn = response.interaction.as_ref().ok_or("no interaction")?;
    if turn.previous_interaction_id != original.id || turn.role != pb::Role::User as i32 {
        return Err("the turn does not follow the assistant's".into());
    }
    let ids: Vec<&String> = response.results.iter().map(|result| &result.id).collect();
    if !ids.iter().all(|id| turn.action_outputs.contains_key(*id)) {
        return Err("a call has no entry in action_outputs".into());
    }
    let content: Vec<&[u8]> = turn.content.iter().map(|chunk| chunk.data().as_ref()).collect();
    let messages: Vec<&[u8]> = response.messages.iter().map(|text| text.as_bytes()).collect();
    if content == messages { Ok(()) } else { Err("content is not the messages".into()) }
}

fn check_calls(
    case: &Value,
    response: &ExecuteActionsFromInteractionResponse,
) -> Result<(), String> {
    let calls = case["tool_calls"].as_array().expect("tool_calls");
    let order: Vec<&str> = response.results.iter().map(|result| result.id.as_str()).collect();
    let expected: Vec<&str> = calls.iter().filter_map(|call| call["id"].as_str()).collect();
    if order != expected {
        return Err(format!("the results stand as {order:?}, the calls as {expected:?}"));
    }
    let turn = response.interaction.as_ref().ok_or("no interaction")?;
    for result in &response.results {
        let id = &result.id;
        let status = result.status.clone().unwrap_or_default();
        let error = &case["expect"]["errors"][id];
        let code = error["code"].as_str().unwrap_or("OK");
        let actual = code_name(tonic::Code::from_i32(status.code));
        if actual != code {
            return Err(format!("{id}: {actual}: {}, not {code}", status.message));
        }
        match error["message"].as_str() {
            None | Some("<wording yours>") => {}
            Some(message) if message == status.message => {}
            Some(message) => return Err(format!("{id}: {:?}, not {message:?}", status.message)),
        }
        let log = case["expect"]["logs"][id].as_str().unwrap_or_default();
        if result.log != log {
            return Err(format!("{id}: the log is {:?}, not {log:?}", result.log));
        }
        let outputs = turn.action_outputs.get(id).map(|o| o.fragments.clone()).unwrap_or_default();
        same(&by_id(outputs.iter().map(fragment)), &by_id(recorded(case, id)))
            .map_err(|difference| format!("outputs of {id}: {difference}"))?;
    }
    Ok(())
}

fn recorded(case: &Value, id: &str) -> impl Iterator<Item = Value> {
    case["expect"]["outputs"][id].as_array().cloned().unwrap_or_default().into_iter()
}

fn fragment(fragment: &NodeFragment) -> Value {
    let chunk = fragment.chunk().cloned().unwrap_or_default();
    json!({
        "id": fragment.id,
        "mimetype": chunk.media_type(),
        "data_b64": base64::encode(chunk.data()),
        "seq": fragment.seq,
        "continued": fragment.continued,
    })
}

/// The order of ids is free, that within an id is not.
fn by_id(fragments: impl Iterator<Item = Value>) -> Value {
    let mut ids = serde_json::Map::new();
    for fragment in fragments {
        let id = fragment["id"].as_str().unwrap_or_default().to_owned();
        let list = ids.entry(id).or_insert_with(|| json!([]));
        list.as_array_mut().expect("a list").push(fragment);
    }
    ids.into()
}

fn check_messages(
    case: &Value,
    backend: &str,
    response: &ExecuteActionsFromInteractionResponse,
) -> Result<(), String> {
    let messages: Result<Vec<Value>, _> =
        response.messages.iter().map(|message| serde_json::from_str(message)).collect();
    let mut messages = messages.map_err(|error| error.to_string())?;
    if backend == "claude" {
        // One user message holds them all.
        if messages.len() != 1 || messages[0]["role"] != "user" {
            return Err("not one user message".into());
        }
        messages = messages[0]["content"].as_array().cloned().unwrap_or_default();
    }
    let expected = case["expect"]["tool_results"][backend].as_array().cloned().unwrap_or_default();
    // The recorded ones have rejected calls last, ours stand in the model's
    // order: compared call by call, by id or, where there is none, as a set.
    let (mut messages, mut expected) = (messages, expected);
    let order: Vec<Value> = case["tool_calls"]
        .as_array()
        .expect("calls")
        .iter()
        .map(|call| call["id"].clone())
        .collect();
    let place = |message: &Value| {
        let id =
            ["tool_use_id", "tool_call_id", "call_id"].iter().find_map(|key| message.get(*key));
        id.and_then(|id| order.iter().position(|other| other == id)).unwrap_or(usize::MAX)
    };
    let has_rejected = case["expect"]["rejected"].as_object().is_some_and(|r| !r.is_empty());
    if has_rejected {
        let key = |message: &Value| (place(message), message.to_string().contains("INVALID"));
        messages.sort_by_key(key);
        expected.sort_by_key(key);
    }
    if messages.len() != expected.len() {
        return Err(format!("{} messages, not {}", messages.len(), expected.len()));
    }
    messages.iter().zip(&expected).try_for_each(|(actual, expected)| alike(actual, expected))
}

/// Compares messages: JSON inside text as JSON, our own wording by presence.
fn alike(actual: &Value, expected: &Value) -> Result<(), String> {
    let differ = || Err(format!("\n  expected {expected}\n  actual   {actual}"));
    match (actual, expected) {
        (Value::String(actual), Value::String(expected)) => {
            if expected == "<a note, wording yours>" {
                return if actual.is_empty() { differ() } else { Ok(()) };
            }
            if let Some((code, _)) = expected.split_once("<wording yours>") {
                return if actual.starts_with(code) { Ok(()) } else { differ() };
            }
            let json = |text: &str| serde_json::from_str::<Value>(text).ok();
            if actual == expected || (json(actual).is_some() && json(actual) == json(expected)) {
                Ok(())
            } else {
                differ()
            }
        }
        (Value::Array(a), Value::Array(e)) if a.len() == e.len() => {
            a.iter().zip(e).try_for_each(|(a, e)| alike(a, e))
        }
        (Value::Object(a), Value::Object(e)) if a.len() == e.len() => {
            e.iter().try_for_each(|(key, e)| alike(a.get(key).unwrap_or(&Value::Null), e))
        }
        (actual, expected) if actual == expected => Ok(()),
        _ => differ(),
    }
}

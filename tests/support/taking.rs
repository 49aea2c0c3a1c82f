//! What a registry has once another MCP server is taken in: whether it is there,
//! and what a call of one of its actions comes to.

#![allow(missing_docs, dead_code, unreachable_pub)]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use a11_grpc::action::{Call, Event, Inputs, Registry, Scope};
use a11_grpc::mcp::{Taking, taking::Standing};
use a11_grpc::wire::{Headers, Status};
use serde_json::{Value, json, value::RawValue};
use tokio::time::timeout;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it takes too long")
}

pub async fn open(taking: &Taking) -> usize {
    let mut standing = taking.standing();
    let open = |standing: &Standing| matches!(standing, Standing::Open(_));
    match &*soon(standing.wait_for(open)).await.expect("open") {
        Standing::Open(count) => *count,
        _ => 0,
    }
}

/// What a call puts out by port, and what it narrates.
pub async fn call(
    registry: &Arc<Registry>,
    action: &str,
    arguments: Value,
) -> Result<(BTreeMap<String, Vec<String>>, String), Status> {
    let entry = registry.runnable(action)?;
    let raw: BTreeMap<String, Box<RawValue>> =
        serde_json::from_value(arguments).expect("arguments");
    let raw = raw.iter().map(|(name, value)| (name.as_str(), &**value));
    let inputs = Inputs::from_arguments(entry.schema(), raw)?;
    let schema = entry.schema().clone();
    let call =
        Call { id: "call".to_owned(), entry, inputs, headers: Headers::default(), deadline: None };
    let mut run = Scope::root(registry.clone()).start(call)?;
    let (mut outputs, mut log) = (BTreeMap::<String, Vec<String>>::new(), String::new());
    while let Some(event) = soon(run.next_event()).await {
        match event {
            Event::Output(port, pieces) => {
                let port = schema.outputs()[port].name().to_owned();
                let chunks = pieces.iter().filter_map(|piece| piece.chunk());
                let texts = chunks
                    .filter(|chunk| !chunk.is_null())
                    .map(|chunk| String::from_utf8_lossy(chunk.data()).into_owned());
                outputs.entry(port).or_default().extend(texts);
            }
            Event::Log(entry) => log.push_str(&entry.text),
            Event::Finished(status) if status.is_ok() => return Ok((outputs, log)),
            Event::Finished(status) => return Err(status),
        }
    }
    panic!("the call did not end");
}

pub async fn outputs(registry: &Arc<Registry>, action: &str, arguments: Value) -> Value {
    let (outputs, _) = call(registry, action, arguments).await.expect(action);
    json!(outputs)
}

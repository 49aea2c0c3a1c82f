//! What the tests of the built-in actions share: a registry out of a config text,
//! and one call, whole or event by event.
#![allow(dead_code)] // each test program uses a part

use std::{collections::BTreeMap, path::Path, sync::Arc};

use a11_grpc::{
    action::{Call, Event, Inputs, Registry, Run, Scope},
    config::{Config, Refused, register},
    wire::{Chunk, Code, Headers, Status, chunk::Kind},
};
use serde_json::{Value, value::RawValue};

/// A registry of what the config text says, and what was refused.
pub(crate) fn registry_of(config: &str, directory: &Path) -> (Arc<Registry>, Vec<Refused>) {
    let config = Config::parse(config, Path::new("actions.toml"), directory).expect("a config");
    let registry = Arc::new(Registry::new());
    let refused = register(&registry, config);
    (registry, refused)
}

/// All that came of a call.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: Status,
    pub(crate) outputs: BTreeMap<String, Vec<Chunk>>,
    pub(crate) log: String,
}

impl Outcome {
    /// The values of a port, by what they are; bytes as their number.
    pub(crate) fn values(&self, port: &str) -> Vec<Value> {
        let chunks = self.outputs.get(port).map(Vec::as_slice).unwrap_or_default();
        chunks
            .iter()
            .map(|chunk| match Kind::of(chunk.media_type()) {
                Kind::Text => String::from_utf8(chunk.data().to_vec()).expect("UTF-8").into(),
                Kind::Json => serde_json::from_slice(chunk.data()).expect("JSON"),
                _ => chunk.data().len().into(),
            })
            .collect()
    }

    /// The one value of a port of a call that went well.
    #[track_caller]
    pub(crate) fn value(&self, port: &str) -> Value {
        assert!(self.status.is_ok(), "{}", self.status);
        let mut values = self.values(port);
        assert_eq!(values.len(), 1, "{values:?}");
        values.remove(0)
    }

    /// Checks code and message of a call that failed.
    #[track_caller]
    pub(crate) fn failed(&self, code: Code, message: &str) {
        assert_eq!(self.status.code, code, "{}", self.status);
        assert!(self.status.message.contains(message), "{}", self.status);
    }
}

/// Starts a call.
pub(crate) fn start(registry: &Arc<Registry>, action: &str, arguments: Value) -> Run {
    let entry = registry.entry(action).expect("registered");
    let arguments: Vec<(String, Box<RawValue>)> = arguments
        .as_object()
        .expect("an object")
        .iter()
        .map(|(name, value)| {
            (name.clone(), RawValue::from_string(value.to_string()).expect("JSON"))
        })
        .collect();
    let named = arguments.iter().map(|(name, value)| (name.as_str(), &**value));
    let inputs = Inputs::from_arguments(entry.schema(), named).expect("inputs that fit");
    let (id, headers) = ("call".to_owned(), Headers::default());
    let call = Call { id, entry, inputs, headers, deadline: None };
    Scope::root(registry.clone()).start(call).expect("it starts")
}

/// Waits for all that comes of a call.
pub(crate) async fn finish(mut run: Run) -> Outcome {
    let schema = run.schema().clone();
    let mut outputs: BTreeMap<String, Vec<Chunk>> = BTreeMap::new();
    let mut log = String::new();
    loop {
        match run.next_event().await.expect("an end") {
            Event::Output(port, pieces) => {
                let name = schema.outputs()[port].name().to_owned();
                let chunks = pieces.iter().filter_map(|piece| piece.chunk().cloned());
                outputs.entry(name).or_default().extend(chunks.filter(|chunk| !chunk.is_null()));
            }
            Event::Log(entry) if !entry.internal => log.push_str(&entry.text),
            Event::Log(_) => {}
            Event::Finished(status) => return Outcome { status, outputs, log },
        }
    }
}

/// Makes a call.
pub(crate) async fn call(registry: &Arc<Registry>, action: &str, arguments: Value) -> Outcome {
    finish(start(registry, action, arguments)).await
}

/// The next text that a call puts out.
pub(crate) async fn next_text(run: &mut Run) -> String {
    loop {
        match run.next_event().await.expect("more output") {
            Event::Output(_, pieces) => {
                let chunk = pieces.iter().find_map(|piece| piece.chunk()).expect("a chunk");
                return String::from_utf8(chunk.data().to_vec()).expect("UTF-8");
            }
            Event::Log(_) => {}
            Event::Finished(status) => panic!("it ended: {status}"),
        }
    }
}

/// Waits until a process is gone, or only a zombie that somebody else must reap.
// Somebody else's process cannot be awaited, so it is looked for again and again.
pub(crate) async fn gone(pid: &str) {
    let running = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map_or("Z", |(_, rest)| &rest[..1]);
        !stat.is_empty() && state != "Z"
    };
    let waited = async {
        while running() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let limit = std::time::Duration::from_secs(20);
    tokio::time::timeout(limit, waited).await.expect("the process is gone");
}

//! Taking in the tools of servers of other makers: the official Python SDK's, the
//! Python package a11-kit, and the reference servers from npm. `make test`
//! installs them; where they are not the test says so and passes.

#[path = "support/installed.rs"]
mod installed;
#[path = "support/taking.rs"]
mod taking;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use a11_grpc::action::{Registry, port::Cardinality};
use a11_grpc::mcp::{McpSource, Reach, Taking, server_list};
use a11_grpc::wire::Code;
use installed::installed;
use serde_json::{Value, json};
use taking::{call, open, outputs, soon};

fn interop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop")
}

/// A Python program of `tests/interop` as a server.
fn python(script: &str) -> Option<McpSource> {
    let python = installed("A11_PYTHON")?;
    let reach = Reach::Command {
        command: python.to_string_lossy().into_owned(),
        args: vec![interop().join(script).display().to_string()],
        env: BTreeMap::new(),
        cwd: None,
    };
    Some(McpSource { name: script.to_owned(), prefix: String::new(), reach })
}

async fn take(source: McpSource) -> (Arc<Registry>, Taking) {
    let registry = Arc::new(Registry::new());
    let taking = Taking::begin(source, registry.clone());
    open(&taking).await;
    (registry, taking)
}

#[tokio::test]
async fn the_python_sdks_tools_are_actions() {
    let Some(source) = python("python_sdk_server.py") else { return };
    let (registry, taking) = take(source).await;
    let sum = outputs(&registry, "add", json!({"a": 2})).await;
    assert_eq!(sum, json!({"text": ["3"], "structured_content": [r#"{"result":3}"#]}));
    let joined = outputs(&registry, "join", json!({"words": ["a", "b"]})).await;
    assert_eq!(joined["text"], json!(["a b"]));
    let schema = registry.entry("join").expect("there").schema().clone();
    assert_eq!(schema.inputs()[0].cardinality(), Cardinality::Stream);

    let picture = outputs(&registry, "picture", json!({})).await;
    let block: Value =
        serde_json::from_str(picture["content"][0].as_str().expect("a block")).expect("JSON");
    assert_eq!((&block["type"], &block["mimeType"]), (&json!("image"), &json!("image/png")));

    let (narrated, log) = call(&registry, "narrate", json!({"topic": "x"})).await.expect("runs");
    assert_eq!(narrated["text"], ["X"]);
    assert_eq!(log, "Looking up x.\nWriting it down.\n");

    let status = call(&registry, "fail", json!({})).await.expect_err("fails");
    assert!(status.message.contains("no such order"), "{status}");
    let status = call(&registry, "add", json!({"a": "x"})).await.expect_err("refused");
    assert_eq!(status.code, Code::InvalidArgument, "{status}");

    let mut changes = registry.changes();
    outputs(&registry, "grow", json!({})).await;
    while registry.entry("grown").is_none() {
        soon(changes.changed()).await.expect("changes");
    }
    assert_eq!(outputs(&registry, "grown", json!({})).await["text"], json!(["grown"]));

    // The process ends in mid-call: the call is told, and another takes its place.
    let before = outputs(&registry, "process", json!({})).await;
    let mut standing = taking.standing();
    standing.mark_unchanged();
    let status = call(&registry, "die", json!({})).await.expect_err("the process ends");
    assert_eq!(status.code, Code::Unavailable, "{status}");
    soon(standing.changed()).await.expect("it is away");
    open(&taking).await;
    assert_ne!(outputs(&registry, "process", json!({})).await, before);
    assert!(registry.entry("grown").is_none(), "the new process has the old list");
}

#[tokio::test]
async fn an_a11_kit_servers_actions_have_their_own_ports() {
    let Some(source) = python("a11_kit_server.py") else { return };
    let (registry, _taking) = take(source).await;
    let schema = registry.entry("split").expect("there").schema().clone();
    let ports = schema.outputs().iter().map(|port| (port.name(), port.cardinality()));
    let expected = [("total", Cardinality::Unary), ("words", Cardinality::Stream)];
    assert_eq!(ports.collect::<BTreeMap<_, _>>(), expected.into());
    let split = outputs(&registry, "split", json!({"text": "a b"})).await;
    assert_eq!(split, json!({"words": ["a", "b"], "total": ["2"]}));
    let loud = outputs(&registry, "shout", json!({"word": "x"})).await;
    assert!(loud.to_string().contains('X'), "{loud}");
}

/// The servers from npm as a host's file lists them.
fn reference_servers(folder: &Path) -> Option<Vec<McpSource>> {
    let modules = installed("A11_INTEROP_MODULES")?;
    let server = |name: &str| modules.join(".bin").join(name).display().to_string();
    let list = json!({"mcpServers": {
        "everything": {"command": server("mcp-server-everything"), "args": ["stdio"],
            "prefix": "every_"},
        "files": {"command": server("mcp-server-filesystem"), "args": [folder], "prefix": "fs_"},
    }});
    let list = server_list::read(&list.to_string()).expect("a list");
    assert!(list.refused.is_empty(), "{:?}", list.refused);
    Some(list.servers)
}

#[tokio::test]
async fn the_reference_servers_tools_are_actions() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("a folder");
    std::fs::write(path.join("note.txt"), "written here").expect("written");
    let Some(servers) = reference_servers(&path) else { return };
    let registry = Arc::new(Registry::new());
    let taken_in: Vec<Taking> =
        servers.into_iter().map(|server| Taking::begin(server, registry.clone())).collect();
    for taking in &taken_in {
        open(taking).await;
    }
    let note = json!({"path": path.join("note.txt")});
    let read = outputs(&registry, "fs_read_text_file", note).await;
    assert_eq!(read["text"], json!(["written here"]));
    let outside = json!({"path": "/etc/hostname"});
    call(&registry, "fs_read_text_file", outside).await.expect_err("it is outside");

    let echoed = outputs(&registry, "every_echo", json!({"message": "hello"})).await;
    assert!(echoed["text"].to_string().contains("hello"), "{echoed}");
    let picture = outputs(&registry, "every_get-tiny-image", json!({})).await;
    assert!(picture["content"].to_string().contains("image/png"), "{picture}");
    let structured =
        outputs(&registry, "every_get-structured-content", json!({"location": "Chicago"})).await;
    let weather: Value =
        serde_json::from_str(structured["structured_content"][0].as_str().expect("structured"))
            .expect("JSON");
    assert!(weather["temperature"].is_number(), "{weather}");
    let long = json!({"duration": 0.4, "steps": 2});
    let (_, log) =
        call(&registry, "every_trigger-long-running-operation", long).await.expect("runs");
    // This server narrates in numbers alone, which are no log.
    assert_eq!(log, "");
}

//! One interaction whose calls run in five places: in process, as a command, in
//! a Python peer, in a TypeScript peer, and in a peer that disappears; the two
//! peers calling each other; and what a host is told of a call. `make test` sets up what the peers need; where
//! that is absent the tests say so and pass.

#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/installed.rs"]
mod installed;
#[path = "support/turns.rs"]
mod turns;

use std::{path::Path, process::Stdio, sync::Arc, time::Duration};

use a11_grpc::{
    action::{ActionSchema, Context, Port, Registry, handler},
    client::{Peer, actions, connect},
    config::{self, Config},
    serve::{Limits, Options, Server},
    wire::{Code, Status, headers, pb},
};
use installed::{installed, skipped};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};
use turns::{Client, asked, execute, turn};

/// How long a peer may take to attach, and a round to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A service with an action in process and the commands of the examples; its
/// address. A peer that is gone is given up soon.
async fn service() -> String {
    let registry = Registry::new();
    let schema = ActionSchema::builder("rust_greet")
        .input(Port::text("name").required())
        .output(Port::text("greeting").required())
        .build();
    let greet = handler(|context: Context| async move {
        let name: String = context.read("name").await?;
        context.write("greeting", &format!("Hello, {name}!")).await
    });
    registry.register(schema, greet).unwrap();
    let commands = Config::load(Path::new("examples/actions.toml")).unwrap();
    assert_eq!(config::register(&registry, commands).len(), 0);
    let limits = Limits { session_grace: Duration::from_millis(300), ..Limits::default() };
    let options = Options { limits, ..Options::new("127.0.0.1:0", Arc::new(registry)) };
    let server = Server::bind(options).await.unwrap();
    let address = server.address().to_string();
    tokio::spawn(server.run(std::future::pending()));
    address
}

/// Starts a program that hosts actions, and waits until it says that it does.
async fn attach(program: &Path, arguments: &[&str], address: &str) -> Child {
    let mut peer = Command::new(program)
        .args(arguments)
        .args(["--server", address])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(peer.stderr.take().unwrap()).lines();
    let ready = async {
        let mut said = String::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.starts_with("ready") {
                return;
            }
            said += &format!("{line}\n");
        }
        panic!("it does not host: {said}");
    };
    tokio::time::timeout(PATIENCE, ready).await.expect("it attaches in time");
    // Read on, so that the program is never held up by what it says.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    peer
}

/// What runs the peers, where it is installed.
struct Runtimes {
    python: std::path::PathBuf,
    typescript: std::path::PathBuf,
}

fn runtimes() -> Option<Runtimes> {
    let python = installed("A11_PYTHON")?;
    let typescript = Path::new("clients/typescript/dist/cli/main.js").to_owned();
    if !typescript.exists() || !Path::new("examples/node_modules/a11-grpc").exists() {
        skipped("the TypeScript client is not built");
        return None;
    }
    Some(Runtimes { python, typescript })
}

impl Runtimes {
    async fn python(&self, module: &str, address: &str) -> Child {
        attach(&self.python, &["-m", "a11_grpc", "host", module], address).await
    }

    async fn typescript(&self, module: &str, address: &str) -> Child {
        attach(&self.typescript, &["host", module], address).await
    }
}

/// How each call of a round ended, and what it gave as text.
async fn run(address: &str, calls: Vec<turns::Asked>) -> Vec<(String, Status, String)> {
    let mut client: Client = actions(connect(address).await.unwrap());
    let round = client.execute_actions_from_interaction(execute(turn(calls)));
    let response = tokio::time::timeout(PATIENCE, round).await.expect("in time").unwrap();
    let pb::ExecuteActionsFromInteractionResponse { results, interaction, .. } =
        response.into_inner();
    let outputs = interaction.unwrap().action_outputs;
    results
        .into_iter()
        .map(|result| {
            let fragments = &outputs[&result.id].fragments;
            let text = fragments.iter().filter_map(|fragment| fragment.chunk());
            let text = text.map(|chunk| String::from_utf8_lossy(chunk.data()).into_owned());
            (result.id, result.status.unwrap_or_default().into(), text.collect())
        })
        .collect()
}

#[tokio::test]
async fn five_calls_in_five_places_have_five_results_in_order() {
    let Some(runtimes) = runtimes() else { return };
    let address = service().await;
    let _peers = tokio::join!(
        runtimes.python("examples/python/peer.py", &address),
        runtimes.typescript("examples/typescript/peer.mjs", &address),
        runtimes.python("tests/interop/vanishing_peer.py", &address),
    );
    let results = run(
        &address,
        vec![
            asked("gone", "vanish", &[]),
            asked("typescript", "ts_reverse", &[("text", "stressed")]),
            asked("python", "py_shout", &[("text", "quiet")]),
            asked("command", "word_count", &[("text", "as easy as pie")]),
            asked("rust", "rust_greet", &[("name", "Ada")]),
        ],
    )
    .await;
    let ids: Vec<&str> = results.iter().map(|(id, ..)| id.as_str()).collect();
    assert_eq!(ids, ["gone", "typescript", "python", "command", "rust"]);
    let (_, gone, nothing) = &results[0];
    assert_eq!((gone.code, nothing.as_str()), (Code::Unavailable, ""), "{gone}");
    for (id, status, _) in &results[1..] {
        assert!(status.is_ok(), "{id}: {status}");
    }
    let gave: Vec<&str> = results[1..].iter().map(|(.., text)| text.as_str()).collect();
    assert_eq!(gave[..2], ["desserts", "QUIET"]);
    assert!(gave[2].contains("\"words\": 4"), "{gave:?}");
    assert_eq!(gave[3], "Hello, Ada!");
}

#[tokio::test]
async fn peers_in_two_languages_call_each_other_through_the_service() {
    let Some(runtimes) = runtimes() else { return };
    let address = service().await;
    let _peers = tokio::join!(
        runtimes.python("examples/python/peer.py", &address),
        runtimes.typescript("examples/typescript/peer.mjs", &address),
    );
    let results = run(
        &address,
        vec![
            asked("a", "py_ask_ts", &[("text", "stressed")]),
            asked("b", "ts_ask_py", &[("text", "quiet")]),
        ],
    )
    .await;
    let gave: Vec<&str> = results.iter().map(|(.., text)| text.as_str()).collect();
    assert_eq!(gave, ["desserts", "Python says: QUIET"], "{results:?}");
}

/// Tells the idempotency key of its call.
fn host_key(registry: &Registry, name: &str) {
    let schema = ActionSchema::builder(name).output(Port::text("key").required()).build();
    let key = handler(|context: Context| async move {
        let key = context.headers().text(headers::IDEMPOTENCY_KEY).unwrap_or("none").to_owned();
        context.write("key", &key).await
    });
    registry.register(schema, key).unwrap();
}

#[tokio::test]
async fn the_idempotency_key_of_a_call_reaches_its_handler_in_a_peer_of_any_language() {
    let address = service().await;
    let hosted = Arc::new(Registry::new());
    host_key(&hosted, "rust_key");
    let _peer = Peer::host(hosted).connect(connect(&address).await.unwrap()).await.unwrap();
    let mut calls = vec!["rust_key"];
    let runtimes = runtimes();
    let _peers = match &runtimes {
        Some(runtimes) => {
            calls.extend(["py_key", "ts_key"]);
            let peers = tokio::join!(
                runtimes.python("tests/interop/key_peer.py", &address),
                runtimes.typescript("tests/interop/key_peer.mjs", &address),
            );
            Some(peers)
        }
        None => None,
    };
    let results = run(&address, calls.iter().map(|name| asked(name, name, &[])).collect()).await;
    let gave: Vec<&str> = results.iter().map(|(.., text)| text.as_str()).collect();
    // The turn's id, and the call's.
    let keys: Vec<String> = calls.iter().map(|name| format!("turn/{name}")).collect();
    assert_eq!(gave, keys, "{results:?}");
}

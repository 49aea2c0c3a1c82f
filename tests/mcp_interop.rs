//! MCP with clients of other makers, against this crate's server over both
//! transports: the official Python and TypeScript SDKs, the Python package a11-kit,
//! and the MCP Inspector. `make test` installs them; where a variable names none,
//! the test says so and passes.

#[path = "support/installed.rs"]
mod installed;
#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/mcp.rs"]
mod mcp;
#[path = "support/mcp_fixtures.rs"]
mod mcp_fixtures;

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};

use installed::installed;
use mcp::{PATIENCE, TestServer};
use serde_json::{Value, json};
use tokio::{process::Command, time::timeout};

/// The program that serves the fixtures on its input and output, which `cargo
/// test` builds beside the tests.
fn program() -> String {
    let mut path = env::current_exe().expect("this test");
    path.pop();
    path.pop();
    let path = path.join("examples").join(format!("mcp_fixtures{}", env::consts::EXE_SUFFIX));
    assert!(path.is_file(), "cargo build --example mcp_fixtures");
    path.into_os_string().into_string().expect("UTF-8")
}

async fn server(deadline: Option<Duration>) -> TestServer {
    TestServer::start(mcp_fixtures::options(fixtures::registry(), deadline)).await
}

fn interop(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(file)
}

/// The recorded calls, where they are found.
fn recorded() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = env::var_os("A11_CONFORMANCE")
        .map_or_else(|| root.join("../shared/conformance"), PathBuf::from);
    Some(folder.join("mcp.json")).filter(|path| path.is_file())
}

/// Runs a program that must succeed; what it printed.
async fn run(program: impl AsRef<OsStr>, arguments: &[&OsStr]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).kill_on_drop(true);
    let output = timeout(3 * PATIENCE, command.output()).await.expect("in time").expect("runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}:\n{said}\n{complaint}");
    said
}

/// Runs a client of `tests/interop`, with the recorded calls where it knows them.
async fn check(runtime: impl AsRef<OsStr>, script: &str, arguments: &[&str], knows: Recorded) {
    let script = interop(script);
    let recorded = recorded().filter(|_| knows == Recorded::Calls);
    let mut all: Vec<&OsStr> = vec![script.as_os_str()];
    all.extend(arguments.iter().map(OsStr::new));
    if let Some(recorded) = &recorded {
        all.extend([OsStr::new("--cases"), recorded.as_os_str()]);
    }
    run(runtime, &all).await;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Recorded {
    Calls,
    Nothing,
}

#[tokio::test]
async fn the_python_sdks_client_sees_what_ours_sees() {
    let Some(python) = installed("A11_PYTHON") else { return };
    let (plain, program) = (server(None).await, program());
    // A recorded deadline, which then is the server's.
    let short = server(Some(Duration::from_millis(300))).await;
    let both_ways = async |url: &str, stdio: &[&str], flags: &[&str]| {
        let mut runs = vec![];
        for mode in ["legacy", "auto"] {
            runs.extend([&[mode, url, "--", mode], stdio, &["--"]].concat());
        }
        runs.pop();
        runs.extend(flags);
        check(&python, "mcp_client.py", &runs, Recorded::Calls).await;
    };
    both_ways(&plain.url, &[&program, "stdio"], &[]).await;
    both_ways(&short.url, &[&program, "stdio", "300"], &["--deadline", "300"]).await;
}

#[tokio::test]
async fn a11_kits_client_has_the_declared_ports_and_streams_into_them() {
    let Some(python) = installed("A11_PYTHON") else { return };
    let (server, program) = (server(None).await, program());
    check(&python, "a11_kit_client.py", &[&server.url], Recorded::Nothing).await;
    check(&python, "a11_kit_client.py", &[&program, "stdio"], Recorded::Nothing).await;
}

#[tokio::test]
async fn the_typescript_sdks_client_sees_what_ours_sees() {
    if installed("A11_INTEROP_MODULES").is_none() {
        return;
    }
    let (server, program) = (server(None).await, program());
    let node = OsStr::new("node");
    check(node, "typescript_client.mjs", &[&server.url], Recorded::Calls).await;
    check(node, "typescript_client.mjs", &[&program, "stdio"], Recorded::Calls).await;
}

#[tokio::test]
async fn the_inspector_lists_and_calls() {
    let Some(modules) = installed("A11_INTEROP_MODULES") else { return };
    let inspector = modules.join(".bin/mcp-inspector");
    let (server, program) = (server(None).await, program());
    let inspect = async |target: &[&str], method: &[&str]| -> Value {
        let arguments = [&["--cli"], target, &["--method"], method].concat();
        let arguments: Vec<&OsStr> = arguments.into_iter().map(OsStr::new).collect();
        let printed = run(&inspector, &arguments).await;
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
    };
    for target in [&[program.as_str(), "stdio"][..], &[&server.url, "--transport", "http"]] {
        let listed = inspect(target, &["tools/list"]).await;
        let tools = listed["tools"].as_array().expect("tools");
        assert!(tools.iter().any(|tool| tool["name"] == "counted"), "{listed}");
        let arguments = ["--tool-arg", "text=a b", r#"parts=["c"]"#];
        let method = [&["tools/call", "--tool-name", "counted"], &arguments[..]].concat();
        let counted = inspect(target, &method).await;
        let expected = json!({"words": ["a", "b", "c"], "total": 3});
        assert_eq!(counted["structuredContent"], expected, "{counted}");
    }
}

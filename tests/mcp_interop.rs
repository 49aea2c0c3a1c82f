//! MCP with clients of other makers: the official Python SDK and the Python
//! package a11-kit, against this crate's server over both transports. `make test`
//! installs them; where `A11_PYTHON` names no Python the test says so and passes.

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/mcp.rs"]
mod mcp;

use std::{
    env,
    ffi::OsString,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use a11_grpc::mcp::McpOptions;
use mcp::{PATIENCE, TestServer};
use tokio::{process::Command, time::timeout};

/// The Python with the clients in it.
fn python() -> Option<OsString> {
    let python = env::var_os("A11_PYTHON").filter(|python| !python.is_empty());
    if python.is_none() {
        // Straight to the stream: the harness hides what a passing test prints.
        writeln!(io::stdout(), "mcp_interop: skipped, A11_PYTHON is not set").ok();
    }
    python
}

/// The program that serves the fixtures on its input and output, which `cargo
/// test` builds beside the tests.
fn program() -> PathBuf {
    let mut path = env::current_exe().expect("this test");
    path.pop();
    path.pop();
    path.join("examples").join(format!("mcp_fixtures{}", env::consts::EXE_SUFFIX))
}

async fn check(script: &str, arguments: &[&str], python: &OsString) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python);
    command.arg(root.join("tests/interop").join(script)).args(arguments).kill_on_drop(true);
    let recorded = env::var_os("A11_CONFORMANCE")
        .map_or_else(|| root.join("../shared/conformance"), PathBuf::from)
        .join("mcp.json");
    if script == "mcp_client.py" && recorded.is_file() {
        command.arg("--cases").arg(recorded);
    }
    let output = timeout(3 * PATIENCE, command.output()).await.expect("in time").expect("runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} {arguments:?}:\n{said}\n{complaint}");
}

#[tokio::test]
async fn clients_of_other_makers_see_what_ours_sees() {
    let Some(python) = python() else { return };
    let server = TestServer::start(McpOptions::new(fixtures::registry())).await;
    let program = program();
    assert!(program.is_file(), "cargo build --example mcp_fixtures");
    let program = program.to_str().expect("UTF-8");
    for mode in ["legacy", "auto"] {
        check("mcp_client.py", &[mode, &server.url], &python).await;
        check("mcp_client.py", &[mode, program, "stdio"], &python).await;
    }
    check("a11_kit_client.py", &[&server.url], &python).await;
    check("a11_kit_client.py", &[program, "stdio"], &python).await;
}

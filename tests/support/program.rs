//! Runs the program of this crate and gathers what it printed.

#![allow(dead_code)]

use std::{process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
};

/// What a run of the program left.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Its exit code; -1 where a signal ended it.
    pub(crate) code: i32,
    /// Standard output, as bytes.
    pub(crate) stdout_bytes: Vec<u8>,
    /// Standard output, as text.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

/// How long a run may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program with arguments, and an environment without its own variables.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_a11-grpc"));
    command.args(args).kill_on_drop(true).stdin(Stdio::null());
    for variable in ["A11_SERVER_URL", "A11_CONFIG", "A11_LISTEN", "A11_LOG"] {
        command.env_remove(variable);
    }
    command
}

/// Runs the program.
pub(crate) async fn run(args: &[&str]) -> Ran {
    run_with(args, "").await
}

/// Runs the program with a text as its standard input.
pub(crate) async fn run_with(args: &[&str], input: &str) -> Ran {
    let mut child = command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    // A program that does not read its input is right to leave early.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output())
        .await
        .expect("it ends in time")
        .expect("its output can be read");
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        stdout_bytes: output.stdout,
    }
}

/// The program while it serves, gRPC and MCP, on free ports; it ends with this.
#[derive(Debug)]
pub(crate) struct Serving {
    /// The program.
    pub(crate) child: Child,
    /// Where gRPC is: `HOST:PORT`.
    pub(crate) address: String,
    /// Where MCP is: a URL.
    pub(crate) mcp: String,
}

/// Starts to serve, with more flags and variables.
pub(crate) async fn serving(flags: &[&str], variables: &[(&str, &str)]) -> Serving {
    let ports = ["serve", "--listen", "127.0.0.1:0", "--mcp", "127.0.0.1:0"];
    let mut command = command(&[&ports[..], flags].concat());
    command.envs(variables.iter().copied()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let mut said = vec![];
    let mut found = [None, None];
    while found.contains(&None) {
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("it starts");
        let line = line.expect("its log can be read");
        said.push(line.unwrap_or_else(|| panic!("it ended: {said:#?}")));
        let last = said.last().map(String::as_str).unwrap_or_default();
        for (place, is_at) in found.iter_mut().zip(["listening on ", "MCP on "]) {
            *place = place.take().or_else(|| last.strip_prefix(is_at).map(str::to_owned));
        }
    }
    // Read on, so that it is never held up by what it says.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let [address, mcp] = found.map(Option::unwrap_or_default);
    Serving { child, address, mcp }
}

//! Runs the program of this crate and gathers what it printed.

use std::{process::Stdio, time::Duration};

use tokio::{io::AsyncWriteExt as _, process::Command};

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
    for variable in ["A11_SERVER", "A11_CONFIG", "A11_LISTEN", "A11_LOG"] {
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

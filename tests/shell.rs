//! The throwaway shell: order, limits, and its end.

mod builtin;

use std::{path::Path, sync::Arc};

use a11_grpc::{action::Registry, wire::Code};
use builtin::{call, finish, gone, next_text, registry_of, start};
use serde_json::{Value, json};

fn registry() -> Arc<Registry> {
    registry_of("[builtin]\nshell_execute = true", Path::new("/")).0
}

async fn run(command: &str) -> builtin::Outcome {
    call(&registry(), "shell_execute", json!({ "command": command })).await
}

#[tokio::test]
async fn both_outputs_come_in_order_with_the_exit_code() {
    let outcome = run("for i in 1 2 3; do echo out $i; echo err $i >&2; done; exit 4").await;
    let expected = json!(["out 1", "err 1", "out 2", "err 2", "out 3", "err 3"]);
    assert_eq!(json!(outcome.values("lines")), expected);
    assert_eq!(outcome.value("exit_code"), 4);
    let outcome = run("printf 'a\\nb'").await;
    assert_eq!(outcome.log, "Ran `printf 'a\\nb'`.\n\n2 lines of output.\n");
    assert_eq!(run("kill -9 $$").await.value("exit_code"), 137);
}

#[tokio::test]
async fn output_past_the_limits_is_cut_with_a_marker() {
    let last = |outcome: &builtin::Outcome| outcome.values("lines").pop().expect("lines");
    let outcome = run("seq 1 1000").await;
    assert_eq!((outcome.values("lines").len(), last(&outcome)), (1000, json!("1000")));
    let outcome = run("seq 1 5000").await;
    assert_eq!(outcome.values("lines").len(), 1001);
    let marker = "[output cut: the first 1000 of 5000 lines, 23893 bytes in all]";
    assert_eq!(last(&outcome), marker);
    assert_eq!(outcome.value("exit_code"), 0);
    let outcome = run("head -c 1000000 /dev/zero | tr '\\0' x").await;
    let kept: usize = outcome.values("lines").iter().filter_map(Value::as_str).map(str::len).sum();
    assert!(kept <= 128 * 1024 + 100, "{kept}");
    assert!(last(&outcome).as_str().is_some_and(|line| line.starts_with("[output cut: ")));
}

#[tokio::test]
async fn a_timeout_ends_the_shell_and_its_children() {
    let registry = registry();
    let arguments = json!({"command": "sleep 1000 & echo $!; wait", "timeout_seconds": 2});
    let mut run = start(&registry, "shell_execute", arguments);
    let pid = next_text(&mut run).await;
    finish(run).await.failed(Code::DeadlineExceeded, "did not end within 2s");
    gone(&pid).await;
}

#[tokio::test]
async fn it_runs_where_it_is_told_and_sees_no_secrets() {
    let registry = registry();
    let arguments = json!({"command": "pwd; env", "working_directory": "/usr"});
    let outcome = call(&registry, "shell_execute", arguments).await;
    assert_eq!(outcome.values("lines")[0], "/usr");
    assert!(!outcome.values("lines").iter().any(|line| line.to_string().contains("CARGO_")));
    let arguments = json!({"command": "pwd", "working_directory": "/no/such"});
    let outcome = call(&registry, "shell_execute", arguments).await;
    outcome.failed(Code::FailedPrecondition, "/no/such");
}

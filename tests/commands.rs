//! Command actions: argument lists, pipes, limits, and processes that are gone.

mod builtin;

use std::path::Path;

use a11_grpc::{
    action::Registry,
    config::{Config, register},
    wire::Code,
};
use builtin::{call, finish, gone, next_text, registry_of, start};
use serde_json::{Value, json};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Calls the one action of a config text that must be valid.
async fn call_one(action: &str, arguments: Value) -> builtin::Outcome {
    let (registry, refused) = registry_of(&format!("[actions.x]\n{action}"), here());
    assert!(refused.is_empty(), "{refused:?}");
    call(&registry, "x", arguments).await
}

/// Prints its arguments, each on its own line and in brackets.
const SHOW: &str = r#"
command = ["printf", "[%s]\\n", "a b", "{text}", ["--n", "{n}"], "{list}"]
output = "lines"
inputs.text = {}
inputs.n = { type = "integer" }
inputs.list = { type = "array" }
"#;

#[tokio::test]
async fn an_argument_is_one_item_and_never_reaches_a_shell() {
    let check = async |text: &str| {
        let outcome = call_one(SHOW, json!({ "text": text })).await;
        let printed: Vec<_> = outcome.values("output");
        let printed = printed.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n");
        assert_eq!(printed, format!("[a b]\n[{text}]"));
    };
    check("x; rm -rf /").await;
    check("$(touch /tmp/never) `id`").await;
    check("it's \"quoted\" \\").await;
    check("  two\nlines  ").await;
    check("*").await;
    check("").await;
    check("{n} {{}}").await;
    check("--option").await;
}

#[tokio::test]
async fn absent_arguments_leave_their_items_out_and_lists_become_items() {
    let check = async |arguments: Value, expected: Value| {
        assert_eq!(json!(call_one(SHOW, arguments).await.values("output")), expected);
    };
    check(json!({}), json!(["[a b]"])).await;
    check(json!({"n": 3}), json!(["[a b]", "[--n]", "[3]"])).await;
    check(
        json!({"list": ["x y", 1, {"k": [true]}]}),
        json!(["[a b]", "[x y]", "[1]", r#"[{"k":[true]}]"#,]),
    )
    .await;
    check(json!({"list": []}), json!(["[a b]"])).await;
}

#[tokio::test]
async fn stdin_is_all_arguments_as_json_or_one_as_it_is() {
    let json = r#"
        command = ["cat"]
        stdin = "json"
        output = "json"
        inputs.b = { type = "integer", default = 7 }
        inputs.a = {}
        inputs.c = { stream = true }
    "#;
    let outcome = call_one(json, json!({"a": "x\n", "c": ["1", "2"]})).await;
    assert_eq!(outcome.value("result").to_string(), r#"{"b":7,"a":"x\n","c":["1","2"]}"#);
    let raw = "command = ['wc', '-c']\nstdin = { argument = 'data' }\n\
               inputs.data = { media_type = 'application/pdf' }";
    let outcome = call_one(raw, json!({"data": "AAECAw=="})).await;
    assert_eq!(outcome.value("output"), "4");
}

#[tokio::test]
async fn a_child_that_reads_nothing_or_prints_much_holds_nothing_up() {
    let large = "x".repeat(3 * 1024 * 1024);
    let deaf = "command = ['true']\nstdin = { argument = 'text' }\ninputs.text = {}";
    assert_eq!(call_one(deaf, json!({"text": large})).await.value("output"), "");
    let echo = "command = ['cat']\nstdin = { argument = 'text' }\nmax_output_bytes = 4000000\n\
                inputs.text = {}";
    assert_eq!(call_one(echo, json!({"text": large})).await.value("output"), *large);
}

#[tokio::test]
async fn the_environment_is_the_basics_and_what_is_declared() {
    let environment = r#"
        command = ["env"]
        output = "lines"
        env = { GREETING = "hello {name}", MISSING = "{absent}" }
        arguments_as_env = true
        inputs.name = {}
        inputs.absent = {}
    "#;
    let outcome = call_one(environment, json!({"name": "you; $(me)"})).await;
    let lines = outcome.values("output");
    let has = |line: &str| lines.iter().any(|value| value == line);
    assert!(has("GREETING=hello you; $(me)") && has("name=you; $(me)"), "{lines:?}");
    let names =
        |name: &str| lines.iter().any(|line| line.as_str().is_some_and(|l| l.starts_with(name)));
    assert!(names("PATH="));
    assert!(!names("MISSING") && !names("absent"));
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some() && !names("CARGO_"), "{lines:?}");
    let nothing = "command = ['env']\ninherit_env = false";
    assert_eq!(call_one(nothing, json!({})).await.value("output"), "");
    let named = "command = ['env']\ninherit_env = ['CARGO_PKG_NAME']";
    assert_eq!(call_one(named, json!({})).await.value("output"), "CARGO_PKG_NAME=a11-grpc");
}

#[tokio::test]
async fn a_shell_gets_arguments_as_variables_only() {
    let shell = r#"
        shell = 'printf "%s|" "$text" {braces}; echo "$0"'
        inputs.text = {}
    "#;
    let outcome = call_one(shell, json!({"text": "'; exit 9 #"})).await;
    assert_eq!(outcome.value("output"), "'; exit 9 #|{braces}|x");
}

#[tokio::test]
async fn lines_come_while_the_process_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    let fifo = directory.path().join("go");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    assert!(made.success());
    let config = "[actions.x]\nshell = 'echo first; cat \"$fifo\"; printf last'\n\
                  output = 'lines'\ninputs.fifo = {}";
    let (registry, _) = registry_of(config, here());
    let mut run = start(&registry, "x", json!({"fifo": fifo}));
    assert_eq!(next_text(&mut run).await, "first");
    // Until this the process waits.
    tokio::task::spawn_blocking(move || std::fs::write(fifo, "second\r\n").expect("written"))
        .await
        .expect("no panic");
    let outcome = finish(run).await;
    assert_eq!(json!(outcome.values("output")), json!(["second", "last"]));
    assert!(outcome.log.contains("3 lines of output"), "{}", outcome.log);
}

/// Prints its own pid and that of a child which ignores SIGTERM, then waits.
const FAMILY: &str = r#"
shell = '''
(trap "" TERM; while :; do sleep 1000; done) &
echo "$$ $!"
wait
'''
output = "lines"
"#;

#[tokio::test]
async fn a_timeout_ends_the_whole_process_group() {
    let config = format!("[actions.x]\n{FAMILY}timeout = '2s'");
    let (registry, _) = registry_of(&config, here());
    let mut run = start(&registry, "x", json!({}));
    let pids = next_text(&mut run).await;
    finish(run).await.failed(Code::DeadlineExceeded, "did not end within 2s");
    for pid in pids.split(' ') {
        gone(pid).await;
    }
}

#[tokio::test]
async fn a_cancelled_call_ends_the_whole_process_group() {
    let (registry, _) = registry_of(&format!("[actions.x]\n{FAMILY}"), here());
    let mut run = start(&registry, "x", json!({}));
    let pids = next_text(&mut run).await;
    drop(run);
    for pid in pids.split(' ') {
        gone(pid).await;
    }
}

#[tokio::test]
async fn what_a_program_leaves_behind_neither_hangs_the_call_nor_stays() {
    let behind = "shell = 'sleep 1000 & echo $!'";
    let outcome = call_one(behind, json!({})).await;
    gone(outcome.value("output").as_str().expect("a pid")).await;
}

#[tokio::test]
async fn output_past_the_limit_stops_the_process() {
    let endless = "command = ['yes']\nmax_output_bytes = 100000";
    call_one(endless, json!({})).await.failed(Code::ResourceExhausted, "more than 100000 bytes");
    let just = "command = ['printf', '%05d', '0']\nmax_output_bytes = 5";
    assert_eq!(call_one(just, json!({})).await.value("output"), "00000");
}

#[tokio::test]
async fn a_failure_says_exit_status_and_the_end_of_stderr() {
    let failing = "shell = 'echo out; echo first >&2; echo no such order >&2; exit 3'";
    let outcome = call_one(failing, json!({})).await;
    outcome.failed(Code::Unknown, "exit status 3: first\nno such order");
    assert!(outcome.log.starts_with("first\nno such order\n"), "{}", outcome.log);
    let coded = format!("{failing}\nexit_codes = {{ 3 = 'NOT_FOUND' }}");
    call_one(&coded, json!({})).await.failed(Code::NotFound, "exit status 3");
    let killed = "shell = 'kill -9 $$'";
    call_one(killed, json!({})).await.failed(Code::Aborted, "killed by signal 9");
    let much = "shell = 'seq 1 100000 >&2; exit 1'";
    let outcome = call_one(much, json!({})).await;
    outcome.failed(Code::Unknown, "100000");
    assert!(outcome.status.message.len() < 3000);
    assert!(outcome.log.contains("200\n[the rest of stderr is not shown]\n"));
}

#[tokio::test]
async fn what_cannot_be_started_is_named() {
    let missing = "command = ['no-such-program-here']";
    call_one(missing, json!({})).await.failed(Code::FailedPrecondition, "no-such-program-here");
    let nowhere = "command = ['true']\nworking_directory = 'no/such/place'";
    call_one(nowhere, json!({})).await.failed(Code::FailedPrecondition, "no/such/place");
    let echo = "command = ['echo', '{text}']\ninputs.text = {}";
    call_one(echo, json!({"text": "a\0b"})).await.failed(Code::InvalidArgument, "NUL");
    let long = "x".repeat(3_000_000);
    call_one(echo, json!({ "text": long })).await.failed(Code::InvalidArgument, "too long");
}

#[tokio::test]
async fn json_output_is_the_whole_result_and_is_checked() {
    let print = |text: &str| {
        format!(
            "command = ['printf', '%s', '{text}']\noutput = 'json'\n\
             output_schema = {{ type = 'object', required = ['n'] }}"
        )
    };
    let outcome = call_one(&print(r#" {{"n": 1}} "#), json!({})).await;
    assert_eq!(outcome.value("result"), json!({"n": 1}));
    call_one(&print("{{"), json!({})).await.failed(Code::Internal, "not one JSON value");
    call_one(&print(""), json!({})).await.failed(Code::Internal, "not one JSON value");
    call_one(&print("1 2"), json!({})).await.failed(Code::Internal, "not one JSON value");
    call_one(&print("[]"), json!({})).await.failed(Code::Internal, "not the result declared");
}

#[test]
fn a_broken_action_is_refused_and_the_others_are_there() {
    let good = "[actions.good]\ncommand = ['true']\n";
    let check = |broken: &str, expected: &str| {
        let (registry, refused) = registry_of(&format!("{good}[actions.bad]\n{broken}"), here());
        let said: Vec<_> = refused.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 1, "{broken}: {said:?}");
        assert!(said[0].contains("action \"bad\"") && said[0].contains(expected), "{said:?}");
        assert!(registry.entry("good").is_some() && registry.entry("bad").is_none());
    };
    check("", "actions.toml:3: one of `command` and `shell`");
    check("command = ['a']\nshell = 'b'", "one of `command` and `shell`");
    check("comand = ['a']", "actions.toml:4: unknown field `comand`");
    check(
        "command = ['a']\ntimeout = 3",
        "actions.toml:5: timeout: invalid type: integer `3`, expected a time in quotes",
    );
    check("command = ['a']\ntimeout = '3'", "not a time such as");
    check("command = ['a', '{nope}']", "command[1]: there is no input \"nope\"");
    check("command = ['a']\nenv = { X = '{nope}' }", "env.X: there is no input \"nope\"");
    check("command = ['a', '{print $1}']", "written `{{`");
    check("command = ['{p}']\ninputs.p = {}", "the first item of `command`");
    check("command = []", "the first item of `command`");
    check("command = ['a']\nstdin = { argument = 'x' }", "stdin: there is no input \"x\"");
    check("command = ['a']\nstdin = 'xml'", "actions.toml:5: stdin: \"none\", \"json\"");
    check("command = ['a']\ninputs.x = { type = 'int' }", "there are string, integer, number");
    check("command = 'ls -l'", "a list of the program and its arguments");
    check("command = ['a']\ninputs.x = { typ = 'string' }", "unknown field `typ`");
    check("command = ['a']\ninputs.x = { type = 'integer', default = 'y' }", "does not fit");
    check("command = ['a']\ninputs.x = { required = true, default = 'y' }", "not required");
    check("command = ['a', '{x}']\ninputs.x = { media_type = 'image/png' }", "is bytes");
    check("command = ['a']\ninputs.x = {}", "input \"x\" goes nowhere: put {x} into `command`");
    check("shell = 'a'\ninputs.PATH = {}", "belong to the system");
    check("shell = 'echo ${x} {x}'\ninputs.x = {}", "the input is the variable \"$x\"");
    let schema_of_bytes = "inputs.x = { media_type = 'image/png', schema = { type = 'string' } }";
    check(&format!("shell = 'a'\n{schema_of_bytes}"), "has no schema");
    check("command = ['a']\nexit_codes = { 0 = 'NOT_FOUND' }", "exit_codes");
    check("command = ['a']\noutput_schema = {}", "output_schema is for");
}

#[test]
fn a_broken_file_is_refused_with_its_line() {
    let check = |text: &str, expected: &str| {
        let error = Config::parse(text, Path::new("actions.toml"), here()).expect_err(text);
        assert!(error.to_string().contains(expected), "{error}");
    };
    check("\n[actions", "actions.toml:2");
    check("[actions.a]\n[actions.a]", "actions.toml:2: [actions.a]: duplicate key");
    check("[action.x]", "no section `action`");
    check("actions = 3", "`actions` is a table");
    check("[builtin]\nshell = true", "actions.toml:2: unknown field `shell`");
    check("[builtin]\nhttp_fetch = { max = 3 }", "unknown field `max`");
    check("[builtin]\nhttp_fetch = { allow_private = ['a b'] }", "\"a b\" is not a CIDR");
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let (registry, refused) = registry_of("[actions.http_fetch]\ncommand = ['true']", here());
    let said = refused[0].to_string();
    assert!(said.contains(":1: ") && said.contains("registered already"), "{said}");
    assert!(said.contains("`http_fetch = false` under [builtin]"), "{said}");
    assert!(registry.entry("http_fetch").is_some() && registry.entry("shell_execute").is_none());
    let (registry, refused) =
        registry_of("[builtin]\nhttp_fetch = false\nshell_execute = true", here());
    assert!(refused.is_empty());
    assert!(registry.entry("http_fetch").is_none() && registry.entry("shell_execute").is_some());
}

#[tokio::test]
async fn the_example_config_works() {
    let registry = std::sync::Arc::new(Registry::new());
    let config = Config::load(&here().join("examples/actions.toml")).expect("a config");
    assert!(register(&registry, config).is_empty());
    let counted = call(&registry, "word_count", json!({"text": "one two\nthree"})).await;
    assert_eq!(counted.value("result")["words"], 3);
    let shipped = call(&registry, "order_status", json!({"order_id": "A-1001"})).await;
    assert!(shipped.value("output").as_str().is_some_and(|text| text.contains("shipped")));
    let missing = call(&registry, "order_status", json!({"order_id": "A-404"})).await;
    missing.failed(Code::NotFound, "exit status 1: no order A-404");
    let usage = call(&registry, "disk_usage", json!({})).await;
    assert_eq!(usage.values("output").len(), 2, "{usage:?}");
    let none = call(&registry, "disk_usage", json!({"path": "--help"})).await;
    assert!(!none.status.is_ok());
}

//! The program as its users run it: its commands, what they print, and their
//! exit codes, against a server of this test and in process.

#![allow(clippy::unwrap_used)]

#[path = "support/program.rs"]
mod program;

use std::{sync::Arc, time::Duration};

use a11_grpc::{
    action::{ActionSchema, Context, Port, Registry, handler, tool_name},
    client::Peer,
    serve::{Options, Server},
    wire::{Chunk, Code, Status},
};
use program::{Ran, run, run_with};
use serde_json::Value;
use tempfile::NamedTempFile;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tonic::transport::Endpoint;

/// A server of this test's own actions; its address.
async fn server() -> String {
    let server = Server::bind(Options::new("127.0.0.1:0", registry())).await.unwrap();
    let address = server.address().to_string();
    tokio::spawn(server.run(std::future::pending()));
    address
}

fn registry() -> Arc<Registry> {
    let registry = Registry::new();
    let echo = ActionSchema::builder("echo")
        .describe("Says the text again.\nSecond line.")
        .input(Port::text("text").required())
        .output(Port::text("said").required())
        .build();
    registry
        .register(
            echo,
            handler(|context: Context| async move {
                context.log("about to speak\n");
                let text: String = context.read("text").await?;
                context.write("said", &text).await
            }),
        )
        .unwrap();
    let add = ActionSchema::builder("add")
        .input(Port::json("numbers").stream())
        .output(Port::json("sum").required())
        .output(Port::json("count").required())
        .build();
    registry
        .register(
            add,
            handler(|context: Context| async move {
                let reader = context.read_stream::<i64>("numbers")?;
                let numbers: Vec<i64> = futures::TryStreamExt::try_collect(reader).await?;
                context.write("sum", &numbers.iter().sum::<i64>()).await?;
                context.write("count", &numbers.len()).await
            }),
        )
        .unwrap();
    let spell = ActionSchema::builder("spell")
        .input(Port::text("text").required())
        .output(Port::text("letters").stream())
        .build();
    registry
        .register(
            spell,
            handler(|context: Context| async move {
                let text: String = context.read("text").await?;
                for letter in text.chars() {
                    context.write("letters", &letter).await?;
                }
                Ok(())
            }),
        )
        .unwrap();
    let copy = ActionSchema::builder("copy")
        .input(Port::of("bytes", "application/pdf").required())
        .output(Port::of("copy", "application/pdf").required())
        .build();
    registry
        .register(
            copy,
            handler(|context: Context| async move {
                let chunk = context.read_chunk("bytes").await?.unwrap_or_else(Chunk::null);
                context.write_chunk("copy", chunk).await
            }),
        )
        .unwrap();
    let order_status = ActionSchema::builder("order_status")
        .input(Port::text("order").required())
        .output(Port::text("status").required())
        .build();
    registry
        .register(
            order_status,
            handler(|_: Context| async move {
                Err(Status::handler(Code::NotFound, "no order \x1b[31mA-1"))
            }),
        )
        .unwrap();
    let wait = ActionSchema::builder("wait").output(Port::text("never")).build();
    registry
        .register(wait, handler(|_: Context| std::future::pending::<Result<(), Status>>()))
        .unwrap();
    for name in ["elsewhere", "else#where"] {
        registry.declare(ActionSchema::builder(name).build()).unwrap();
    }
    Arc::new(registry)
}

/// A file with that content.
fn file(content: impl AsRef<[u8]>) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content).unwrap();
    file
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A Claude reply with two calls, of which the second fails.
const CLAUDE_REPLY: &str = r#"{
  "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x",
  "stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 1},
  "content": [
    {"type": "text", "text": "Let me see."},
    {"type": "tool_use", "id": "toolu_1", "name": "echo", "input": {"text": "hi"}},
    {"type": "tool_use", "id": "toolu_2", "name": "order_status", "input": {"order": "A-1"}}
  ]
}"#;

#[tokio::test]
async fn every_command_has_help_with_an_example() {
    let check = async |command: &[&str]| {
        let Ran { code, stdout, .. } = run(&[command, &["--help"]].concat()).await;
        assert_eq!(code, 0, "{command:?}");
        assert!(stdout.contains("a11-grpc "), "{command:?}: {stdout}");
        assert!(stdout.contains("Examples:"), "{command:?}: {stdout}");
    };
    check(&[]).await;
    check(&["serve"]).await;
    check(&["execute"]).await;
    check(&["actions"]).await;
    check(&["call"]).await;
    check(&["interaction", "validate"]).await;
    check(&["interaction", "convert"]).await;
    check(&["completions"]).await;
    assert!(run(&["--help"]).await.stdout.contains("Exit codes:"));
}

#[tokio::test]
async fn unusable_input_ends_with_2_and_says_what_is_wrong() {
    let address = server().await;
    let check = async |args: &[&str], said: &str| {
        let ran = run(args).await;
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(said), "{args:?}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{args:?}");
    };
    check(&["--frobnicate"], "--frobnicate").await;
    check(&["execute"], "FILE").await;
    check(&["execute", "/nowhere/at/all.json"], "/nowhere/at/all.json").await;
    check(&["execute", "x", "--deadline", "soon"], "30s").await;
    check(&["execute", "x", "--backend", "eliza"], "claude").await;
    check(&["execute", "x", "--server", "a:1", "--config", "b"], "cannot be used with").await;
    check(&["actions", "--server", "ftp://x:1"], "ftp").await;
    check(&["actions", "--server", "nowhere"], "no port").await;
    check(&["actions", "--config", "/nowhere/at/all.toml"], "/nowhere/at/all.toml").await;
    check(&["actions", "--server", &address, "("], "INVALID_ARGUMENT").await;
    check(&["actions", "--log", "a=b=c"], "--log").await;
    check(&["call", "absent", "--server", &address], "no action \"absent\"").await;
    check(&["call", "echo", "--server", &address, "--arg", "txt=1"], "it takes: text").await;
    check(&["call", "echo", "--server", &address, "--args", "[]"], "JSON object").await;
    check(&["call", "echo", "--server", &address, "--args", r#"{"text":1}"#], "text").await;
    check(&["call", "elsewhere", "--server", &address], "elsewhere").await;
    check(&["actions", "--server", &address, "nosuch"], "no action matches nosuch").await;
    check(&["serve", "--listen", "50051"], "write HOST:PORT").await;
    check(&["serve", "--listen", ":50051"], "write HOST:PORT").await;
    check(&["serve", "--tls-cert", "x"], "--tls-key").await;
    check(&["serve", "--max-connections", "0"], "above 0").await;
    check(&["serve", "--allow-origin", "x"], "origin").await;
}

#[tokio::test]
async fn no_server_ends_with_3_and_names_it() {
    // Bound and dropped, so that nobody listens there.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ran = run(&["actions", "--server", &free.to_string()]).await;
    assert_eq!(ran.code, 3);
    assert!(ran.stderr.contains(&free.to_string()), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint:"), "{}", ran.stderr);

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = run(&["serve", "--listen", &address]).await;
    assert_eq!(ran.code, 3);
    assert!(ran.stderr.contains(&address), "{}", ran.stderr);
}

#[tokio::test]
async fn actions_are_listed_for_people_and_for_machines() {
    let address = server().await;
    let args = ["actions", "--server", &address];
    let table = run(&args).await.stdout;
    assert!(table.starts_with("NAME"), "{table}");
    assert!(table.contains("text → said") && !table.contains("RUN BY"), "{table}");
    assert!(table.contains("[numbers…] → sum count"), "{table}");
    assert!(table.contains("Says the text again.\n"), "{table}");
    assert!(!table.contains("elsewhere"), "{table}");
    let all = run(&[&args[..], &["--all"]].concat()).await.stdout;
    assert!(all.contains("elsewhere"), "{all}");

    let long = run(&[&args[..], &["--long", "ec.*"]].concat()).await.stdout;
    assert!(long.contains("takes text (text, required)"), "{long}");
    assert!(!long.contains("add"), "{long}");

    let document = json(&run(&[&args[..], &["--json"]].concat()).await.stdout);
    assert_eq!(document["format"], "a11.actions/v1");
    assert_eq!(document["actions"][0]["name"], "add");
}

#[tokio::test]
async fn who_runs_an_action_elsewhere_is_listed() {
    let address = server().await;
    let hosted = Registry::new();
    let far = ActionSchema::builder("far").describe("Runs there.").build();
    hosted.register(far, handler(|_: Context| async { Ok(()) })).unwrap();
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy();
    let peer = Peer::host(Arc::new(hosted)).named("work\ner").connect(channel).await.unwrap();
    let session = peer.session().id()[..8].to_owned();

    let args = ["actions", "--server", &address];
    let table = run(&args).await.stdout;
    assert!(table.lines().next().is_some_and(|line| line.contains("  RUN BY  ")), "{table}");
    assert!(table.contains("  work er  Runs there.\n"), "{table}");
    let long = run(&[&args[..], &["--long", "far"]].concat()).await.stdout;
    assert!(long.contains(&format!("run by peer work er, session {session}\n")), "{long}");
    let document = json(&run(&[&args[..], &["--json", "far"]].concat()).await.stdout);
    let hosts = serde_json::json!([{"peer": "work\ner", "session": session}]);
    assert_eq!(document["actions"][0]["hosts"], hosts);
}

#[tokio::test]
async fn actions_are_printed_as_the_tools_of_a_provider() {
    let address = server().await;
    let place = ["actions", "--server", &address];
    let printed = async |arguments: &[&str]| {
        let ran = run(&[&place[..], arguments].concat()).await;
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        json(&ran.stdout)
    };
    let schema = serde_json::json!(
        {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    let said = "Says the text again.\nSecond line.";
    assert_eq!(
        printed(&["--tools", "claude", "echo"]).await,
        serde_json::json!([{"name": "echo", "description": said, "input_schema": schema}])
    );
    assert_eq!(
        printed(&["--tools", "openai", "--dialect", "responses", "echo"]).await,
        serde_json::json!([{"type": "function", "name": "echo", "description": said,
                            "parameters": schema, "strict": false}])
    );
    // Without a pattern all that run, as in the other forms.
    let all = printed(&["--tools", "ollama"]).await;
    let listed = printed(&["--json"]).await;
    assert_eq!(
        all.as_array().map(Vec::len),
        listed["actions"].as_array().map(Vec::len),
        "{all} {listed}"
    );

    let here = run(&["actions", "--tools", "gemini", "http_.*"]).await;
    assert_eq!(json(&here.stdout)[0]["name"], "http_fetch", "{}", here.stderr);

    let refused = async |arguments: &[&str], says: &str| {
        let ran = run(&[&place[..], arguments].concat()).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
    };
    refused(&["--tools", "bard"], "claude_code").await;
    refused(&["--tools", "claude", "--dialect", "chat"], "dialect: ").await;
    refused(&["--tools", "claude", "("], "unclosed group").await;
    refused(&["--tools", "claude", "nothing"], "no action matches nothing").await;
    refused(&["--tools", "claude", "--mcp"], "cannot be used with").await;
    refused(&["--dialect", "chat"], "--tools").await;
}

#[tokio::test]
async fn without_a_server_actions_run_in_process() {
    let ran = run(&["actions", "--json"]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(json(&ran.stdout)["format"], "a11.actions/v1");
    assert_eq!(run(&["call", "absent"]).await.code, 2);
}

#[tokio::test]
async fn a_call_prints_what_the_action_gives() {
    let address = server().await;
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let large = file(&bytes);
    let text = file("from a file");
    let at = |file: &NamedTempFile, port: &str| format!("{port}=@{}", file.path().display());
    let check = async |args: &[&str], expected: &[u8]| {
        let ran = run(&[&["call", "--server", &address], args].concat()).await;
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
        assert!(ran.stdout_bytes == expected, "{args:?}: {:.300}", ran.stdout);
    };
    check(&["echo", "--arg", "text=5"], b"5\n").await;
    check(&["echo", "--arg", &at(&text, "text")], b"from a file\n").await;
    check(&["echo", "--args", r#"{"text": "two\nlines\n"}"#], b"two\nlines\n").await;
    check(&["spell", "--arg", "text=abc"], b"a\nb\nc\n").await;
    check(
        &["add", "--arg", "numbers=40", "--arg", "numbers=2"],
        b"{\n  \"sum\": 42,\n  \"count\": 2\n}\n",
    )
    .await;
    check(&["add", "--args", r#"{"numbers": [1]}"#], b"{\n  \"sum\": 1,\n  \"count\": 1\n}\n")
        .await;
    check(&["copy", "--arg", &at(&large, "bytes")], &bytes).await;
}

#[tokio::test]
async fn an_action_is_called_by_its_tool_name_too() {
    let config = file("[actions.\"say#hello\"]\ncommand = [\"echo\", \"hello\"]\n");
    let config = config.path().to_str().unwrap();
    for name in ["say#hello", &tool_name("say#hello")] {
        let ran = run(&["call", name, "--config", config, "--json"]).await;
        assert_eq!(ran.code, 0, "{name}: {}", ran.stderr);
        assert_eq!(json(&ran.stdout)["action"], "say#hello");
    }
}

#[tokio::test]
async fn a_call_reads_standard_input_and_writes_a_file() {
    let address = server().await;
    let out = NamedTempFile::new().unwrap();
    let path = out.path().to_str().unwrap();
    let args = ["call", "echo", "--server", &address, "--arg", "text=-", "--output", path];
    let ran = run_with(&args, "piped").await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(path).unwrap(), "piped");
    assert_eq!(ran.stderr, "about to speak\n");
    assert_eq!(run_with(&[&args[..], &["--quiet"]].concat(), "piped").await.stderr, "");
}

#[tokio::test]
async fn a_failed_call_ends_with_1_and_its_status() {
    let address = server().await;
    let args = ["call", "order_status", "--server", &address, "--arg", "order=A-1"];
    let ran = run(&args).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert_eq!(ran.stderr, "✗ order_status NOT_FOUND: no order \u{fffd}[31mA-1\n");

    let ran = run(&[&args[..], &["--json"]].concat()).await;
    assert_eq!(ran.code, 1);
    assert_eq!(json(&ran.stdout)["status"]["code"], "NOT_FOUND");

    let ran = run(&["call", "wait", "--server", &address, "--timeout", "50ms", "--json"]).await;
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert_eq!(json(&ran.stdout)["status"]["code"], "DEADLINE_EXCEEDED");
}

#[tokio::test]
async fn a_call_as_json_has_status_result_and_log() {
    let address = server().await;
    let ran = run(&["call", "echo", "--server", &address, "--arg", "text=x", "--json"]).await;
    let expected = r#"{"action":"echo","status":{"code":"OK"},"result":{"said":"x"},
        "log":"about to speak\n"}"#;
    assert_eq!(json(&ran.stdout), json(expected));
}

#[tokio::test]
async fn execute_prints_the_messages_to_append_and_a_line_a_call() {
    let address = server().await;
    let reply = file(CLAUDE_REPLY);
    let path = reply.path().to_str().unwrap();
    let args = ["execute", path, "--server", &address, "--allow", "echo|order_.*"];
    let ran = run(&[&args[..], &["--print", "messages"]].concat()).await;
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let messages = json(&ran.stdout);
    let results = messages[0]["content"].as_array().unwrap();
    assert_eq!(results[0]["tool_use_id"], "toolu_1");
    assert_eq!(results[1]["is_error"], true);
    assert!(ran.stderr.contains("✓ echo toolu_1 "), "{}", ran.stderr);
    assert!(ran.stderr.contains("✗ order_status toolu_2 NOT_FOUND: no order"), "{}", ran.stderr);
    assert!(ran.stderr.contains("  echo: about to speak\n"), "{}", ran.stderr);
    assert!(!ran.stderr.contains('\x1b'), "{}", ran.stderr);

    let portable = json(&run(&args).await.stdout);
    assert!(
        portable["action_outputs"]["toolu_1"].is_array()
            || portable["action_outputs"]["toolu_1"].is_object()
    );
    let proto = json(&run(&[&args[..], &["--form", "proto"]].concat()).await.stdout);
    assert!(proto["actionOutputs"]["toolu_1"].is_object());

    let lines = run(&[&args[..], &["--print", "results"]].concat()).await.stdout;
    assert_eq!(lines.lines().count(), 2, "{lines}");
    let results =
        json(&run(&[&args[..], &["--print", "results", "--json", "-q"]].concat()).await.stdout);
    assert_eq!(results[1]["status"]["code"], "NOT_FOUND");
}

#[tokio::test]
async fn execute_runs_several_turns_one_after_the_other() {
    let address = server().await;
    let (first, second) = (file(CLAUDE_REPLY), file(CLAUDE_REPLY.replace("order_status", "echo")));
    let [first, second] = [&first, &second].map(|file| file.path().to_str().unwrap());
    let args = ["--server", &address, "--allow", ".*", "--print", "results"];
    let ran = run(&[&["execute", first, second], &args[..]].concat()).await;
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert_eq!(ran.stdout.matches("✓ echo toolu_1").count(), 2, "{}", ran.stdout);
    let (one, two) = (ran.stderr.find(first), ran.stderr.find(second));
    assert!(one.is_some() && one < two, "{}", ran.stderr);

    let (empty, other) = (file(" \n"), file("{\"weather\": \"fine\"}"));
    let [empty, other] = [&empty, &other].map(|file| file.path().to_str().unwrap());
    for unusable in ["/nowhere/at/all", empty, other] {
        let ran = run(&[&["execute", first, unusable], &args[..]].concat()).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(unusable), "{}", ran.stderr);
        assert!(!ran.stderr.contains("echo"), "{}", ran.stderr);
    }

    let ran = run(&[&["execute", first, "--backend", "openai"], &args[..]].concat()).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("gpt was asked for, but the reply is claude's"), "{}", ran.stderr);
    let ran = run(&[&["execute", first, "--backend", "anthropic"], &args[..]].concat()).await;
    assert_eq!(ran.code, 1, "{}", ran.stderr);
}

#[tokio::test]
async fn execute_says_how_to_allow_what_was_denied() {
    let address = server().await;
    let ran = run_with(&["execute", "-", "--server", &address], CLAUDE_REPLY).await;
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("--allow 'echo|order_status'"), "{}", ran.stderr);

    // What the model was told under another name is allowed by its own.
    let reply = CLAUDE_REPLY.replace("\"echo\"", &format!("{:?}", tool_name("else#where")));
    let ran = run_with(&["execute", "-", "--server", &address], &reply).await;
    assert!(ran.stderr.contains("--allow 'else#where|order_status'"), "{}", ran.stderr);
}

#[tokio::test]
async fn execute_ends_calls_at_the_deadline() {
    let address = server().await;
    let reply = CLAUDE_REPLY.replace("order_status", "wait").replace(r#"{"order": "A-1"}"#, "{}");
    let args = ["execute", "-", "--server", &address, "--allow", ".*", "--deadline", "300ms"];
    let ran = run_with(&[&args[..], &["--print", "results"]].concat(), &reply).await;
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stdout.contains("✓ echo"), "{}", ran.stdout);
    assert!(ran.stdout.contains("✗ wait toolu_2 DEADLINE_EXCEEDED"), "{}", ran.stdout);
}

#[tokio::test]
async fn execute_refuses_what_is_no_reply() {
    let check = async |input: &str| {
        let ran = run_with(&["execute", "-", "--allow", ".*"], input).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{input}: {}", ran.stderr);
        assert!(ran.stderr.contains("standard input"), "{input}: {}", ran.stderr);
    };
    check("").await;
    check("{").await;
    check("[1]").await;
    check(r#"{"weather": "fine"}"#).await;
}

const INTERACTION: &str = r#"{"id": "turn-1", "role": "model",
    "action_calls": [{"id": "call-1", "name": "echo"}]}"#;

#[tokio::test]
async fn an_interaction_survives_every_form() {
    let original = file(INTERACTION);
    let mut path = original.path().to_owned();
    let out = tempfile::tempdir().unwrap();
    for form in ["proto-json", "protobuf", "portable", "protobuf", "proto-json", "portable"] {
        let next = out.path().join(format!("next-{form}"));
        let (from, to) = (path.to_str().unwrap(), next.to_str().unwrap());
        let ran = run(&["interaction", "convert", from, "--to", form, "--output", to]).await;
        assert_eq!(ran.code, 0, "{form}: {}", ran.stderr);
        path = out.path().join("current");
        std::fs::rename(next, &path).unwrap();
    }
    let first = run_with(&["interaction", "convert", "-", "--to", "portable"], INTERACTION).await;
    assert_eq!(std::fs::read_to_string(path).unwrap(), first.stdout);
    assert_eq!(json(&first.stdout)["action_calls"][0]["name"], "echo");
}

#[tokio::test]
async fn an_interaction_is_judged_with_its_fields() {
    let check = async |input: &str, code: i32, said: &str| {
        let ran = run_with(&["interaction", "validate", "-"], input).await;
        assert_eq!(ran.code, code, "{input}: {} {}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains(said) || ran.stderr.contains(said), "{}", ran.stdout);
    };
    check(INTERACTION, 0, "valid (portable)").await;
    check(r#"{"id": "x", "actionCalls": []}"#, 0, "valid (proto-json)").await;
    check(r#"{"id": 7, "action_calls": []}"#, 2, "id: ").await;
    check("{", 2, "not JSON").await;
    check("", 2, "not JSON").await;
    check(CLAUDE_REPLY, 2, "a11-grpc execute").await;

    for input in ["{", CLAUDE_REPLY] {
        let ran = run_with(&["interaction", "validate", "-", "--json"], input).await;
        assert_eq!((ran.code, &json(&ran.stdout)["valid"]), (2, &Value::Bool(false)));
    }
}

#[tokio::test]
async fn completions_know_the_commands() {
    let ran = run(&["completions", "bash"]).await;
    assert_eq!(ran.code, 0);
    assert!(ran.stdout.contains("execute"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_reader_who_leaves_is_no_failure() {
    let mut child = program::command(&["completions", "zsh"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let status = tokio::time::timeout(Duration::from_secs(20), child.wait()).await.unwrap();
    assert_eq!(status.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_name_that_is_no_action_comes_with_the_one_it_is_like() {
    let address = server().await;
    let check = async |name: &str, hint: &str| {
        let ran = run(&["call", name, "--server", &address]).await;
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert_eq!(ran.stderr, format!("error: there is no action {name:?}\nhint: {hint}\n"));
    };
    check("ecko", "did you mean \"echo\"?").await;
    check("spel", "did you mean \"spell\"?").await;
    check("zzz", "`a11-grpc actions` lists those there are").await;
}

#[tokio::test]
async fn a_flag_that_was_meant_otherwise_says_how() {
    let check = async |args: &[&str], expected: &str| {
        let ran = run(args).await;
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    };
    check(&["call", "echo"], "hint: only the built-in actions").await;
    check(&["call", "echo"], "--server URL or --config FILE").await;
    let near = ["call", "http_fetsh"];
    check(&near, "did you mean \"http_fetch\"?").await;
    let nowhere = ["serve", "--listen", "127.0.0.1:0", "--store", ":memory:"];
    check(&nowhere, "--store: \":memory:\" would keep nothing").await;
    let server = ["serve", "--mcp-server", "127.0.0.1:8013/mcp"];
    check(&server, "did you mean http://127.0.0.1:8013/mcp?").await;
}

#[tokio::test]
async fn a_server_that_is_not_grpc_is_doubted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // What web servers say to the first bytes of HTTP/2.
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let _ = connection.read(&mut [0; 1024]).await;
            let _ = connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            let _ = connection.read_to_end(&mut vec![]).await;
        }
    });
    let ran = run(&["call", "echo", "--server", &address]).await;
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("does a gRPC server run there?"), "{}", ran.stderr);
}

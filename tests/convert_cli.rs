//! `a11-grpc interaction convert --to PROVIDER`: a kept conversation as the exact
//! messages the next provider is sent, and what it cannot be sent on standard error.

#![allow(missing_docs)]

use std::{path::Path, process::Command};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

struct Ended {
    output: String,
    error: String,
    code: Option<i32>,
}

fn run(folder: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_a11-grpc"));
    for variable in ["A11_SERVER_URL", "A11_STORE", "A11_CONFIG", "A11_LOG"] {
        command.env_remove(variable);
    }
    let ended = command.current_dir(folder).args(arguments).output().expect("runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ended { output: text(ended.stdout), error: text(ended.stderr), code: ended.status.code() }
}

/// A turn as a line, tagged with who produced it.
fn line(id: &str, role: &str, backend: &str, message: &Value) -> String {
    let media_type = if backend.is_empty() { "text/plain" } else { "application/json" };
    let data = match message {
        Value::String(text) => text.clone(),
        message => message.to_string(),
    };
    let metadata = match backend {
        "" => json!({}),
        backend => json!({"backend": BASE64_STANDARD.encode(backend)}),
    };
    let turn = json!({
        "id": id, "role": role, "backend_specific_metadata": metadata,
        "content": [{"data": BASE64_STANDARD.encode(data), "metadata": {"mimetype": media_type}}],
    });
    turn.to_string() + "\n"
}

/// A question, Claude's call with signed reasoning, its result, and Gemini's answer.
fn lines() -> String {
    let calling = json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "tool_use", "id": "functions.count:0", "name": "count", "input": {"of": "apples"}},
    ]});
    let result = json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "functions.count:0", "content": "12"},
    ]});
    let answer = json!({"steps": [
        {"type": "model_output", "content": [{"type": "text", "text": "Twelve."}]},
    ]});
    [
        line("1", "user", "", &"How many?".into()),
        line("2", "model", "claude", &calling),
        line("3", "user", "claude", &result),
        line("4", "model", "gemini", &answer),
    ]
    .concat()
}

/// What `functions.count:0` becomes, the same for all.
const ID: &str = "functions_count_0-f9fea8ad";

#[test]
fn a_kept_conversation_is_written_for_any_provider() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("in.jsonl"), lines()).expect("written");
    let store = ["--store", "store.db"];
    let done = |arguments: &[&str]| {
        let ended = run(folder.path(), arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.error);
        ended
    };
    done(&[&["conversation", "import", "c", "in.jsonl"], &store[..]].concat());
    done(&[&["conversation", "export", "c", "-o", "out.jsonl"], &store[..]].concat());
    let check = |to: &str, expected: Value, error: &str| {
        let convert = ["interaction", "convert", "--to", to];
        for from in [&["--conversation", "c", "--store", "store.db"][..], &["out.jsonl"]] {
            let ended = done(&[&convert, from].concat());
            let messages: Value = serde_json::from_str(&ended.output).expect("JSON");
            assert_eq!(messages, expected, "{to} {from:?}");
            assert_eq!(ended.error, error, "{to} {from:?}");
        }
    };
    let dropped = "dropped: reasoning (2): only the provider that made it understands it\n";
    let claude = json!([
        {"role": "user", "content": "How many?"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "tool_use", "id": ID, "name": "count",
             "input": {"of": "apples"}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": ID, "content": "12"},
        ]},
        {"role": "assistant", "content": [{"type": "text", "text": "Twelve."}]},
    ]);
    check("claude", claude.clone(), "");
    check("anthropic", claude, "");
    let gpt = json!([
        {"role": "user", "content": "How many?"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": ID, "type": "function",
             "function": {"name": "count", "arguments": "{\"of\":\"apples\"}"}},
        ]},
        {"role": "tool", "tool_call_id": ID, "content": "12"},
        {"role": "assistant", "content": "Twelve."},
    ]);
    check("gpt", gpt.clone(), dropped);
    check("openai", gpt, dropped);
    let gemini = json!([
        {"type": "user_input", "content": [{"type": "text", "text": "How many?"}]},
        {"type": "function_call", "id": ID, "name": "count", "arguments": {"of": "apples"}},
        {"type": "function_result", "call_id": ID, "result": [{"type": "text", "text": "12"}]},
        {"type": "model_output", "content": [{"type": "text", "text": "Twelve."}]},
    ]);
    check("google", gemini, dropped);
}

#[test]
fn what_cannot_be_converted_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("in.jsonl"), lines()).expect("written");
    std::fs::write(folder.path().join("bad.jsonl"), lines() + "{\"id\":\n").expect("written");
    let check = |arguments: &[&str], expected: &str| {
        let ended = run(folder.path(), &[&["interaction", "convert"], arguments].concat());
        assert_eq!((ended.code, ended.output.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ended.error.contains(expected), "{arguments:?}: {}", ended.error);
    };
    check(&["--to", "mistral", "in.jsonl"], "gpt (openai)");
    check(&["--to", "claude"], "FILE");
    check(&["--to", "portable", "in.jsonl"], "give one");
    check(&["--to", "claude", "bad.jsonl"], "bad.jsonl: not JSON");
    check(&["--to", "portable", "--conversation", "c", "--store", "s.db"], "for a provider");
    check(&["--to", "claude", "--conversation", "c", "--store", "s.db"], "there is no \"s.db\"");
    let made = run(folder.path(), &["conversation", "import", "d", "in.jsonl", "--store", "s.db"]);
    assert_eq!(made.code, Some(0), "{}", made.error);
    check(&["--to", "claude", "--conversation", "c", "--store", "s.db"], "no conversation \"c\"");
    check(&["--to", "claude", "--conversation", "c"], "--store PLACE");
}

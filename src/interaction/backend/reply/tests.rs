//! Replies of every shape, whole and in part, and what is no reply.

use Dialect::*;

use super::*;

fn read(json: &str, hint: Option<Backend>) -> Result<Reply, ReplyError> {
    read_reply(json.as_bytes(), hint)
}

/// `id name {argument names}` of each call.
fn summary(reply: &Reply) -> Vec<String> {
    let of = |call: &ReplyCall| {
        let arguments = match &call.arguments {
            Ok(arguments) => arguments.iter().map(|(name, _)| name.to_owned()).collect(),
            Err(_) => vec!["!".to_owned()],
        };
        format!("{} {} {}", call.id.as_deref().unwrap_or("-"), call.name, arguments.join(","))
    };
    reply.calls.iter().map(of).collect()
}

#[test]
fn the_shape_decides_the_dialect_and_what_is_left_out_does_not_matter() {
    let check = |json: &str, dialect: Dialect, calls: &[&str]| {
        let reply = read(json, None).unwrap_or_else(|error| panic!("{json}: {error}"));
        assert_eq!(
            (reply.dialect, &summary(&reply)[..]),
            (dialect, &calls.iter().map(ToString::to_string).collect::<Vec<_>>()[..]),
            "{json}"
        );
    };
    let tool_use = r#"[{"type":"text","text":"hm"},{"type":"tool_use","id":"tu_1","name":"f","input":{"q":1}}]"#;
    check(tool_use, Claude, &["tu_1 f q"]);
    check(&format!(r#"{{"role":"assistant","content":{tool_use}}}"#), Claude, &["tu_1 f q"]);
    check(
        &format!(
            r#"{{"type":"message","role":"assistant","content":{tool_use},"stop_reason":"tool_use"}}"#
        ),
        Claude,
        &["tu_1 f q"],
    );
    check(
        &format!(
            r#"{{"messages":[{{"role":"user","content":"x"}},{{"role":"assistant","content":{tool_use}}}]}}"#
        ),
        Claude,
        &["tu_1 f q"],
    );
    check(
        &format!(
            r#"{{"type":"assistant","message":{{"role":"assistant","content":{tool_use}}},"session_id":"s"}}"#
        ),
        ClaudeCode,
        &["tu_1 f q"],
    );
    check(r#"{"type":"tool_use","id":"tu_1","name":"f","input":{}}"#, Claude, &["tu_1 f "]);
    check(r#"[{"id":"tu_1","name":"f","input":{"q":1}}]"#, Claude, &["tu_1 f q"]);
    check(r#"[{"type":"server_tool_use","id":"s","name":"web_search","input":{}}]"#, Claude, &[]);
    check(
        r#"{"type":"message","role":"assistant","content":[],"stop_reason":"end_turn"}"#,
        Claude,
        &[],
    );

    let calls = r#"[{"id":"functions.f:0","type":"function","function":{"name":"f","arguments":"{\"q\":1}"}}]"#;
    let message = format!(
        r#"{{"role":"assistant","content":null,"tool_calls":{calls},"function_call":null}}"#
    );
    check(
        &format!(
            r#"{{"object":"chat.completion","choices":[{{"index":0,"message":{message}}},{{"index":1,"message":{message}}}]}}"#
        ),
        GptChat,
        &["functions.f:0 f q"],
    );
    check(&message, GptChat, &["functions.f:0 f q"]);
    check(&format!(r#"{{"messages":[{message}]}}"#), GptChat, &["functions.f:0 f q"]);
    check(
        &format!(r#"{{"index":0,"finish_reason":"tool_calls","message":{message}}}"#),
        GptChat,
        &["functions.f:0 f q"],
    );
    check(calls, GptChat, &["functions.f:0 f q"]);
    check(
        r#"{"role":"assistant","function_call":{"name":"f","arguments":"{\"q\":1}"}}"#,
        GptFunctions,
        &["- f q"],
    );
    check(
        r#"{"choices":[{"message":{"role":"assistant","content":"Done.","tool_calls":[]}}]}"#,
        GptChat,
        &[],
    );
    check(r#"{"role":"assistant","content":"Done."}"#, GptChat, &[]);

    let items = r#"[{"type":"reasoning","id":"rs_1"},{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{\"q\":1}"}]"#;
    check(items, GptResponses, &["call_1 f q"]);
    check(&format!(r#"{{"object":"response","output":{items}}}"#), GptResponses, &["call_1 f q"]);
    check(&format!(r#"{{"output":{items}}}"#), GptResponses, &["call_1 f q"]);
    check(
        r#"{"object":"response","output":[{"type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Done."}]}]}"#,
        GptResponses,
        &[],
    );
    check(
        r#"[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}]"#,
        GptResponses,
        &[],
    );

    let parts = r#"[{"text":"hm"},{"functionCall":{"name":"f","args":{"q":1}}},{"functionCall":{"id":"x","name":"g"}}]"#;
    check(
        &format!(r#"{{"candidates":[{{"content":{{"role":"model","parts":{parts}}}}}]}}"#),
        GeminiGenerateContent,
        &["- f q", "x g "],
    );
    check(
        &format!(
            r#"[{{"candidates":[{{"content":{{"parts":{parts}}}}}]}},{{"candidates":[{{"finishReason":"STOP"}}],"usageMetadata":{{}}}}]"#
        ),
        GeminiGenerateContent,
        &["- f q", "x g "],
    );
    check(
        &format!(r#"{{"role":"model","parts":{parts}}}"#),
        GeminiGenerateContent,
        &["- f q", "x g "],
    );
    check(parts, GeminiGenerateContent, &["- f q", "x g "]);
    check(
        r#"{"parts":[{"text":null,"function_call":{"id":null,"name":"f","args":{"q":1}}}],"role":"model"}"#,
        GeminiGenerateContent,
        &["- f q"],
    );
    check(r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#, GeminiGenerateContent, &[]);

    let steps = r#"[{"type":"thought","signature":"s"},{"type":"function_call","id":"fc_1","name":"f","arguments":{"q":1}}]"#;
    check(&format!(r#"{{"steps":{steps}}}"#), GeminiInteractions, &["fc_1 f q"]);
    check(
        &format!(r#"{{"id":"v1_x","outputs":{steps},"status":"requires_action"}}"#),
        GeminiInteractions,
        &["fc_1 f q"],
    );
    check(steps, GeminiInteractions, &["fc_1 f q"]);
    check(r#"[{"type":"function_call","id":"fc_1","name":"f"}]"#, GeminiInteractions, &["fc_1 f "]);

    let message = r#"{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"q":1}}},{"id":"call_9","function":{"index":1,"name":"g","arguments":{}}}]}"#;
    check(
        &format!(r#"{{"model":"qwen3","message":{message},"done":true}}"#),
        Ollama,
        &["- f q", "call_9 g "],
    );
    check(message, Ollama, &["- f q", "call_9 g "]);
    check(
        r#"{"model":"qwen3","message":{"role":"assistant","content":"Done."},"done":true}"#,
        Ollama,
        &[],
    );
}

#[test]
fn a_hint_decides_among_equal_shapes_alone() {
    let check = |json: &str, hint: Backend, expected: Dialect| {
        assert_eq!(read(json, Some(hint)).unwrap().dialect, expected, "{hint:?} {json}");
    };
    let blocks = r#"[{"type":"tool_use","id":"a","name":"f","input":{}}]"#;
    check(blocks, Backend::ClaudeCode, ClaudeCode);
    check(blocks, Backend::Gpt, Claude);
    let text = r#"{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    check(text, Backend::Vllm, Vllm);
    check(text, Backend::Ollama, Ollama);
    check(text, Backend::Claude, GptChat);
    let object = r#"{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]}"#;
    check(object, Backend::Gpt, Ollama);
    check(object, Backend::Vllm, Ollama);
    let whole = format!(r#"{{"choices":[{{"message":{text}}}]}}"#);
    check(&whole, Backend::Vllm, Vllm);
    check(&whole, Backend::Gemini, GptChat);
    check(
        r#"{"output":[{"type":"function_call","call_id":"a","name":"f","arguments":""}]}"#,
        Backend::Codex,
        Codex,
    );
    check(r#"{"outputs":[{"type":"text","text":"hi"}]}"#, Backend::Gpt, GeminiInteractions);
    check(
        r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"hi"}]}"#,
        Backend::Gpt,
        Claude,
    );
    check(r#"{"role":"assistant","content":"hi"}"#, Backend::Claude, Claude);
    check("[]", Backend::Gemini, GeminiInteractions);
}

#[test]
fn what_is_wrong_with_one_call_stays_with_it() {
    let json = r#"{"role":"assistant","tool_calls":[
        {"id":"a","type":"function","function":{"name":"f","arguments":"{\"q\": \"lat"}},
        {"id":"b","type":"function","function":{"arguments":"{}"}},
        {"id":"c","type":"custom","custom":{"name":"g","input":"free text"}},
        "junk",
        {"id":7,"function":{"name":"h","arguments":"{\"q\":\"7\"}"}}]}"#;
    let reply = read(json, Some(Backend::Gpt)).unwrap();
    assert_eq!(summary(&reply), ["a f !", "b  !", "c g !", "-  !", "7 h q"]);
    let problem = reply.calls[0].arguments.as_ref().expect_err("cut off");
    assert!(problem.contains(r#"{"q": "lat"#), "{problem}");
}

#[test]
fn a_call_that_has_its_result_already_is_not_run_again() {
    let json = r#"[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
        {"type":"function_call_output","call_id":"a","output":"function_result"},
        {"type":"function_call","call_id":"b","name":"f","arguments":"{}"}]"#;
    assert_eq!(summary(&read(json, None).unwrap()), ["b f "]);
}

#[test]
fn what_is_no_reply_is_refused_with_what_was_seen() {
    let check = |json: &str, expected: &str| {
        let error = read(json, None).expect_err(json).to_string();
        assert!(error.contains(expected) && error.len() < 1000, "{json}: {error}");
    };
    check("", "not JSON");
    check("{\"choices\":", "not JSON");
    check("42", "a number, 42");
    check("[]", "an empty list");
    check("[1]", "a list, first a number");
    check("{}", "no fields");
    check(r#"{"type":"error","error":{"message":"overloaded"}}"#, "the fields type, error");
    check(r#"{"choices":[{"delta":{"content":"a"}}]}"#, "the fields choices");
    check(
        r#"{"role":"model","content":[{"data":"aGk=","metadata":{"mimetype":"text/plain"}}]}"#,
        "role, content",
    );
    check(
        r#"{"messages":[{"role":"assistant","tool_calls":[]},{"role":"tool","content":"x"}]}"#,
        "\"tool\" turn",
    );
    check(r#"{"role":"assistant","tool_calls":{"a":1}}"#, "should be a list, but is an object");
    check(&format!("{}{}", "[".repeat(200), "]".repeat(200)), "more than 127 deep");
    check(&"[".repeat(1_000_000), "more than 127 deep");
    check(
        &format!(
            "{{{}}}",
            (0..50).map(|n| format!("\"{n}{}\":0", "k".repeat(500))).collect::<Vec<_>>().join(",")
        ),
        "…",
    );
    assert!(read_reply(b"\xff{}", None).is_err());
    let status = Status::from(read("{}", None).unwrap_err());
    assert_eq!(
        (status.code, status.reason),
        (crate::wire::Code::InvalidArgument, Reason::UnknownReply)
    );
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    assert!(read("\u{feff}{\"role\":\"assistant\",\"content\":\"hi\"}", None).is_ok());
}

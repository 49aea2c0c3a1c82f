//! Providers' replies and the messages that answer them: the example replies,
//! the recorded cases of `execute.json`, and input made up at random.

use std::path::{Path, PathBuf};

use a11_grpc::{
    interaction::backend::{
        Dialect, Image, Outcome, ToolResult, messages, parse_backend, read_reply,
    },
    wire::{
        base64,
        pb::{Backend, UsageMetadata},
    },
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Stands in the recorded cases where the words are free.
const FREE: &str = "<a note, wording yours>";

const EXAMPLES: [(&str, Dialect); 7] = [
    ("claude", Dialect::Claude),
    ("openai_chat", Dialect::GptChat),
    ("openai_responses", Dialect::GptResponses),
    ("gemini_generate_content", Dialect::GeminiGenerateContent),
    ("gemini_interactions", Dialect::GeminiInteractions),
    ("ollama", Dialect::Ollama),
    ("vllm", Dialect::Vllm),
];

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/replies/{name}.json"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn each_example_reply_says_what_it_spent() {
    let check = |name: &str, [input, output, total, cached, written, reasoning]: [_; 6]| {
        let expected = UsageMetadata {
            input_tokens: input,
            output_tokens: output,
            total_tokens: total,
            cached_input_tokens: cached,
            cache_write_tokens: written,
            reasoning_tokens: reasoning,
        };
        let reply = read_reply(example(name).as_bytes(), None).expect(name);
        assert_eq!(reply.usage, Some(expected), "{name}");
    };
    check("claude", [Some(684), Some(163), None, Some(0), Some(0), None]);
    check("openai_chat", [Some(214), Some(78), Some(292), Some(0), None, Some(0)]);
    check("openai_responses", [Some(231), Some(215), Some(446), Some(0), None, Some(128)]);
    check("gemini_generate_content", [Some(158), Some(184), Some(342), None, None, Some(123)]);
    check("gemini_interactions", [Some(158), Some(173), Some(331), None, None, Some(115)]);
    check("ollama", [Some(312), Some(96), None, None, None, None]);
    check("vllm", [Some(298), Some(93), Some(391), None, None, None]);
}

#[test]
fn each_example_reply_asks_for_three_calls_and_is_answered_in_its_own_shape() {
    for (name, dialect) in EXAMPLES {
        let hint = (dialect == Dialect::Vllm).then_some(Backend::Vllm);
        let reply = read_reply(example(name).as_bytes(), hint).expect(name);
        assert_eq!(reply.dialect, dialect, "{name}");
        let calls: Vec<(&str, Value)> = reply
            .calls
            .iter()
            .map(|call| {
                let arguments = call.arguments.as_ref().expect(name).iter();
                let arguments = arguments.map(|(key, value)| (key.to_owned(), value.get().into()));
                (call.name.as_str(), Value::Object(arguments.collect()))
            })
            .collect();
        let text = "\"Orders that miss their slot are moved to the next free one.\"";
        assert_eq!(
            calls,
            [
                ("word_count", json!({"text": text})),
                ("order_status", json!({"order_id": "\"A-404\""})),
                ("disk_usage", json!({"path": "\".\""})),
            ],
            "{name}"
        );
        assert_eq!(
            reply.calls.iter().all(|call| call.id.is_some()),
            dialect.needs_id(),
            "{name}: ids are there where results need them"
        );

        let results: Vec<ToolResult> = reply
            .calls
            .iter()
            .map(|call| ToolResult {
                id: call.id.clone(),
                name: call.name.clone(),
                outcome: Outcome::Failed("NOT_FOUND: nothing there".to_owned()),
            })
            .collect();
        let written = messages(dialect, &results).join("\n");
        for call in &reply.calls {
            let key = if dialect.needs_id() { call.id.as_ref().expect(name) } else { &call.name };
            assert!(written.contains(key.as_str()), "{name}: {key} in {written}");
        }
        assert_eq!(written.matches("NOT_FOUND: nothing there").count(), 3, "{name}");
    }
}

/// The directory of recorded cases, where there is one.
fn conformance() -> Option<PathBuf> {
    let directory = std::env::var_os("A11_CONFORMANCE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance"),
        PathBuf::from,
    );
    directory.is_dir().then_some(directory)
}

#[test]
fn recorded_results_are_written_as_they_were_recorded() {
    let Some(directory) = conformance() else {
        println!("no recorded cases (A11_CONFORMANCE): skipped");
        return;
    };
    let cases = std::fs::read(directory.join("execute.json")).expect("execute.json is readable");
    let cases: Vec<Value> = serde_json::from_slice(&cases).expect("execute.json is JSON");
    let mut compared = 0;
    for case in &cases {
        let recorded = case["expect"]["tool_results"].as_object().expect("recorded results");
        let results = results_of(case);
        for (name, expected) in recorded {
            let backend = parse_backend(name).expect("a known backend");
            let dialect = Dialect::default_of(backend).expect("a dialect");
            let mut written: Vec<Value> = messages(dialect, &results)
                .iter()
                .map(|message| serde_json::from_str(message).expect("a message is JSON"))
                .collect();
            if dialect == Dialect::Claude {
                // Recorded are the blocks of the one message.
                assert_eq!((written.len(), &written[0]["role"]), (1, &json!("user")));
                written = written[0]["content"].as_array().expect("blocks").clone();
            }
            let written = Value::Array(written);
            assert!(agrees(&written, expected), "{} {name}:\n{written}\n{expected}", case["name"]);
            compared += 1;
        }
    }
    println!("conformance: {compared} rounds of messages agree");
    assert!(compared >= cases.len(), "every case has some backend's messages");
}

/// A case's results, taken from what Claude was given: it alone has everything.
fn results_of(case: &Value) -> Vec<ToolResult> {
    let calls = case["tool_calls"].as_array().expect("calls");
    let blocks = case["expect"]["tool_results"]["claude"].as_array().expect("blocks");
    let result = |block: &Value| {
        let call = calls.iter().find(|call| call["id"] == block["tool_use_id"]).expect("its call");
        let content = &block["content"];
        let parts = content.as_array().cloned().unwrap_or_default();
        let text = content.as_str().or_else(|| parts.iter().find_map(|part| part["text"].as_str()));
        let image = |source: &Value| Image {
            media_type: source["media_type"].as_str().expect("a media type").to_owned(),
            data: base64::decode(source["data"].as_str().expect("data")).expect("base64").into(),
        };
        let sources = parts.iter().filter_map(|part| part.get("source"));
        ToolResult {
            id: block["tool_use_id"].as_str().map(str::to_owned),
            name: call["name"].as_str().expect("a name").to_owned(),
            outcome: match block.get("is_error") {
                Some(_) => Outcome::Failed(text.expect("a failure has text").to_owned()),
                None => Outcome::Done {
                    text: text.map(str::to_owned),
                    images: sources.map(image).collect(),
                },
            },
        }
    };
    blocks.iter().map(result).collect()
}

/// Whether they are equal, but for notes, of which there must be one.
fn agrees(written: &Value, expected: &Value) -> bool {
    match (written, expected) {
        (Value::String(note), Value::String(free)) if free == FREE => !note.is_empty(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| agrees(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|b| agrees(value, b)))
        }
        _ => written == expected,
    }
}

/// Any JSON, with the keys and words that replies have, so that it comes close.
fn any_json() -> impl Strategy<Value = Value> {
    const WORDS: [&str; 30] = [
        "type",
        "role",
        "content",
        "tool_calls",
        "function",
        "function_call",
        "functionCall",
        "arguments",
        "input",
        "args",
        "id",
        "call_id",
        "name",
        "choices",
        "message",
        "messages",
        "candidates",
        "parts",
        "steps",
        "outputs",
        "output",
        "done",
        "assistant",
        "model",
        "tool_use",
        "text",
        "thought",
        "reasoning",
        "response",
        "custom",
    ];
    let word =
        prop_oneof![prop::sample::select(&WORDS[..]).prop_map(str::to_owned), any::<String>(),];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(8, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_hint() -> impl Strategy<Value = Option<Backend>> {
    (0..=8_i32).prop_map(|number| Backend::try_from(number).ok())
}

/// Puts `value` in place of the nth value of a document, counted depth first.
fn replace(document: &mut Value, nth: &mut usize, value: &Value) {
    if *nth == 0 {
        *document = value.clone();
    }
    *nth = nth.wrapping_sub(1);
    match document {
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, nth, value)),
        Value::Object(fields) => fields.values_mut().for_each(|item| replace(item, nth, value)),
        _ => {}
    }
}

proptest! {
    // Next to an integration test there is no place proptest would keep failures.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_reading_panic(bytes: Vec<u8>, text: String, hint in any_hint()) {
        let _ = read_reply(&bytes, hint);
        let _ = read_reply(text.as_bytes(), hint);
    }

    #[test]
    fn no_json_makes_reading_panic_and_what_is_read_can_be_answered(
        json in any_json(),
        hint in any_hint(),
    ) {
        read_and_answer(&json, hint);
    }

    #[test]
    fn no_change_to_a_real_reply_makes_reading_panic(
        which in 0..EXAMPLES.len(),
        place in 0..60_usize,
        value in any_json(),
        hint in any_hint(),
    ) {
        let mut reply: Value = serde_json::from_str(&example(EXAMPLES[which].0)).unwrap();
        replace(&mut reply, &mut { place }, &value);
        read_and_answer(&reply, hint);
    }
}

/// Reads it and, where it is a reply, writes one message list that parses.
fn read_and_answer(json: &Value, hint: Option<Backend>) {
    let Ok(reply) = read_reply(json.to_string().as_bytes(), hint) else { return };
    let results: Vec<ToolResult> = reply
        .calls
        .into_iter()
        .map(|call| ToolResult {
            id: call.id,
            name: call.name,
            outcome: match call.arguments {
                Ok(_) => Outcome::Done { text: Some("{}".to_owned()), images: vec![] },
                Err(problem) => Outcome::Failed(problem),
            },
        })
        .collect();
    for message in messages(reply.dialect, &results) {
        let message: Value = serde_json::from_str(&message).expect("a message is JSON");
        assert!(message.is_object());
    }
}

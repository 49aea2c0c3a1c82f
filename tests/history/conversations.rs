//! Conversations to convert: one every backend could have produced, and random
//! ones that come close to what providers write.

use std::sync::LazyLock;

use a11_grpc::{
    interaction::{
        Interaction,
        backend::{Dialect, Image, Outcome, ToolResult, backend_name, messages},
    },
    wire::{
        Chunk,
        chunk::JSON,
        pb::{Role, Status},
    },
};
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

pub const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNQaPgPAAJjAaB56d6tAAAAAElFTkSuQmCC";

pub fn png() -> Bytes {
    a11_grpc::wire::base64::decode(PNG).expect("base64").into()
}

/// A turn of chunks, tagged with the backend that produced it, if one did.
pub fn turn(id: &str, role: Role, backend: Option<Dialect>, content: Vec<Chunk>) -> Interaction {
    let tag = backend.and_then(|dialect| backend_name(dialect.backend()));
    Interaction {
        id: id.to_owned(),
        role: role as i32,
        content,
        backend_specific_metadata: tag
            .map(|tag| ("backend".to_owned(), Bytes::from(tag)))
            .into_iter()
            .collect(),
        ..Interaction::default()
    }
}

pub fn json_chunk(value: &Value) -> Chunk {
    Chunk::new(JSON, value.to_string())
}

/// Text, a picture, reasoning, two parallel calls one of which fails and the
/// other gives a picture, and an answer.
pub fn whole(dialect: Dialect) -> Vec<Interaction> {
    whole_with_ids(dialect, ["call_a", "call_b"])
}

/// Ids as some providers give them: with what is no name, and longer than others
/// take.
pub fn odd_ids() -> [&'static str; 2] {
    static LONG: LazyLock<String> = LazyLock::new(|| format!("toolu_{}", "é".repeat(240)));
    ["functions.picture:0", &LONG]
}

/// The same with other call ids, where the provider has any.
pub fn whole_with_ids(dialect: Dialect, ids: [&str; 2]) -> Vec<Interaction> {
    let mut history = asking(dialect, ids);
    let given = |id: &str| dialect.needs_id().then(|| id.to_owned());
    let results = [
        ToolResult {
            id: given(ids[0]),
            name: "picture".to_owned(),
            outcome: Outcome::Done {
                text: Some("{\"floor\":3}".to_owned()),
                images: vec![Image { media_type: "image/png".to_owned(), data: png() }],
            },
        },
        ToolResult {
            id: given(ids[1]),
            name: "look_up".to_owned(),
            outcome: Outcome::Failed("NOT_FOUND: no such order".to_owned()),
        },
    ];
    let results = messages(dialect, &results).into_iter().map(|text| Chunk::new(JSON, text));
    history.extend([
        turn("3", Role::User, Some(dialect), results.collect()),
        turn("4", Role::Model, Some(dialect), vec![json_chunk(&answer(dialect, "Floor 3."))]),
        turn("5", Role::User, None, vec![Chunk::text("Thank you.")]),
    ]);
    history
}

/// Its beginning: the question, and the turn that makes the calls.
pub fn asking(dialect: Dialect, ids: [&str; 2]) -> Vec<Interaction> {
    let question = vec![Chunk::text("Which floor is it?"), Chunk::new("image/png", png())];
    let calls = json!([("a", "picture", json!({"n": 1})), ("b", "look_up", json!({"q": "late"}))]);
    let reply = reply(dialect, "Let me look.", &calls, ids);
    vec![
        turn("1", Role::User, None, question),
        turn("2", Role::Model, Some(dialect), vec![json_chunk(&reply)]),
    ]
}

/// A model's turn with reasoning, text and two calls.
fn reply(dialect: Dialect, said: &str, calls: &Value, ids: [&str; 2]) -> Value {
    let call = |at: usize| (&calls[at][1], &calls[at][2], ids[at]);
    let both = |write: &dyn Fn(&Value, &Value, &str) -> Value| -> Vec<Value> {
        (0..2).map(call).map(|(name, arguments, id)| write(name, arguments, id)).collect()
    };
    let list = |mut first: Vec<Value>, rest: Vec<Value>| {
        first.extend(rest);
        Value::from(first)
    };
    match dialect {
        Dialect::Claude | Dialect::ClaudeCode => json!({"role": "assistant", "content": list(
            vec![json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"}),
                 json!({"type": "text", "text": said})],
            both(&|name, input, id| json!({"type": "tool_use", "id": id, "name": name,
                                           "input": input})))}),
        Dialect::GptResponses | Dialect::Codex => json!({"object": "response", "output": list(
            vec![json!({"type": "reasoning", "id": "rs_1", "summary": [],
                        "encrypted_content": "c2ln"}),
                 json!({"type": "message", "id": "msg_1", "role": "assistant",
                        "status": "completed",
                        "content": [{"type": "output_text", "text": said, "annotations": []}]})],
            both(&|name, arguments, id| json!({"type": "function_call", "id": format!("fc_{id}"),
                "call_id": id, "name": name, "arguments": arguments.to_string(),
                "status": "completed"})))}),
        Dialect::GeminiInteractions => json!({"steps": list(
            vec![json!({"type": "thought", "signature": "c2ln"}),
                 json!({"type": "model_output", "content": [{"type": "text", "text": said}]})],
            both(&|name, arguments, id| json!({"type": "function_call", "id": id, "name": name,
                                               "arguments": arguments})))}),
        Dialect::GeminiGenerateContent => json!({"candidates": [{"content": {"role": "model",
        "parts": list(
            vec![json!({"text": "hm", "thought": true}), json!({"text": said})],
            both(&|name, args, id| match id == ids[0] {
                true => json!({"functionCall": {"name": name, "args": args},
                                   "thoughtSignature": "c2ln"}),
                false => json!({"functionCall": {"name": name, "args": args}}),
            }))}}]}),
        Dialect::Ollama => json!({"message": {"role": "assistant", "content": said,
            "thinking": "hm", "tool_calls": both(&|name, arguments, _| json!({
                "function": {"name": name, "arguments": arguments}}))}, "done": true}),
        Dialect::GptChat | Dialect::Vllm => json!({"choices": [{"message": {"role": "assistant",
            "content": said, "reasoning_content": "hm",
            "tool_calls": both(&|name, arguments, id| json!({"id": id, "type": "function",
                "function": {"name": name, "arguments": arguments.to_string()}}))}}]}),
        Dialect::GptFunctions => {
            let (name, arguments, _) = call(0);
            let (second, more, _) = call(1);
            json!({"messages": [
                {"role": "assistant", "content": said,
                 "function_call": {"name": name, "arguments": arguments.to_string()}},
                {"role": "assistant", "content": null,
                 "function_call": {"name": second, "arguments": more.to_string()}}]})
        }
    }
}

/// A model's turn of text alone.
fn answer(dialect: Dialect, said: &str) -> Value {
    match dialect {
        Dialect::Claude | Dialect::ClaudeCode => {
            json!({"role": "assistant", "content": [{"type": "text", "text": said}]})
        }
        Dialect::GptResponses | Dialect::Codex => json!({"output": [{"type": "message",
            "id": "msg_2", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": said, "annotations": []}]}]}),
        Dialect::GeminiInteractions => json!({"steps": [{"type": "model_output",
            "content": [{"type": "text", "text": said}]}]}),
        Dialect::GeminiGenerateContent => json!({"role": "model", "parts": [{"text": said}]}),
        Dialect::Ollama | Dialect::GptChat | Dialect::Vllm | Dialect::GptFunctions => {
            json!({"role": "assistant", "content": said})
        }
    }
}

/// Text of the kinds that break rules: empty, blank, long, of other scripts.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" \n".to_owned()),
        Just("hello".to_owned()),
        "\\PC{0,6}",
        Just("é".repeat(80)),
    ]
}

fn call_id() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(&["a", "b", "call_0", "call_1", "functions.x:0"][..])
            .prop_map(str::to_owned),
        1 => text(),
    ]
}

fn arguments() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"q": 1})),
        Just(json!("{\"q\":1}")),
        Just(json!("{\"q\":")),
        Just(json!("")),
        Just(json!(null)),
        Just(json!([1])),
    ]
}

/// One block, part, step, item or message of any provider.
fn piece() -> impl Strategy<Value = Value> {
    let named = (call_id(), text(), arguments(), text());
    (0..24_usize, named, any::<bool>()).prop_map(|(kind, (id, name, arguments, text), flag)| {
        let function = json!({"name": name, "arguments": arguments});
        match kind {
            0 => json!({"type": "text", "text": text}),
            1 => json!({"type": "tool_use", "id": id, "name": name, "input": arguments}),
            2 => json!({"type": "tool_result", "tool_use_id": id, "content": text,
                        "is_error": flag}),
            3 => json!({"type": "thinking", "thinking": text, "signature": text}),
            4 => json!({"type": "image", "source": {"type": "base64",
                        "media_type": if flag { "image/png" } else { "image/svg+xml" },
                        "data": PNG}}),
            5 => json!({"type": "function_call", "call_id": id, "name": name,
                        "arguments": arguments}),
            6 => json!({"type": "function_call_output", "call_id": id, "output": text}),
            7 => json!({"type": "reasoning", "id": text, "summary": []}),
            8 => json!({"type": "message", "role": "assistant", "status": "completed",
                        "id": "m", "content": [{"type": "output_text", "text": text}]}),
            9 => json!({"type": "function_call", "id": id, "name": name,
                        "arguments": {"q": 1}}),
            10 => json!({"type": "function_result", "call_id": id, "result": text}),
            11 => json!({"type": "thought", "signature": "c2ln"}),
            12 => json!({"type": "model_output", "content": [{"type": "text", "text": text}]}),
            13 => json!({"type": "user_input", "content": [{"type": "text", "text": text}]}),
            14 => json!({"functionCall": {"name": name, "args": {"q": 1}}}),
            15 => json!({"functionResponse": {"name": name, "response": {"output": text}}}),
            16 => json!({"role": "assistant", "content": text,
                         "tool_calls": [{"id": id, "type": "function", "function": function}]}),
            17 => json!({"role": "assistant", "content": text,
                         "tool_calls": [{"function": function}, {"function": function}]}),
            18 => json!({"role": "tool", "tool_call_id": id, "content": text}),
            19 => json!({"role": "tool", "tool_name": name, "content": text}),
            20 => json!({"role": "user", "content": text, "images": [PNG]}),
            21 => json!({"role": "system", "content": text}),
            22 => json!({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}),
            _ => json!({"content": [{"type": "text", "text": text}], "isError": flag}),
        }
    })
}

fn content() -> impl Strategy<Value = Chunk> {
    let pieces = || prop::collection::vec(piece(), 0..5);
    prop_oneof![
        3 => piece().prop_map(|piece| json_chunk(&piece)),
        3 => pieces().prop_map(|pieces| json_chunk(&json!({"messages": pieces}))),
        3 => (pieces(), any::<bool>()).prop_map(|(pieces, by_model)| {
            let role = if by_model { "assistant" } else { "user" };
            json_chunk(&json!({"role": role, "content": pieces}))
        }),
        1 => text().prop_map(Chunk::text),
        1 => Just(Chunk::new("image/png", png())),
        1 => any::<Vec<u8>>().prop_map(|bytes| Chunk::new(JSON, bytes)),
    ]
}

/// A conversation that comes close to what providers write, and breaks rules.
pub fn close() -> impl Strategy<Value = Vec<Interaction>> {
    let role = prop_oneof![Just(Role::User), Just(Role::Model), Just(Role::Model)];
    let backend = prop::option::of(prop::sample::select(&Dialect::ALL[..]));
    let one = (role, backend, prop::collection::vec(content(), 0..3), any::<bool>());
    prop::collection::vec(one, 0..7).prop_map(|turns| {
        let turn = |(at, (role, backend, content, failed)): (usize, (_, _, _, bool))| {
            let mut interaction = turn(&at.to_string(), role, backend, content);
            interaction.status = failed.then(|| Status { code: 1, ..Status::default() });
            interaction
        };
        turns.into_iter().enumerate().map(turn).collect()
    })
}

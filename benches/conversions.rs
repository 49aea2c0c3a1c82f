//! What a conversation costs to write for another provider, by its length: text,
//! two parallel calls and their results, over and over, as Claude made them.
//!
//! `cargo bench --bench conversions`

#![allow(missing_docs)]

use std::hint::black_box;

use a11_grpc::{
    interaction::{
        Interaction,
        backend::{Dialect, Outcome, ToolResult, convert, messages},
    },
    wire::{Chunk, chunk::JSON, pb::Role},
};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn turn(id: usize, role: Role, content: Vec<Chunk>) -> Interaction {
    Interaction {
        id: id.to_string(),
        role: role as i32,
        content,
        backend_specific_metadata: [("backend".to_owned(), "claude".into())].into(),
        ..Interaction::default()
    }
}

/// A conversation of so many turns: a question, calls, results, an answer.
fn conversation(turns: usize) -> Vec<Interaction> {
    let ids = |at: usize| [format!("toolu_{at}_a"), format!("toolu_{at}_b")];
    let one = |at: usize| match at % 4 {
        0 => turn(at, Role::User, vec![Chunk::text("How many are there? ".repeat(10))]),
        1 => {
            let [a, b] = ids(at);
            let reply = serde_json::json!({"role": "assistant", "content": [
                {"type": "text", "text": "Let me count them."},
                {"type": "tool_use", "id": a, "name": "count", "input": {"of": "apples"}},
                {"type": "tool_use", "id": b, "name": "count", "input": {"of": "pears"}},
            ]});
            turn(at, Role::Model, vec![Chunk::new(JSON, reply.to_string())])
        }
        2 => {
            let results = ids(at - 1).map(|id| ToolResult {
                id: Some(id),
                name: "count".to_owned(),
                outcome: Outcome::Done { text: Some("{\"count\":12}".to_owned()), images: vec![] },
            });
            let content = messages(Dialect::Claude, &results);
            turn(at, Role::User, content.into_iter().map(|text| Chunk::new(JSON, text)).collect())
        }
        _ => {
            let reply = r#"{"role":"assistant","content":[{"type":"text","text":"Twelve each."}]}"#;
            turn(at, Role::Model, vec![Chunk::new(JSON, reply)])
        }
    };
    (0..turns).map(one).collect()
}

fn conversions(c: &mut Criterion) {
    for to in
        [Dialect::Claude, Dialect::GptChat, Dialect::GptResponses, Dialect::GeminiGenerateContent]
    {
        let mut group = c.benchmark_group(format!("convert/{to:?}"));
        group.sample_size(10);
        for turns in [100, 1_000, 10_000] {
            let history = conversation(turns);
            group.throughput(Throughput::Elements(turns as u64));
            group.bench_function(BenchmarkId::from_parameter(turns), |b| {
                b.iter(|| black_box(convert(&history, to)));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, conversions);
criterion_main!(benches);

//! What a call costs: a round of 1, 16, 256 and 1,000 trivial calls, in process
//! and over loopback gRPC, beside as many bare tokio tasks that each answer over
//! a channel, and beside one gRPC request that carries the same bytes.
//!
//! `cargo bench --bench calls`. Quote ratios: machines are noisy.

#![allow(missing_docs)]

use std::sync::Arc;

use a11_grpc::action::{ActionSchema, Context, Port, Registry, Scope, handler};
use a11_grpc::runner::{AllowList, Plan, Request, execute};
use a11_grpc::wire::pb::{
    ActionMessage, ExecuteActionsFromInteractionRequest, Interaction, NodeFragments,
};
use a11_grpc::wire::{Chunk, NodeFragment};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use prost::Message as _;
use tokio::{
    runtime::Runtime,
    sync::{Semaphore, mpsc},
};

#[path = "../tests/support/server.rs"]
mod server;

const CALLS: [usize; 4] = [1, 16, 256, 1000];

fn registry() -> Arc<Registry> {
    let registry = Registry::new();
    let echo = handler(|context: Context| async move {
        let word = context.read_chunk("word").await?.unwrap_or_default();
        context.write_chunk("echoed", word).await
    });
    let schema = ActionSchema::builder("echo")
        .input(Port::text("word").required())
        .output(Port::text("echoed"));
    registry.register(schema.build(), echo).expect("registers");
    Arc::new(registry)
}

fn turn(calls: usize) -> Interaction {
    let id = |call: usize| format!("call-{call}");
    let message = |call| ActionMessage { id: id(call), name: "echo".into(), ..Default::default() };
    let inputs = |call| {
        let fragments = vec![NodeFragment::last("word", Chunk::text("hello"))];
        (id(call), NodeFragments { fragments })
    };
    Interaction {
        id: "turn".into(),
        action_calls: (0..calls).map(message).collect(),
        action_inputs: (0..calls).map(inputs).collect(),
        ..Interaction::default()
    }
}

fn in_process(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let registry = registry();
    let mut group = c.benchmark_group("calls in process");
    for calls in CALLS {
        group.throughput(Throughput::Elements(calls as u64));
        let turn = turn(calls);
        group.bench_with_input(BenchmarkId::new("execute", calls), &turn, |b, turn| {
            b.to_async(&runtime).iter(|| async {
                let request = Request {
                    interaction: turn.clone(),
                    allow_list: AllowList::new(["echo"]).expect("valid"),
                    ..Request::default()
                };
                let plan = Plan::new(&registry, request).expect("settles");
                execute(&Scope::root(registry.clone()), plan, None).await
            });
        });
        group.bench_with_input(BenchmarkId::new("bare tokio", calls), &turn, |b, turn| {
            b.to_async(&runtime).iter(|| bare(turn.clone()));
        });
    }
    group.finish();
}

/// The same work with nothing around it: a task a call under one semaphore, an
/// input and an output channel each, the results put in order.
async fn bare(turn: Interaction) -> Vec<Vec<Chunk>> {
    let slots = Arc::new(Semaphore::new(64));
    let mut inputs = turn.action_inputs;
    let mut outputs = Vec::with_capacity(turn.action_calls.len());
    for call in turn.action_calls {
        let (input, mut read) = mpsc::channel(4);
        let (write, output) = mpsc::channel(4);
        for fragment in inputs.remove(&call.id).unwrap_or_default().fragments {
            input.try_send(fragment.chunk().cloned().unwrap_or_default()).expect("room");
        }
        let slots = slots.clone();
        tokio::spawn(async move {
            let _slot = slots.acquire().await;
            if let Some(chunk) = read.recv().await {
                write.send(chunk).await.ok();
            }
        });
        outputs.push(output);
    }
    let mut results = Vec::with_capacity(outputs.len());
    for mut output in outputs {
        let mut chunks = vec![];
        while let Some(chunk) = output.recv().await {
            chunks.push(chunk);
        }
        results.push(chunks);
    }
    results
}

fn over_loopback(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let (client, listing) = runtime.block_on(async {
        let server = server::TestServer::start(registry()).await;
        (server.client().await, server.client().await)
    });
    let mut group = c.benchmark_group("calls over gRPC");
    for calls in CALLS {
        group.throughput(Throughput::Elements(calls as u64));
        let request = ExecuteActionsFromInteractionRequest {
            interaction: Some(turn(calls).encode_to_vec().into()),
            allowed_actions: vec!["echo".into()],
            ..Default::default()
        };
        group.bench_with_input(BenchmarkId::new("execute", calls), &request, |b, request| {
            b.to_async(&runtime).iter(|| {
                let mut client = client.clone();
                async move { client.execute_actions_from_interaction(request.clone()).await }
            });
        });
        // The same bytes both ways and nothing done with them: everything is
        // refused by the empty allow-list.
        let refused =
            ExecuteActionsFromInteractionRequest { allowed_actions: vec![], ..request.clone() };
        group.bench_with_input(BenchmarkId::new("refused", calls), &refused, |b, request| {
            b.to_async(&runtime).iter(|| {
                let mut client = listing.clone();
                async move { client.execute_actions_from_interaction(request.clone()).await }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, in_process, over_loopback);
criterion_main!(benches);

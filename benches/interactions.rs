//! What an interaction costs to encode and decode: protobuf, portable JSON and
//! proto JSON, small and with 1 MiB of payload.
//!
//! `cargo bench --bench interactions`

#![allow(missing_docs)]

use a11_grpc::interaction::{Interaction, portable, proto_json};
use a11_grpc::wire::pb::{ActionMessage, NodeFragments, Role};
use a11_grpc::wire::{Chunk, NodeFragment};
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use prost::Message as _;

/// A turn with ten calls, each with `size` bytes of input.
fn turn(size: usize) -> Interaction {
    let call = |at: usize| ActionMessage {
        id: format!("call-{at}"),
        name: "look_up_order".into(),
        ..Default::default()
    };
    let inputs = |at: usize| {
        let chunk = Chunk::text("x".repeat(size));
        let fragments = vec![NodeFragment { seq: Some(0), ..NodeFragment::last("id", chunk) }];
        (format!("call-{at}"), NodeFragments { fragments })
    };
    Interaction {
        id: "7c9e6679-7425-40de-944b-e07fc1f90ae7".into(),
        role: Role::Model as i32,
        created_at_millis: Some(1_700_000_000_000),
        model: "a-model".into(),
        status: Some(Default::default()),
        action_calls: (0..10).map(call).collect(),
        action_inputs: (0..10).map(inputs).collect(),
        ..Interaction::default()
    }
}

fn interactions(c: &mut Criterion) {
    let mut group = c.benchmark_group("interaction");
    for size in [32, 100 * 1024] {
        let turn = turn(size);
        let bytes = Bytes::from(turn.encode_to_vec());
        let portable = portable::to_json(&turn).expect("valid");
        let proto = proto_json::to_json(&turn).expect("valid");
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        let mut bench = |name: &str, run: &dyn Fn()| {
            group.bench_function(BenchmarkId::new(name, size), |b| b.iter(run));
        };
        bench("protobuf encode", &|| drop(turn.encode_to_vec()));
        bench("protobuf decode", &|| drop(Interaction::decode(bytes.clone())));
        bench("portable JSON write", &|| drop(portable::to_json(&turn)));
        bench("portable JSON read", &|| drop(portable::from_json(portable.as_bytes())));
        bench("proto JSON write", &|| drop(proto_json::to_json(&turn)));
        bench("proto JSON read", &|| drop(proto_json::from_json(proto.as_bytes())));
    }
    group.finish();
}

criterion_group!(benches, interactions);
criterion_main!(benches);

//! What a fragment costs on its way through a node, beside a bounded tokio
//! channel: in order, out of order, and with two readers.
//!
//! `cargo bench --bench nodes`

#![allow(missing_docs)]

use a11_grpc::node::{Node, Piece, WhenUnread};
use a11_grpc::wire::{Chunk, NodeFragment};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tokio::{runtime::Runtime, sync::mpsc};

const FRAGMENTS: usize = 10_000;

fn chunks(size: usize) -> Vec<Chunk> {
    vec![Chunk::new("application/octet-stream", vec![b'x'; size]); FRAGMENTS]
}

async fn through_node(chunks: Vec<Chunk>, readers: usize) {
    let node = Node::new(1 << 20, "", WhenUnread::Wait);
    let readers: Vec<_> = (0..readers)
        .map(|_| {
            let mut reader = node.reader();
            tokio::spawn(async move {
                let mut batch = Vec::new();
                while reader.next_batch(&mut batch).await.expect("no failure") {
                    batch.clear();
                }
            })
        })
        .collect();
    let mut writer = node.writer();
    for chunk in chunks {
        writer.send(chunk).await.expect("fits");
    }
    writer.write(Piece::end()).await.expect("fits");
    for reader in readers {
        reader.await.expect("no panic");
    }
}

async fn through_channel(chunks: Vec<Chunk>) {
    let (write, mut read) = mpsc::channel::<Chunk>(1024);
    let reader = tokio::spawn(async move {
        let mut batch = Vec::new();
        while read.recv_many(&mut batch, 1024).await > 0 {
            batch.clear();
        }
    });
    for chunk in chunks {
        write.send(chunk).await.expect("open");
    }
    drop(write);
    reader.await.expect("no panic");
}

async fn out_of_order(chunks: Vec<Chunk>) {
    let node = Node::new(64 << 20, "", WhenUnread::Wait);
    let mut writer = node.writer();
    // Swapped in pairs: every second fragment comes early.
    for (at, chunk) in chunks.into_iter().enumerate() {
        let fragment = NodeFragment { seq: Some(at as u32 ^ 1), ..NodeFragment::more("n", chunk) };
        writer.write_fragment(fragment).await.expect("fits");
    }
    node.close();
    let (mut reader, mut batch) = (node.reader(), Vec::new());
    while reader.next_batch(&mut batch).await.expect("no failure") {
        batch.clear();
    }
}

fn nodes(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = c.benchmark_group("fragments");
    group.throughput(Throughput::Elements(FRAGMENTS as u64));
    for size in [16, 1024] {
        let chunks = chunks(size);
        group.bench_with_input(BenchmarkId::new("node", size), &chunks, |b, chunks| {
            b.to_async(&runtime).iter(|| through_node(chunks.clone(), 1));
        });
        group.bench_with_input(BenchmarkId::new("node, 2 readers", size), &chunks, |b, chunks| {
            b.to_async(&runtime).iter(|| through_node(chunks.clone(), 2));
        });
        group.bench_with_input(
            BenchmarkId::new("node, out of order", size),
            &chunks,
            |b, chunks| {
                b.to_async(&runtime).iter(|| out_of_order(chunks.clone()));
            },
        );
        group.bench_with_input(BenchmarkId::new("tokio channel", size), &chunks, |b, chunks| {
            b.to_async(&runtime).iter(|| through_channel(chunks.clone()));
        });
    }
    group.finish();
}

criterion_group!(benches, nodes);
criterion_main!(benches);

//! What the store costs: an append and a page, by how much is stored already, on
//! SQLite and, where `A11_POSTGRES_URL` names a server, PostgreSQL (in the schema
//! that the URL's search path begins with). A million interactions are stored first
//! where `A11_BENCH_MILLION` is set: on PostgreSQL that takes a quarter of an hour,
//! and what an earlier run left there is not stored again.

#![allow(missing_docs)]

use std::{
    env,
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use a11_grpc::{
    interaction::{
        Interaction,
        store::{After, ConversationName, Record, Store, StoreError, open},
    },
    wire::{Chunk, pb::Role},
};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures::future::join_all;
use tokio::runtime::Runtime;
use uuid::Uuid;

/// How many append at once.
const WRITERS: u64 = 32;

/// A turn of about 1 KiB.
fn record() -> Record {
    let interaction = Interaction {
        id: Uuid::now_v7().to_string(),
        role: Role::User as i32,
        content: vec![Chunk::text("x".repeat(1000))],
        ..Interaction::default()
    };
    Record::from_interaction(&interaction).expect("can be kept")
}

async fn append_many(store: &Arc<dyn Store>, name: &ConversationName, count: u64) {
    let writers = (0..WRITERS).map(|writer| {
        let (store, name) = (store.clone(), name.clone());
        let own = count / WRITERS + u64::from(writer < count % WRITERS);
        tokio::spawn(async move {
            for _ in 0..own {
                store.append(&name, record()).await.expect("appended");
            }
        })
    });
    for writer in join_all(writers).await {
        writer.expect("joined");
    }
}

/// Stores as many as are missing to `size`.
async fn fill(store: &Arc<dyn Store>, name: &ConversationName, size: u64) {
    let stored = match store.conversation(name).await {
        Ok(conversation) => conversation.length,
        Err(StoreError::UnknownConversation(_)) => 0,
        Err(error) => panic!("{name}: {error}"),
    };
    append_many(store, name, size.saturating_sub(stored)).await;
}

fn sizes() -> Vec<u64> {
    let mut sizes = vec![10, 10_000];
    if env::var_os("A11_BENCH_MILLION").is_some() {
        sizes.push(1_000_000);
    }
    sizes
}

fn store_of(c: &mut Criterion, engine: &str, place: &str) {
    let runtime = Runtime::new().expect("a runtime");
    let store = runtime.block_on(open(place)).expect("opens");
    for size in sizes() {
        let name = ConversationName::new(format!("bench-{size}")).expect("a name");
        runtime.block_on(fill(&store, &name, size));
        let mut group = c.benchmark_group(format!("store/{engine}"));
        group.sample_size(20).measurement_time(Duration::from_secs(3));
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("append", size), |b| {
            b.to_async(&runtime).iter(|| async {
                store.append(&name, record()).await.expect("appended");
            });
        });
        group.bench_function(BenchmarkId::new("append_by_32", size), |b| {
            b.to_async(&runtime).iter_custom(|count| {
                let (store, name) = (store.clone(), name.clone());
                async move {
                    let begun = Instant::now();
                    append_many(&store, &name, count).await;
                    begun.elapsed()
                }
            });
        });
        group.throughput(Throughput::Elements(size.min(100)));
        let middle = After { position: size / 2, count: 100, bytes: 16 << 20 };
        group.bench_function(BenchmarkId::new("list_100", size), |b| {
            b.to_async(&runtime).iter(|| async {
                black_box(store.list(&name, middle).await.expect("listed"));
            });
        });
        group.finish();
    }
}

fn store(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    store_of(c, "sqlite", path.to_str().expect("UTF-8"));
    match env::var("A11_POSTGRES_URL") {
        Ok(url) => store_of(c, "postgres", &url),
        Err(_) => println!("A11_POSTGRES_URL names no server: PostgreSQL is left out"),
    }
}

criterion_group!(benches, store);
criterion_main!(benches);

//! What the store costs: an append and a page, by how much is stored already, on
//! SQLite and on PostgreSQL: the server that `A11_POSTGRES_URL` names (in the schema
//! that the URL's search path begins with), or one that is started for it from the
//! `.venv` of the tests. A million interactions are stored first where
//! `A11_BENCH_MILLION` is set: on PostgreSQL that takes a quarter of an hour, and
//! what an earlier run left at `A11_POSTGRES_URL` is not stored again. Last, what an
//! append costs beside the most, as a multiple of what it costs beside the least.

#![allow(missing_docs)]

#[cfg(unix)]
#[path = "../tests/support/postgres.rs"]
#[allow(unreachable_pub)]
mod postgres;

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

/// What appends took, and how many they were.
#[derive(Default, Clone, Copy)]
struct Spent {
    time: Duration,
    appends: u64,
}

impl Spent {
    fn micros_each(self) -> f64 {
        self.time.as_secs_f64() * 1e6 / self.appends as f64
    }
}

/// Conversations of about one size to append to: another one before half as many
/// as it had are appended, so that one of ten is never one of a thousand.
struct Growing {
    store: Arc<dyn Store>,
    size: u64,
    name: ConversationName,
    room: u64,
}

/// A conversation that is too large to be stored again each time.
const LARGE: u64 = 100_000;

impl Growing {
    async fn of(store: &Arc<dyn Store>, size: u64, name: &ConversationName) -> Self {
        let (store, name) = (store.clone(), name.clone());
        let mut growing = Self { store, size, name, room: u64::MAX };
        if size < LARGE {
            growing.renew().await;
        }
        growing
    }

    async fn renew(&mut self) {
        let name = format!("bench-{}-{}", self.size, Uuid::now_v7());
        self.name = ConversationName::new(name).expect("a name");
        fill(&self.store, &self.name, self.size).await;
        self.room = self.size.div_ceil(2);
    }

    async fn done_with(&self) {
        if self.size < LARGE {
            self.store.delete(&self.name).await.expect("deleted");
        }
    }

    /// How long it takes to append so many, by so many at once.
    async fn append(&mut self, mut count: u64, by: Writers) -> Duration {
        let mut spent = Duration::ZERO;
        while count > 0 {
            if self.room == 0 {
                self.done_with().await;
                self.renew().await;
            }
            let part = count.min(self.room);
            let begun = Instant::now();
            match by {
                Writers::One => {
                    for _ in 0..part {
                        self.store.append(&self.name, record()).await.expect("appended");
                    }
                }
                Writers::Many => append_many(&self.store, &self.name, part).await,
            }
            spent += begun.elapsed();
            self.room -= part;
            count -= part;
        }
        spent
    }
}

#[derive(Clone, Copy)]
enum Writers {
    One,
    Many,
}

fn store_of(c: &mut Criterion, engine: &str, place: &str) {
    let runtime = Runtime::new().expect("a runtime");
    let store = runtime.block_on(open(place)).expect("opens");
    let mut costs: Vec<(&str, u64, Spent)> = vec![];
    for size in sizes() {
        let name = ConversationName::new(format!("bench-{size}")).expect("a name");
        runtime.block_on(fill(&store, &name, size));
        let mut group = c.benchmark_group(format!("store/{engine}"));
        group.sample_size(20).measurement_time(Duration::from_secs(3));
        group.throughput(Throughput::Elements(size.min(100)));
        // From the middle, but for a conversation that is not two pages long.
        let position = if size < 200 { 0 } else { size / 2 };
        let middle = After { position, count: 100, bytes: 16 << 20 };
        group.bench_function(BenchmarkId::new("list_100", size), |b| {
            b.to_async(&runtime).iter(|| async {
                black_box(store.list(&name, middle).await.expect("listed"));
            });
        });
        group.throughput(Throughput::Elements(1));
        for (what, by) in [("append", Writers::One), ("append_by_32", Writers::Many)] {
            let mut spent = Spent::default();
            let mut growing = runtime.block_on(Growing::of(&store, size, &name));
            group.bench_function(BenchmarkId::new(what, size), |b| {
                b.iter_custom(|count| {
                    let time = runtime.block_on(growing.append(count, by));
                    spent = Spent { time: spent.time + time, appends: spent.appends + count };
                    time
                });
            });
            runtime.block_on(growing.done_with());
            costs.push((what, size, spent));
        }
        group.finish();
    }
    for what in ["append", "append_by_32"] {
        tell_ratio(engine, what, &costs);
    }
}

/// How few appends, as of a trial run, say nothing.
const FEW: u64 = 100;

/// Whether the cost of an append stays flat. Says nothing of what was not run.
fn tell_ratio(engine: &str, what: &str, costs: &[(&str, u64, Spent)]) {
    let of_this = costs.iter().filter(|(of, _, spent)| *of == what && spent.appends >= FEW);
    let costs: Vec<(u64, f64)> =
        of_this.map(|(_, size, spent)| (*size, spent.micros_each())).collect();
    let [(_, least), .., (_, most)] = costs[..] else { return };
    let each: Vec<String> =
        costs.iter().map(|(size, micros)| format!("{micros:.0} µs at {size}")).collect();
    println!("store/{engine}/{what}: {}: × {:.2}", each.join(", "), most / least);
}

fn store(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    store_of(c, "sqlite", path.to_str().expect("UTF-8"));
    match env::var("A11_POSTGRES_URL") {
        Ok(url) => store_of(c, "postgres", &url),
        Err(_) => started_postgres(c),
    }
}

#[cfg(unix)]
fn started_postgres(c: &mut Criterion) {
    match postgres::Server::start_durable() {
        Some(server) => {
            let runtime = Runtime::new().expect("a runtime");
            store_of(c, "postgres", &runtime.block_on(server.fresh_url("bench")));
        }
        None => {
            println!("no PostgreSQL in A11_VENV or .venv, nor A11_POSTGRES_URL: it is left out")
        }
    }
}

#[cfg(not(unix))]
fn started_postgres(_: &mut Criterion) {
    println!("A11_POSTGRES_URL names no server: PostgreSQL is left out");
}

criterion_group!(benches, store);
criterion_main!(benches);

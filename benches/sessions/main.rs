//! What sessions cost, beside a bare tonic stream that echoes the same bytes:
//! fragments echoed over one session and over 64, calls with 1, 64 and 512 in
//! flight, and the memory of 1,000 and 10,000 idle sessions.
//!
//! `cargo bench --bench sessions`. Quote ratios: machines are noisy.

#![allow(missing_docs)]

mod bare;
mod memory;
mod service;

use std::{future::Future, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput, measurement::WallTime};
use futures::future::join_all;
use tokio::{runtime::Runtime, time::Instant};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Size of a fragment in bytes, and how many go over all streams in a round.
const FRAGMENTS: [(usize, usize); 3] = [(16, 6400), (1024, 6400), (64 * 1024, 640)];
const STREAMS: [usize; 2] = [1, 64];
const IN_FLIGHT: [usize; 3] = [1, 64, 512];

type Group<'a> = criterion::BenchmarkGroup<'a, WallTime>;

/// One side of a comparison: `round` again and again, over what `open` opened.
fn bench<S>(
    group: &mut Group<'_>,
    runtime: &Runtime,
    id: BenchmarkId,
    open: impl Future<Output = Vec<S>>,
    round: impl AsyncFn(&mut S),
) {
    let mut open = runtime.block_on(open);
    group.bench_function(id, |b| {
        b.iter_custom(|rounds| {
            let began = Instant::now();
            for _ in 0..rounds {
                runtime.block_on(join_all(open.iter_mut().map(|stream| round(stream))));
            }
            began.elapsed()
        });
    });
}

fn fragments(c: &mut Criterion, runtime: &Runtime) {
    let mut group = c.benchmark_group("fragments echoed");
    group.sample_size(10).measurement_time(Duration::from_secs(4));
    let service = runtime.block_on(service::start());
    let bare = runtime.block_on(bare::start());
    for (size, count) in FRAGMENTS {
        for streams in STREAMS {
            group.throughput(Throughput::Elements(count as u64));
            let each = count / streams;
            let what = format!("{size} B over {streams}");
            let open = join_all((0..streams).map(|_| service::Echo::open(&service)));
            let id = BenchmarkId::new("session", &what);
            bench(&mut group, runtime, id, open, async |echo| echo.round(size, each).await);
            let open = join_all((0..streams).map(|_| bare::Echo::open(&bare)));
            let id = BenchmarkId::new("bare tonic", &what);
            bench(&mut group, runtime, id, open, async |echo| echo.round(size, each).await);
        }
    }
    group.finish();
}

fn calls(c: &mut Criterion, runtime: &Runtime) {
    let mut group = c.benchmark_group("calls");
    group.sample_size(10).measurement_time(Duration::from_secs(4));
    let service = runtime.block_on(service::start());
    let bare = runtime.block_on(bare::start());
    for in_flight in IN_FLIGHT {
        group.throughput(Throughput::Elements(in_flight as u64));
        let caller = runtime.block_on(service::Caller::open(&service));
        let open = async { vec![caller; in_flight] };
        let id = BenchmarkId::new("session", in_flight);
        bench(&mut group, runtime, id, open, async |caller| caller.call().await);
        let caller = runtime.block_on(bare::Caller::open(&bare));
        let open = async { vec![caller; in_flight] };
        let id = BenchmarkId::new("bare tonic", in_flight);
        bench(&mut group, runtime, id, open, async |caller| caller.call().await);
    }
    group.finish();
}

fn main() {
    let runtime = Runtime::new().expect("a runtime");
    if let Some((kind, count)) = memory::asked() {
        return runtime.block_on(memory::measure(kind, count));
    }
    let mut criterion = Criterion::default().configure_from_args();
    fragments(&mut criterion, &runtime);
    calls(&mut criterion, &runtime);
    criterion.final_summary();
    memory::report();
}

//! A process that runs recorded turns is killed with SIGKILL at each step of its
//! journal and at random points, and started again each time, or loses its
//! connections to the store: no call runs twice, none is without a result, what
//! ran counts, and what somebody was told stays so.

#![cfg(unix)]
#![allow(missing_docs, unreachable_pub)]

mod found;
#[path = "../support/postgres.rs"]
mod postgres;
mod process;
mod steps;

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, Mutex},
};

use a11_grpc::{
    action::{self, ActionSchema, Context, Port, Registry, Scope},
    interaction::store::open,
    runner::{CallEvent, Recorder},
    wire::{Reason, Status},
};
use found::{Found, check};
use futures::{FutureExt as _, future::BoxFuture};
use process::{LEASE, Process, planned, registry, turn};
use steps::{Moment, RENEWED, STEPS, Steps};
use tokio::sync::mpsc;

/// How often the process is killed at random, by engine, and how often it loses
/// its connections.
const SQLITE_KILLS: usize = 200;
const POSTGRES_KILLS: usize = 40;
const LOSSES: usize = 40;
/// What a turn calls where it is killed at random.
const MANY: [&str; 8] =
    ["once", "once", "once", "repeatable", "once", "once", "once", "repeatable"];
/// What such a turn writes to its output, a byte each: a call begins and ends, and
/// the turn ends.
const STEPS_PER_TURN: usize = 2 * MANY.len() + 1;

/// What came of a turn of one call, whose process was killed at a step and
/// another started after it: whether it has a result, and how often it ran.
struct Killed {
    step: &'static str,
    moment: Moment,
    action: &'static str,
    is_done: bool,
    runs: usize,
}

/// All there can be. Before a step nothing of it counts; after it, it does.
fn kills() -> impl Iterator<Item = Killed> {
    let [appended, begun, ended, finished] = STEPS;
    let cases = [
        (appended, Moment::Before, (true, 1), (true, 1)),
        (appended, Moment::After, (true, 1), (true, 1)),
        (begun, Moment::Before, (true, 1), (true, 1)),
        (begun, Moment::After, (false, 0), (true, 1)),
        (ended, Moment::Before, (false, 1), (true, 2)),
        (ended, Moment::After, (true, 1), (true, 1)),
        (finished, Moment::Before, (true, 1), (true, 1)),
        (finished, Moment::After, (true, 1), (true, 1)),
    ];
    cases.into_iter().flat_map(|(step, moment, once, repeatable)| {
        [("once", once), ("repeatable", repeatable)].map(|(action, (is_done, runs))| Killed {
            step,
            moment,
            action,
            is_done,
            runs,
        })
    })
}

fn kill_at_each_step(mut store_of: impl FnMut(&Path, usize) -> String) {
    for (at, Killed { step, moment, action, is_done, runs }) in kills().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store_of(folder.path(), at);
        let place = format!("{moment:?} {step}");
        let mut process = Process::start_until(folder.path(), &store, &[action], &place);
        process.take_steps_until_it_stops();
        process.kill();
        Process::recover(folder.path(), &store, &[action]);
        let found = check(folder.path(), &store, &[action]);
        let (done, unknown) = if is_done { (1, 0) } else { (0, 1) };
        let expected = Found { turns: 1, done, unknown, runs, told: done };
        assert_eq!(found, expected, "{action}, killed {place}");
    }
}

#[test]
fn a_process_killed_at_each_step_of_its_journal_has_exactly_what_was_recorded() {
    kill_at_each_step(|folder, _| sqlite(folder));
}

#[test]
fn the_same_holds_at_each_step_on_postgres() {
    let Some(server) = postgres::Server::start() else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    kill_at_each_step(|_, at| runtime.block_on(server.fresh_url(&format!("step {at}"))));
}

#[tokio::test]
async fn a_result_is_recorded_before_anybody_hears_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&sqlite(folder.path())).await.expect("opens");
    let (events, heard) = mpsc::channel(64);
    let heard = Arc::new(Mutex::new(heard));
    let recorded = Arc::<Mutex<BTreeSet<String>>>::default();
    let (hearing, recording) = (heard.clone(), recorded.clone());
    let store = Steps::of(
        store,
        Arc::new(move |at| {
            if at.name == "call ended" {
                let mut recorded = recording.lock().expect("one at a time");
                let mut heard = hearing.lock().expect("one at a time");
                while let Ok(event) = heard.try_recv() {
                    if let CallEvent::Finished { call, .. } = event {
                        assert!(recorded.contains(&format!("c{call}")), "{call} was told before");
                    }
                }
                if at.moment == Moment::After {
                    recorded.insert(at.call);
                }
            }
            std::future::ready(()).boxed()
        }),
    );
    let registry = registry(folder.path());
    let (plan, recording) = planned(&registry, &turn(0, &MANY));
    let recorder = Recorder::with_lease(store, LEASE);
    let round = recorder.execute(&Scope::root(registry), plan, recording, Some(events)).await;
    assert_eq!(round.expect("ran").results.len(), MANY.len());
    assert_eq!(recorded.lock().expect("nobody has it").len(), MANY.len());
    let last = heard.lock().expect("nobody has it").try_recv();
    assert!(last.is_ok(), "the last result is told after all others were recorded");
}

#[tokio::test]
async fn a_call_stopped_because_its_lease_was_not_renewed_has_not_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&sqlite(folder.path())).await.expect("opens");
    let unrenewed = Steps::of(
        store.clone(),
        Arc::new(|at| match at.name {
            RENEWED => std::future::pending().boxed(),
            _ => std::future::ready(()).boxed(),
        }),
    );
    let run = async |store, handler: fn(Context) -> BoxFuture<'static, Result<(), Status>>| {
        let registry = Arc::new(Registry::new());
        let schema = |name: &str| ActionSchema::builder(name).output(Port::text("ran"));
        let repeatable = schema("repeatable").idempotent().build();
        registry.register(repeatable, action::handler(handler)).expect("registered");
        let once = schema("once").build();
        registry.register(once, action::handler(handler)).expect("registered");
        let (plan, recording) = planned(&registry, &turn(0, &["once", "repeatable"]));
        let recorder = Recorder::with_lease(store, LEASE);
        recorder.execute(&Scope::root(registry), plan, recording, None).await
    };
    let lost = run(unrenewed, |_| std::future::pending().boxed()).await.expect_err("lost");
    assert_eq!(lost.reason, Reason::LeaseLost);
    let found = run(store, |context| async move { context.write("ran", "again").await }.boxed());
    let results = found.await.expect("ran").results;
    let codes: Vec<_> = results.iter().map(|result| result.status.reason).collect();
    assert_eq!(codes, [Reason::OutcomeUnknown, Reason::Unspecified]);
}

fn sqlite(folder: &Path) -> String {
    folder.join("store.db").to_str().expect("UTF-8").to_owned()
}

fn kill_at_random_points(folder: &Path, store: &str, kills: usize) {
    let mut random = Random(7);
    for _ in 0..kills {
        let mut process = Process::start(folder, store, &MANY);
        process.take_steps(1 + random.below(2 * STEPS_PER_TURN));
        process.kill();
    }
    Process::recover(folder, store, &MANY);
}

#[test]
fn a_process_killed_at_any_point_runs_no_call_twice_and_leaves_none_without_a_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = sqlite(folder.path());
    kill_at_random_points(folder.path(), &store, SQLITE_KILLS);
    let Found { done, unknown, told, .. } = check(folder.path(), &store, &MANY);
    // Kills that met nothing would show nothing.
    assert!(done > 0 && unknown > 0 && told > 0);
}

#[test]
fn the_same_holds_on_postgres() {
    let Some(server) = postgres::Server::start() else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let store = runtime.block_on(server.fresh_url("killed"));
    let folder = tempfile::tempdir().expect("a folder");
    kill_at_random_points(folder.path(), &store, POSTGRES_KILLS);
    let Found { done, unknown, told, .. } = check(folder.path(), &store, &MANY);
    assert!(done > 0 && unknown > 0 && told > 0);
}

#[test]
fn a_process_that_loses_its_connections_goes_on_and_runs_no_call_twice() {
    let Some(server) = postgres::Server::start() else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let store = runtime.block_on(server.fresh_url("lost"));
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Random(11);
    let mut process = Process::start(folder.path(), &store, &MANY);
    for _ in 0..LOSSES {
        process.take_steps(1 + random.below(STEPS_PER_TURN));
        runtime.block_on(server.break_connections());
    }
    // It still goes on.
    process.take_steps(2 * STEPS_PER_TURN);
    process.kill();
    Process::recover(folder.path(), &store, &MANY);
    assert!(check(folder.path(), &store, &MANY).done > 0);
}

/// Numbers that look random and are the same each time (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 1).unwrap_or_default() % bound
    }
}

//! A process that runs recorded turns is killed with SIGKILL at random points and
//! started again each time, or loses its connections to the store: no call runs
//! twice, none is without a result, and what ran counts.

#![cfg(unix)]
#![allow(missing_docs)]

#[path = "support/postgres.rs"]
#[allow(unreachable_pub)]
mod postgres;

use std::{
    collections::BTreeMap,
    env,
    fs::{File, OpenOptions, read_to_string},
    io::{Read as _, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use a11_grpc::{
    action::{ActionSchema, Context, Port, Registry, Scope, handler},
    interaction::{
        Interaction,
        store::{After, ConversationName, Record, open},
    },
    runner::{AllowList, Plan, Recorder, Recording, Request},
    wire::{
        Code, Reason, Status, headers,
        pb::{ActionMessage, Role},
    },
};

/// How often the process is killed, by engine, and how often it loses its
/// connections.
const SQLITE_KILLS: usize = 200;
const POSTGRES_KILLS: usize = 40;
const LOSSES: usize = 40;
/// How many calls a turn makes; every fourth is of an idempotent action.
const CALLS: usize = 8;
/// Where the process keeps its files; set for the process that is killed.
const FOLDER: &str = "A11_CRASH_FOLDER";
/// The store it uses.
const STORE: &str = "A11_CRASH_STORE";
/// Short, since whoever follows a killed process waits for it.
const LEASE: Duration = Duration::from_millis(100);
/// What one turn writes to its output, a byte each: a call begins and ends, and
/// the turn ends.
const STEPS_PER_TURN: usize = 2 * CALLS + 1;

fn turn(number: usize) -> Interaction {
    let call = |at: usize| ActionMessage {
        id: format!("c{at}"),
        name: if at % 4 == 3 { "repeatable" } else { "once" }.to_owned(),
        ..ActionMessage::default()
    };
    Interaction {
        id: format!("t{number}"),
        role: Role::Model as i32,
        action_calls: (0..CALLS).map(call).collect(),
        ..Interaction::default()
    }
}

/// One step more, for whoever decides when it was the last.
fn step() {
    let mut out = std::io::stderr();
    out.write_all(b".").and_then(|()| out.flush()).ok();
}

/// Writes down that it ran, and its key.
fn action(log: &Arc<File>) -> impl a11_grpc::action::Handler {
    let log = log.clone();
    handler(move |context: Context| {
        let log = log.clone();
        async move {
            let key = context.headers().text(headers::IDEMPOTENCY_KEY).unwrap_or("none").to_owned();
            step();
            // One write of a file opened to append is whole or not there.
            (&*log)
                .write_all(format!("{key}\n").as_bytes())
                .map_err(|error| Status::handler(Code::Internal, error.to_string()))?;
            tokio::task::yield_now().await;
            context.write("ran", &key).await?;
            step();
            Ok(())
        }
    })
}

/// The process that is killed: runs turn after turn, those that are unfinished
/// first, until it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_is_killed() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let log = OpenOptions::new().append(true).create(true).open(folder.join("ran.log"));
    let log = Arc::new(log.expect("a log"));
    let registry = Arc::new(Registry::new());
    let schema = |name: &str| ActionSchema::builder(name).output(Port::text("ran"));
    registry.register(schema("once").build(), action(&log)).expect("registered");
    let repeatable = schema("repeatable").idempotent().build();
    registry.register(repeatable, action(&log)).expect("registered");
    let store = open(&env::var(STORE).expect("a store")).await.expect("opens");
    let recorder = Recorder::with_lease(store.clone(), LEASE);
    let conversation = ConversationName::new("c").expect("a name");
    // The last one may be unfinished.
    let length = store.conversation(&conversation).await.map_or(0, |found| found.length);
    let mut number = usize::try_from(length / 2).expect("few").saturating_sub(1);
    loop {
        let turn = turn(number);
        let request = Request {
            interaction: turn.clone(),
            allow_list: AllowList::new([".*"]).expect("a pattern"),
            ..Request::default()
        };
        let plan = Plan::new(&registry, request).expect("planned");
        let record = Record::from_interaction(&turn).expect("can be kept");
        let recording = Recording { conversation: conversation.clone(), turn: record };
        let scope = Scope::root(registry.clone());
        match recorder.execute(&scope, plan, recording, None).await {
            Ok(_) => number += 1,
            // On a slow machine the short lease can be over before it is renewed:
            // asked again, as any caller would. So too without a connection.
            Err(status)
                if matches!(status.reason, Reason::LeaseLost | Reason::StoreUnavailable) => {}
            Err(status) => panic!("{status}"),
        }
        step();
    }
}

/// The process, whose output tells each step.
struct Process(Child);

impl Process {
    fn start(folder: &Path, store: &str) -> Self {
        let process = Command::new(env::current_exe().expect("this program"))
            .args(["--exact", "process_that_is_killed", "--nocapture"])
            .env(FOLDER, folder)
            .env(STORE, store)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        Self(process.expect("started"))
    }

    /// Waits until it has come so far.
    fn take_steps(&mut self, steps: usize) {
        let mut told = vec![0; steps];
        let output = self.0.stderr.as_mut().expect("piped");
        let reached = output.read_exact(&mut told);
        let told = String::from_utf8_lossy(&told);
        assert!(reached.is_ok(), "it ended by itself: {told}");
        assert!(told.bytes().all(|byte| byte == b'.'), "{told}");
    }

    fn kill(mut self) {
        self.0.kill().expect("killed");
        let mut told = String::new();
        self.0.stderr.take().expect("piped").read_to_string(&mut told).expect("read");
        self.0.wait().expect("ended");
        assert!(told.bytes().all(|byte| byte == b'.'), "{told}");
    }
}

fn kill_at_random_points(folder: &Path, store: &str, kills: usize) {
    let mut random = Random(7);
    for _ in 0..kills {
        let mut process = Process::start(folder, store);
        process.take_steps(1 + random.below(2 * STEPS_PER_TURN));
        process.kill();
    }
}

#[test]
fn a_process_killed_at_any_point_runs_no_call_twice_and_leaves_none_without_a_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store.db");
    let store = store.to_str().expect("UTF-8");
    kill_at_random_points(folder.path(), store, SQLITE_KILLS);
    let Found { done, unknown } = check(folder.path(), store);
    // Kills that met nothing would show nothing.
    assert!(done > 0 && unknown > 0);
}

#[test]
fn the_same_holds_on_postgres() {
    let Some(server) = postgres::Server::start() else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let store = runtime.block_on(server.fresh_url("killed"));
    let folder = tempfile::tempdir().expect("a folder");
    kill_at_random_points(folder.path(), &store, POSTGRES_KILLS);
    let Found { done, unknown } = check(folder.path(), &store);
    assert!(done > 0 && unknown > 0);
}

#[test]
fn a_process_that_loses_its_connections_goes_on_and_runs_no_call_twice() {
    let Some(server) = postgres::Server::start() else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let store = runtime.block_on(server.fresh_url("lost"));
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Random(11);
    let mut process = Process::start(folder.path(), &store);
    for _ in 0..LOSSES {
        process.take_steps(1 + random.below(STEPS_PER_TURN));
        runtime.block_on(server.break_connections());
    }
    // It still goes on.
    process.take_steps(2 * STEPS_PER_TURN);
    process.kill();
    assert!(check(folder.path(), &store).done > 0);
}

/// How many calls came to what.
struct Found {
    done: usize,
    unknown: usize,
}

/// What there must be after all of it.
fn check(folder: &Path, store: &str) -> Found {
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    for key in read_to_string(folder.join("ran.log")).expect("a log").lines() {
        *runs.entry(key.to_owned()).or_default() += 1;
    }
    let idempotent = |key: &str| key.ends_with("/c3") || key.ends_with("/c7");
    let twice: Vec<_> = runs.iter().filter(|(key, n)| **n > 1 && !idempotent(key)).collect();
    assert!(twice.is_empty(), "ran twice: {twice:?}");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let stored = runtime.block_on(async {
        let store = open(store).await.expect("opens");
        let after = After { position: 0, count: 1_000_000, bytes: usize::MAX };
        store.list(&ConversationName::new("c").expect("a name"), after).await.expect("listed")
    });
    let mut done = 0;
    let mut unknown = 0;
    // The last kill may have left a turn without its results.
    for pair in stored.chunks_exact(2) {
        let [asked, results] = pair else { unreachable!("pairs") };
        let results = results.interaction().expect("readable");
        assert_eq!(results.previous_interaction_id, asked.id);
        assert_eq!(results.action_outputs.len(), CALLS);
        let statuses = &results.backend_specific_metadata["tool_statuses"];
        let statuses: serde_json::Value = serde_json::from_slice(statuses).expect("JSON");
        for call in 0..CALLS {
            let id = format!("c{call}");
            let key = format!("{}/{id}", asked.id);
            let has_output = !results.action_outputs[&id].fragments.is_empty();
            match statuses[&id]["code"].as_i64() {
                Some(0) => {
                    assert!(has_output && runs.contains_key(&key), "{key} has no run");
                    done += 1;
                }
                Some(10) => {
                    assert!(!idempotent(&key), "{key} was to be run again");
                    unknown += 1;
                }
                other => panic!("{key} ended with {other:?}"),
            }
        }
    }
    println!("{} turns; {done} calls done, {unknown} unknown", stored.len() / 2);
    Found { done, unknown }
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

//! Turns whose calls are run once, whoever asks how often.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use a11_grpc::{
    action::{ActionSchema, Context, Port, Registry, Scope, handler},
    interaction::{
        Interaction,
        store::{HeldRound, Opened, RoundKey, Store},
    },
    runner::{AllowList, Plan, Recorder, Recording, Request, Round},
    wire::{Code, Reason, Status, headers, pb::Backend},
};
use tokio::sync::{Notify, Semaphore};
use uuid::Uuid;

use crate::turns::{all, calling, id, ids, name, record};

const LONG: Duration = Duration::from_secs(3600);

/// Actions that count how often they run.
struct World {
    registry: Arc<Registry>,
    runs: Arc<AtomicUsize>,
    /// Told when `wait` has begun; it ends with a permit.
    begun: Arc<Notify>,
    gate: Arc<Semaphore>,
}

impl World {
    fn new() -> Self {
        let (runs, begun) = (Arc::<AtomicUsize>::default(), Arc::<Notify>::default());
        let gate = Arc::new(Semaphore::new(0));
        let registry = Arc::new(Registry::new());
        let said = || Port::text("said");
        for (action, idempotent) in [("count", false), ("again", true)] {
            let mut schema = ActionSchema::builder(action).output(said());
            if idempotent {
                schema = schema.idempotent();
            }
            let runs = runs.clone();
            let run = handler(move |context: Context| {
                let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
                async move {
                    context.log("counted");
                    context.write("said", &format!("run {run}")).await
                }
            });
            registry.register(schema.build(), run).expect("registered");
        }
        let (told, opened) = (begun.clone(), gate.clone());
        let wait = handler(move |context: Context| {
            let (told, opened) = (told.clone(), opened.clone());
            async move {
                told.notify_one();
                let permit = opened.acquire().await.expect("never closed");
                permit.forget();
                context.write("said", "waited").await
            }
        });
        registry
            .register(ActionSchema::builder("wait").output(said()).build(), wait)
            .expect("registered");
        Self { registry, runs, begun, gate }
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    async fn execute(&self, recorder: &Recorder, turn: &Interaction) -> Result<Round, Status> {
        let request = Request {
            interaction: turn.clone(),
            allow_list: AllowList::new([".*"]).expect("a pattern"),
            backend: Some(Backend::Claude),
            ..Request::default()
        };
        let plan = Plan::new(&self.registry, request).expect("planned");
        let recording = Recording { conversation: name("c"), turn: record(turn) };
        let scope = Scope::root(self.registry.clone());
        recorder.execute(&scope, plan, recording, None).await
    }
}

fn codes(round: &Round) -> Vec<Code> {
    round.results.iter().map(|result| result.status.code).collect()
}

#[track_caller]
fn assert_same(one: &Round, other: &Round) {
    assert_eq!(one.interaction, other.interaction);
    assert_eq!(one.messages, other.messages);
    assert_eq!(one.dialect, other.dialect);
    assert_eq!(format!("{:?}", one.results), format!("{:?}", other.results));
}

pub async fn a_turn_asked_for_again_gets_the_same_results_and_runs_nothing(store: Arc<dyn Store>) {
    let (world, recorder) = (World::new(), Recorder::new(store.clone()));
    let turn = calling("t", &[("c1", "count"), ("c2", "nowhere"), ("c3", "count")]);
    let first = world.execute(&recorder, &turn).await.expect("ran");
    assert_eq!(codes(&first), [Code::Ok, Code::NotFound, Code::Ok]);
    assert_eq!(first.messages.len(), 1);
    assert_eq!(ids(&store, "c").await, ["t", first.interaction.id.as_str()]);
    let stored = all(&store, "c").await[1].interaction().expect("readable");
    assert_eq!(stored, first.interaction);
    let again = world.execute(&Recorder::new(store), &turn).await.expect("found");
    assert_same(&first, &again);
    assert_eq!(world.runs(), 2);
}

pub async fn a_second_caller_waits_for_the_running_calls(store: Arc<dyn Store>) {
    let world = Arc::new(World::new());
    let turn = calling("t", &[("c1", "wait"), ("c2", "count")]);
    // One asks the same process, the other another one.
    let (here, elsewhere) = (Recorder::new(store.clone()), Recorder::new(store.clone()));
    let ask = |recorder: &Recorder| {
        let (world, recorder, turn) = (world.clone(), recorder.clone(), turn.clone());
        tokio::spawn(async move { world.execute(&recorder, &turn).await.expect("ran") })
    };
    let first = ask(&here);
    world.begun.notified().await;
    let (second, third) = (ask(&here), ask(&elsewhere));
    world.gate.add_permits(1);
    let first = first.await.expect("joined");
    for other in [second, third] {
        assert_same(&first, &other.await.expect("joined"));
    }
    assert_eq!((codes(&first), world.runs()), (vec![Code::Ok, Code::Ok], 1));
    assert_eq!(ids(&store, "c").await.len(), 2);
}

/// What a runner leaves behind that dies after it began some calls.
async fn crash(store: &Arc<dyn Store>, turn: &Interaction, begun: &[&str]) -> HeldRound {
    let owner = Uuid::new_v4();
    let opened = store.open_round(&name("c"), record(turn), owner, Duration::ZERO).await;
    assert_eq!(opened.expect("opened"), Opened::Held(vec![]));
    let key = RoundKey { conversation: name("c"), turn: id(&turn.id) };
    let round = HeldRound { key, owner };
    for call in begun {
        store.begin_call(&round, call).await.expect("begun");
    }
    round
}

pub async fn a_call_that_was_cut_off_is_unknown_and_an_idempotent_one_runs_again(
    store: Arc<dyn Store>,
) {
    let (world, recorder) = (World::new(), Recorder::new(store.clone()));
    let turn = calling("t", &[("cut", "count"), ("fresh", "count"), ("again", "again")]);
    crash(&store, &turn, &["cut", "again"]).await;
    let round = world.execute(&recorder, &turn).await.expect("ran");
    assert_eq!(codes(&round), [Code::Aborted, Code::Ok, Code::Ok]);
    let cut = &round.results[0].status;
    assert_eq!(cut.reason, Reason::OutcomeUnknown);
    assert!(cut.message.starts_with("unknown"), "{cut}");
    assert_eq!(world.runs(), 2);
    assert!(round.interaction.action_outputs.contains_key("cut"));
    assert_same(&round, &world.execute(&recorder, &turn).await.expect("found"));
}

pub async fn a_call_that_had_ended_before_a_crash_keeps_its_result(store: Arc<dyn Store>) {
    let (world, recorder) = (World::new(), Recorder::new(store.clone()));
    // The record of an ended call, made by a runner that dies before it finishes:
    // its conversation is let go of, and the calls are put into another's round.
    let turn = calling("t", &[("c1", "count"), ("c2", "wait")]);
    let held = {
        let world = Arc::new(World::new());
        let dying = Recorder::with_lease(store.clone(), Duration::ZERO);
        // A lease that is over at once stops the round before or after the call, or
        // not at all, where nobody was quick enough to see it.
        let _ = world.execute(&dying, &calling("t", &[("c1", "count")])).await;
        store.delete(&name("c")).await.expect("deleted");
        crash(&store, &turn, &["c1"]).await
    };
    store.end_call(&held, "c1", ended("before the crash")).await.expect("ended");
    world.gate.add_permits(1);
    let round = world.execute(&recorder, &turn).await.expect("ran");
    assert_eq!((codes(&round), world.runs()), (vec![Code::Ok, Code::Ok], 0));
    assert_eq!(round.results[0].log, "before the crash");
}

/// An ended call as the journal keeps it: status OK (field 1) and a log (field 2).
fn ended(log: &str) -> bytes::Bytes {
    let mut bytes = vec![0x0a, 0, 0x12, u8::try_from(log.len()).expect("short")];
    bytes.extend_from_slice(log.as_bytes());
    bytes.into()
}

pub async fn a_caller_that_leaves_cancels_the_calls_and_every_call_has_a_result(
    store: Arc<dyn Store>,
) {
    let (world, recorder) = (World::new(), Recorder::new(store.clone()));
    let turn = calling("t", &[("c1", "wait"), ("c2", "nowhere")]);
    tokio::select! {
        biased;
        () = world.begun.notified() => {}
        ended = world.execute(&recorder, &turn) => panic!("ended: {ended:?}"),
    }
    recorder.tasks().close();
    recorder.tasks().wait().await;
    let stored = all(&store, "c").await;
    assert_eq!(stored.len(), 2);
    let results = stored[1].interaction().expect("readable");
    assert_eq!(results.action_outputs.keys().collect::<Vec<_>>(), ["c1", "c2"]);
    let round = world.execute(&Recorder::new(store), &turn).await.expect("found");
    assert_eq!(codes(&round), [Code::Cancelled, Code::NotFound]);
    assert_eq!(round.interaction, results);
}

pub async fn a_runner_that_lost_its_lease_records_nothing(store: Arc<dyn Store>) {
    let world = Arc::new(World::new());
    let recorder = Recorder::with_lease(store.clone(), LONG);
    let turn = calling("t", &[("c1", "wait")]);
    let running = {
        let (world, recorder, turn) = (world.clone(), recorder.clone(), turn.clone());
        tokio::spawn(async move { world.execute(&recorder, &turn).await })
    };
    world.begun.notified().await;
    store.delete(&name("c")).await.expect("deleted");
    world.gate.add_permits(1);
    let lost = running.await.expect("joined").expect_err("nothing to record in");
    assert_eq!((lost.code, lost.reason), (Code::Aborted, Reason::LeaseLost));
    assert!(store.conversation(&name("c")).await.is_err());
}

pub async fn the_idempotency_key_reaches_the_handler_and_no_nested_call(store: Arc<dyn Store>) {
    let registry = Arc::new(Registry::new());
    let key = |context: &Context| {
        context.headers().text(headers::IDEMPOTENCY_KEY).unwrap_or("none").to_owned()
    };
    let inner = handler(move |context: Context| async move {
        let key = key(&context);
        context.write("key", &key).await
    });
    let outer = handler(move |context: Context| async move {
        let nested: String = context.call("inner").run().await?.value("key")?;
        let both = format!("{} {nested}", key(&context));
        context.write("key", &both).await
    });
    let schema = |name: &str| ActionSchema::builder(name).output(Port::text("key")).build();
    registry.register(schema("inner"), inner).expect("registered");
    registry.register(schema("outer"), outer).expect("registered");
    let world = World { registry, ..World::new() };
    let mut turn = calling("t", &[("c1", "outer")]);
    // A turn is data from elsewhere, and cannot choose its own.
    let spoofed = (headers::IDEMPOTENCY_KEY.to_uppercase(), "spoofed".into());
    turn.action_calls[0].headers.extend([spoofed]);
    let round = world.execute(&Recorder::new(store), &turn).await.expect("ran");
    let fragments = &round.interaction.action_outputs["c1"].fragments;
    let said = fragments.iter().find_map(|fragment| match &fragment.payload {
        Some(a11_grpc::wire::pb::node_fragment::Payload::Chunk(chunk)) => {
            Some(String::from_utf8_lossy(chunk.data()).into_owned())
        }
        _ => None,
    });
    assert_eq!(said.as_deref(), Some("t/c1 none"));
}

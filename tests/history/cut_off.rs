//! A round that is cut off while one of its calls still runs: what is kept of it,
//! read again and gone on with, is taken by every provider.

use std::{sync::Arc, time::Duration};

use a11_grpc::{
    action::{ActionSchema, Context, Port, Registry, Scope, handler},
    interaction::{
        Interaction,
        backend::{Dialect, convert},
        store::{After, ConversationName, Record, Store, open},
    },
    runner::{AllowList, Limits, Plan, Recorder, Recording, Request},
    wire::{Chunk, pb::Role},
};
use serde_json::Value;
use tokio::{sync::Notify, time::timeout};

use super::{
    checker,
    conversations::{asking, png, turn},
};

/// How a round ends early.
#[derive(Debug, Clone, Copy)]
pub enum Cut {
    /// Whoever asked leaves.
    Left,
    /// The time of the calls is up.
    OutOfTime,
}

/// All but the one whose reply makes a single call.
pub fn parallel() -> impl Iterator<Item = Dialect> {
    Dialect::ALL.into_iter().filter(|dialect| *dialect != Dialect::GptFunctions)
}

/// `picture` gives one at once; `look_up` never ends, and says that it began once
/// the other has ended.
fn registry() -> (Arc<Registry>, Arc<Notify>) {
    let registry = Arc::new(Registry::new());
    let (given, begun) = (Arc::<Notify>::default(), Arc::<Notify>::default());
    let gives = given.clone();
    let picture = handler(move |context: Context| {
        let gives = gives.clone();
        async move {
            context.write_chunk("shown", Chunk::new("image/png", png())).await?;
            gives.notify_one();
            Ok(())
        }
    });
    let begins = begun.clone();
    let look_up = handler(move |_: Context| {
        let (given, begins) = (given.clone(), begins.clone());
        async move {
            given.notified().await;
            begins.notify_one();
            std::future::pending().await
        }
    });
    let schema = ActionSchema::builder("picture")
        .input(Port::json("n"))
        .output(Port::of("shown", "image/png"));
    registry.register(schema.build(), picture).expect("registered");
    let schema = ActionSchema::builder("look_up").input(Port::text("q")).output(Port::text("said"));
    registry.register(schema.build(), look_up).expect("registered");
    (registry, begun)
}

/// What the store has of such a conversation, opened again, and a new prompt.
pub async fn cut_off(dialect: Dialect, cut: Cut) -> Vec<Interaction> {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("store.db");
    let place = place.to_str().expect("UTF-8");
    let name = ConversationName::new("c").expect("a name");
    let store = open(place).await.expect("opens");
    let [question, calling] = asking(dialect, ["call_a", "call_b"]).try_into().expect("two turns");
    append(&store, &name, &question).await;
    run(store, &name, calling, cut).await;
    let store = open(place).await.expect("opens again");
    append(&store, &name, &turn("5", Role::User, None, vec![Chunk::text("And now?")])).await;
    let stored = store.list(&name, After::position(0)).await.expect("listed");
    stored.iter().map(|stored| stored.interaction().expect("readable")).collect()
}

async fn append(store: &Arc<dyn Store>, name: &ConversationName, interaction: &Interaction) {
    let record = Record::from_interaction(interaction).expect("can be kept");
    store.append(name, record).await.expect("appended");
}

async fn run(store: Arc<dyn Store>, name: &ConversationName, calling: Interaction, cut: Cut) {
    let (registry, begun) = registry();
    let turn = Record::from_interaction(&calling).expect("can be kept");
    let limits = match cut {
        Cut::Left => Limits::default(),
        Cut::OutOfTime => Limits { call_timeout: Duration::from_millis(200), ..Limits::default() },
    };
    let allow_list = AllowList::new([".*"]).expect("a pattern");
    let request = Request { interaction: calling, allow_list, limits, ..Request::default() };
    let plan = Plan::new(&registry, request).expect("planned");
    let recorder = Recorder::new(store);
    let recording = Recording { conversation: name.clone(), turn };
    let scope = Scope::root(registry);
    let running = recorder.execute(&scope, plan, recording, None);
    match cut {
        Cut::OutOfTime => drop(running.await.expect("ended")),
        Cut::Left => tokio::select! {
            ended = timeout(Duration::from_secs(60), running) => panic!("ended: {ended:?}"),
            () = begun.notified() => {}
        },
    }
    recorder.tasks().close();
    let recorded = timeout(Duration::from_secs(60), recorder.tasks().wait()).await;
    recorded.expect("what is cut off is recorded");
}

#[tokio::test]
async fn a_round_that_is_cut_off_is_gone_on_with_by_every_provider() {
    for from in parallel() {
        for cut in [Cut::Left, Cut::OutOfTime] {
            let history = cut_off(from, cut).await;
            assert_eq!(history.len(), 4, "{from:?} {cut:?}");
            let results = &history[2];
            assert_eq!(results.action_outputs.len(), 2, "{from:?} {cut:?}");
            let statuses = &results.backend_specific_metadata["tool_statuses"];
            let statuses: Value = serde_json::from_slice(statuses).expect("JSON");
            let codes: Vec<_> = statuses.as_object().expect("one a call").values().collect();
            let code = if matches!(cut, Cut::Left) { 1 } else { 4 };
            assert_eq!((&codes[0]["code"], &codes[1]["code"]), (&0.into(), &code.into()));
            for to in Dialect::ALL {
                let converted = convert(&history, to);
                let messages: Vec<Value> = converted
                    .messages
                    .iter()
                    .map(|json| serde_json::from_str(json).expect("JSON"))
                    .collect();
                checker::check(to, &messages)
                    .unwrap_or_else(|rule| panic!("{from:?} {cut:?} to {to:?}: {rule}"));
                // Nothing had to be made up: each call has its own result.
                assert_eq!(converted.added, [], "{from:?} {cut:?} to {to:?}");
                let all = converted.messages.join("\n");
                assert_eq!(all.matches("iVBORw0KGgo").count(), 2, "{from:?} {cut:?} to {to:?}");
                assert!(all.contains("And now?"), "{from:?} {cut:?} to {to:?}");
            }
        }
    }
}

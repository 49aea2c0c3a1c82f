//! The journal as the engines keep it: who holds a round, and what it says.

use std::{sync::Arc, time::Duration};

use a11_grpc::interaction::store::{HeldRound, Opened, RecordedCall, RoundKey, Store, StoreError};
use bytes::Bytes;
use uuid::Uuid;

use crate::turns::{append, calling, id, ids, name, record, turn};

const LONG: Duration = Duration::from_secs(3600);

fn held(owner: Uuid) -> HeldRound {
    HeldRound { key: RoundKey { conversation: name("c"), turn: id("t") }, owner }
}

async fn open(store: &Arc<dyn Store>, owner: Uuid, lease: Duration) -> Opened {
    let turn = record(&calling("t", &[("c1", "x")]));
    store.open_round(&name("c"), turn, owner, lease).await.expect("opened")
}

fn is_lost(result: Result<(), StoreError>) -> bool {
    matches!(result, Err(StoreError::LeaseLost(turn)) if turn == "t")
}

pub async fn a_round_is_held_by_one_until_its_lease_is_over(store: Arc<dyn Store>) {
    let (first, second) = (Uuid::new_v4(), Uuid::new_v4());
    assert_eq!(open(&store, first, LONG).await, Opened::Held(vec![]));
    assert_eq!(ids(&store, "c").await, ["t"]);
    let Opened::Running(left) = open(&store, second, LONG).await else { panic!("not held") };
    assert!(left <= LONG && left > LONG / 2, "{left:?}");
    assert_eq!(open(&store, first, LONG).await, Opened::Held(vec![]));
    assert!(is_lost(store.renew(&held(second), LONG).await));
    // Over at once.
    store.renew(&held(first), Duration::ZERO).await.expect("held");
    store.begin_call(&held(first), "c1").await.expect("nobody has taken it");
    let Opened::Held(calls) = open(&store, second, LONG).await else { panic!("not taken") };
    assert_eq!(calls, [RecordedCall { id: "c1".into(), outcome: None }]);
    assert!(is_lost(store.renew(&held(first), LONG).await));
    assert!(is_lost(store.begin_call(&held(first), "c2").await));
    assert!(is_lost(store.end_call(&held(first), "c1", Bytes::new()).await));
    let results = record(&turn("r", "t"));
    assert!(is_lost(store.finish_round(&held(first), results, Bytes::new()).await));
    assert_eq!(ids(&store, "c").await, ["t"]);
}

pub async fn what_had_begun_is_found_by_the_next_holder(store: Arc<dyn Store>) {
    let first = Uuid::new_v4();
    open(&store, first, Duration::ZERO).await;
    for call in ["done", "cut", "odd\0 id: ü"] {
        store.begin_call(&held(first), call).await.expect("begun");
        store.begin_call(&held(first), call).await.expect("begun again");
    }
    store.end_call(&held(first), "done", "result".into()).await.expect("ended");
    let second = Uuid::new_v4();
    let Opened::Held(mut calls) = open(&store, second, LONG).await else { panic!("not taken") };
    calls.sort_by(|a, b| a.id.cmp(&b.id));
    let recorded = |id: &str, outcome: Option<&'static str>| RecordedCall {
        id: id.to_owned(),
        outcome: outcome.map(Bytes::from),
    };
    assert_eq!(
        calls,
        [recorded("cut", None), recorded("done", Some("result")), recorded("odd\0 id: ü", None)]
    );
}

pub async fn a_finished_round_stays_as_it_is(store: Arc<dyn Store>) {
    let owner = Uuid::new_v4();
    open(&store, owner, LONG).await;
    store.begin_call(&held(owner), "c1").await.expect("begun");
    let broken = store.finish_round(&held(owner), record(&turn("r", "nowhere")), "-".into()).await;
    assert!(matches!(broken, Err(StoreError::MissingPrevious(_))));
    let results = record(&turn("r", "t"));
    store.finish_round(&held(owner), results.clone(), "sum".into()).await.expect("finished");
    assert_eq!(ids(&store, "c").await, ["t", "r"]);
    // By a holder who did not hear that it was.
    store.finish_round(&held(owner), results.clone(), "sum".into()).await.expect("finished");
    assert_eq!(ids(&store, "c").await, ["t", "r"]);
    for asking in [owner, Uuid::new_v4()] {
        assert_eq!(open(&store, asking, LONG).await, Opened::Finished("sum".into()));
    }
    assert!(is_lost(store.begin_call(&held(owner), "c1").await));
    assert!(is_lost(store.finish_round(&held(owner), results, "other".into()).await));
}

pub async fn a_round_goes_with_its_conversation(store: Arc<dyn Store>) {
    let owner = Uuid::new_v4();
    append(&store, "c", &turn("a", "")).await.expect("appended");
    open(&store, owner, LONG).await;
    store.begin_call(&held(owner), "c1").await.expect("begun");
    store.delete(&name("c")).await.expect("deleted");
    assert!(is_lost(store.end_call(&held(owner), "c1", Bytes::new()).await));
    assert!(is_lost(store.finish_round(&held(owner), record(&turn("r", "t")), "s".into()).await));
    let again = open(&store, Uuid::new_v4(), LONG).await;
    assert_eq!(again, Opened::Held(vec![]));
}

//! Watching a conversation.

use std::{pin::pin, sync::Arc};

use a11_grpc::interaction::store::{Store, StoreError, Watched, watch};
use a11_grpc::wire::{Reason, Status};
use futures::{FutureExt as _, StreamExt as _};

use crate::turns::{append, name, turn};

/// What a watcher was told: an interaction's id, or that it caught up.
fn told(watched: Option<Result<Watched, StoreError>>) -> String {
    match watched.expect("goes on").expect("watched") {
        Watched::Record(stored) => format!("{}:{}", stored.position, stored.id),
        Watched::CaughtUp(position) => format!("caught up at {position}"),
    }
}

pub async fn a_watcher_gets_what_is_there_and_then_what_comes(store: Arc<dyn Store>) {
    let mut early = pin!(watch(store.clone(), name("c"), 0));
    assert_eq!(told(early.next().await), "caught up at 0");
    append(&store, "c", &turn("a", "")).await.expect("appended");
    append(&store, "c", &turn("b", "a")).await.expect("appended");
    let mut late = pin!(watch(store.clone(), name("c"), 0));
    assert_eq!(told(late.next().await), "1:a");
    assert_eq!(told(late.next().await), "2:b");
    assert_eq!(told(late.next().await), "caught up at 2");
    assert!(late.next().now_or_never().is_none(), "nothing has come");
    append(&store, "c", &turn("c", "b")).await.expect("appended");
    assert_eq!(told(late.next().await), "3:c");
    for expected in ["1:a", "2:b", "3:c"] {
        assert_eq!(told(early.next().await), expected);
    }
}

pub async fn a_watch_resumes_and_ends_with_the_conversation(store: Arc<dyn Store>) {
    for id in ["a", "b", "c"] {
        append(&store, "c", &turn(id, "")).await.expect("appended");
    }
    let mut resumed = pin!(watch(store.clone(), name("c"), 2));
    assert_eq!(told(resumed.next().await), "3:c");
    assert_eq!(told(resumed.next().await), "caught up at 3");
    store.delete(&name("c")).await.expect("deleted");
    // Begun anew, and shorter: what was watched is gone all the same.
    append(&store, "c", &turn("a", "")).await.expect("appended");
    let end = resumed.next().await;
    let Some(Err(error @ StoreError::EndsBefore { after: 3, length: 1, .. })) = end else {
        panic!("{end:?}");
    };
    let status = Status::from(error);
    assert_eq!(status.reason, Reason::UnknownConversation);
    assert!(status.message.starts_with("after_position: "), "{status}");
    assert!(resumed.next().await.is_none());
}

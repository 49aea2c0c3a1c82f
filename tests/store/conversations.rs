//! Conversations: appended, returned, listed, deleted, exported and imported.

use std::sync::Arc;

use a11_grpc::interaction::{
    document::{self, Form},
    store::{After, Existed, Record, Store, StoreError, lines},
};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, future::join_all};

use crate::turns::{all, append, id, ids, name, turn};

/// Bytes with more in them than the schema knows: field 1,000, and an own key.
fn with_unknown_fields(id: &str) -> [(Bytes, &'static str); 2] {
    let mut protobuf = document::encode(&turn(id, ""), Form::Protobuf).expect("encoded").to_vec();
    protobuf.extend_from_slice(&[0xc0, 0x3e, 7]);
    let json = format!("{{ \"id\": \"{id}j\",\n \"colour\": [null, 1e3], \"role\": \"model\" }}");
    [
        (protobuf.into(), "application/x-protobuf"),
        (json.into(), "application/json; type=a11.sdk.Interaction"),
    ]
}

pub async fn what_was_appended_is_returned_as_the_bytes_it_came_as(store: Arc<dyn Store>) {
    for (position, (bytes, media_type)) in (1..).zip(with_unknown_fields("x")) {
        let record = Record::from_bytes(bytes.clone(), media_type).expect("can be kept");
        let record_id = record.id().clone();
        let appended = store.append(&name("c"), record).await.expect("appended");
        assert_eq!((appended.position, appended.existed), (position, Existed::No));
        let stored = store.get(&name("c"), &record_id).await.expect("there");
        assert_eq!((stored.bytes, stored.media_type.as_str()), (bytes, media_type));
        assert_eq!((stored.position, stored.id.as_str()), (position, record_id.as_str()));
        assert_eq!(stored.appended_at_millis, appended.at_millis);
    }
    let unknown = store.get(&name("c"), &id("other")).await;
    assert!(matches!(unknown, Err(StoreError::UnknownInteraction(id)) if id == "other"));
    let unknown = store.get(&name("d"), &id("x")).await;
    assert!(matches!(unknown, Err(StoreError::UnknownConversation(name)) if name == "d"));
}

pub async fn the_same_interaction_again_is_the_same_record(store: Arc<dyn Store>) {
    let first = append(&store, "c", &turn("a", "")).await.expect("appended");
    append(&store, "c", &turn("b", "a")).await.expect("appended");
    let json = document::encode(&turn("a", ""), Form::PortableJson).expect("encoded");
    let other_form = Record::from_bytes(json, document::PORTABLE_JSON).expect("can be kept");
    let again = store.append(&name("c"), other_form).await.expect("the same");
    assert_eq!((again.position, again.existed), (1, Existed::Yes));
    assert_eq!(again.at_millis, first.at_millis);
    assert_eq!(ids(&store, "c").await, ["a", "b"]);
    assert_eq!(all(&store, "c").await[0].media_type, document::PROTOBUF);
    // Ids are of one conversation.
    let elsewhere = append(&store, "d", &turn("a", "")).await.expect("appended");
    assert_eq!(elsewhere.existed, Existed::No);
}

pub async fn another_interaction_of_an_id_is_refused(store: Arc<dyn Store>) {
    append(&store, "c", &turn("a", "")).await.expect("appended");
    let mut other = turn("a", "");
    other.model = "m".to_owned();
    let refused = append(&store, "c", &other).await;
    assert!(matches!(refused, Err(StoreError::Conflict(id)) if id == "a"));
    assert_eq!(ids(&store, "c").await, ["a"]);
}

pub async fn what_an_interaction_follows_must_be_in_the_conversation(store: Arc<dyn Store>) {
    append(&store, "c", &turn("a", "")).await.expect("appended");
    let check = |conversation: &'static str, previous: &'static str| {
        let store = store.clone();
        async move {
            let refused = append(&store, conversation, &turn("z", previous)).await;
            assert!(
                matches!(refused, Err(StoreError::MissingPrevious(missing)) if missing == previous)
            );
        }
    };
    check("c", "b").await;
    check("c", "z").await;
    check("d", "a").await;
    let none = store.conversation(&name("d")).await;
    assert!(matches!(none, Err(StoreError::UnknownConversation(_))));
    append(&store, "c", &turn("b", "a")).await.expect("appended");
    append(&store, "c", &turn("unlinked", "")).await.expect("a link is optional");
}

pub async fn a_page_ends_with_its_count_or_its_bytes(store: Arc<dyn Store>) {
    for at in 0..25 {
        append(&store, "c", &turn(&format!("{at:02}"), "")).await.expect("appended");
    }
    let size = all(&store, "c").await[0].bytes.len();
    let check = |position: u64, count: usize, bytes: usize, expected: std::ops::Range<usize>| {
        let store = store.clone();
        async move {
            let page = store.list(&name("c"), After { position, count, bytes }).await;
            let ids: Vec<_> = page.expect("listed").into_iter().map(|stored| stored.id).collect();
            let expected: Vec<_> = expected.map(|at| format!("{at:02}")).collect();
            assert_eq!(ids, expected, "{position} {count} {bytes}");
        }
    };
    check(0, 10, 1 << 20, 0..10).await;
    check(20, 10, 1 << 20, 20..25).await;
    check(25, 10, 1 << 20, 25..25).await;
    check(u64::MAX, 10, 1 << 20, 25..25).await;
    check(5, 10, 3 * size, 5..8).await;
    check(5, 10, 1, 5..6).await;
}

pub async fn forks_are_listed_with_what_follows(store: Arc<dyn Store>) {
    for (id, previous) in [
        ("a", ""),
        ("b", "a"),
        ("c", "a"),
        ("d", "b"),
        ("e", "d"),
        ("f", "d"),
        ("g", "d"),
        ("h", ""),
    ] {
        append(&store, "c", &turn(id, previous)).await.expect("appended");
    }
    let check =
        |after: u64, limit: usize, expected: &'static [(&'static str, u64, &'static str)]| {
            let store = store.clone();
            async move {
                let forks = store.forks(&name("c"), after, limit).await.expect("listed");
                let forks: Vec<_> = forks
                    .iter()
                    .map(|fork| (fork.id.as_str(), fork.position, fork.next_ids.concat()))
                    .collect();
                let expected: Vec<_> =
                    expected.iter().map(|(id, at, next)| (*id, *at, (*next).to_owned())).collect();
                assert_eq!(forks, expected);
            }
        };
    check(0, 10, &[("a", 1, "bc"), ("d", 4, "efg")]).await;
    check(0, 1, &[("a", 1, "bc")]).await;
    check(1, 10, &[("d", 4, "efg")]).await;
    check(4, 10, &[]).await;
}

pub async fn conversations_are_listed_by_name(store: Arc<dyn Store>) {
    for conversation in ["b/2", "a", "b/10", "B", "b%", "ü"] {
        append(&store, conversation, &turn("x", "")).await.expect("appended");
    }
    append(&store, "a", &turn("y", "x")).await.expect("appended");
    let check = |prefix: &'static str, after: &'static str, limit, expected: &'static [&str]| {
        let store = store.clone();
        async move {
            let after = Some(after).filter(|after| !after.is_empty()).map(name);
            let found = store.conversations(prefix, after.as_ref(), limit).await.expect("listed");
            let names: Vec<_> = found.iter().map(|found| found.name.as_str()).collect();
            assert_eq!(names, expected, "{prefix:?} {after:?}");
        }
    };
    check("", "", 10, &["B", "a", "b%", "b/10", "b/2", "ü"]).await;
    check("b", "", 10, &["b%", "b/10", "b/2"]).await;
    check("b", "b%", 1, &["b/10"]).await;
    check("b%", "", 10, &["b%"]).await;
    check("c", "", 10, &[]).await;
    check("a\0", "", 10, &[]).await;
    let a = store.conversation(&name("a")).await.expect("there");
    assert_eq!(a.length, 2);
    assert!(a.created_at_millis <= a.updated_at_millis);
}

pub async fn a_deleted_conversation_is_gone_and_can_begin_anew(store: Arc<dyn Store>) {
    append(&store, "c", &turn("a", "")).await.expect("appended");
    append(&store, "c", &turn("b", "a")).await.expect("appended");
    append(&store, "d", &turn("a", "")).await.expect("appended");
    assert_eq!(store.delete(&name("c")).await.expect("deleted"), 2);
    let gone = store.delete(&name("c")).await;
    assert!(matches!(gone, Err(StoreError::UnknownConversation(_))));
    let gone = store.list(&name("c"), After::position(0)).await;
    assert!(matches!(gone, Err(StoreError::UnknownConversation(_))));
    assert_eq!(append(&store, "c", &turn("b", "")).await.expect("appended").position, 1);
    assert_eq!(ids(&store, "d").await, ["a"]);
}

pub async fn names_and_ids_of_any_script_are_kept_apart(store: Arc<dyn Store>) {
    let texts = ["a", "A", "ä", "a\u{308}", "a ", " a", "'; --", "%", "_", "😀", "ﬁ", "fi"];
    for text in texts {
        for conversation in texts {
            append(&store, conversation, &turn(text, "")).await.expect("appended");
        }
    }
    for conversation in texts {
        assert_eq!(ids(&store, conversation).await, texts);
        for text in texts {
            assert_eq!(store.get(&name(conversation), &id(text)).await.expect("there").id, text);
        }
    }
}

pub async fn writers_of_one_conversation_get_positions_without_gaps(store: Arc<dyn Store>) {
    let writers = (0..32).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for at in 0..8 {
                // Each appends one of its own, and one that all append.
                let own = turn(&format!("{writer}-{at}"), "");
                append(&store, "c", &own).await.expect("appended");
                append(&store, "c", &turn(&format!("shared-{at}"), "")).await.expect("appended");
            }
        })
    });
    for writer in join_all(writers).await {
        writer.expect("joined");
    }
    let positions: Vec<u64> = all(&store, "c").await.iter().map(|stored| stored.position).collect();
    assert_eq!(positions, (1..=32 * 8 + 8).collect::<Vec<_>>());
    assert_eq!(store.conversation(&name("c")).await.expect("there").length, 32 * 8 + 8);
}

pub async fn an_export_imports_as_the_same_bytes(store: Arc<dyn Store>) {
    for (bytes, media_type) in with_unknown_fields("x") {
        let record = Record::from_bytes(bytes, media_type).expect("can be kept");
        store.append(&name("c"), record).await.expect("appended");
    }
    for at in 0..150 {
        append(&store, "c", &turn(&at.to_string(), "x")).await.expect("appended");
    }
    let exported: Vec<Bytes> =
        lines::export(store.clone(), name("c"), 0).try_collect().await.expect("exported");
    assert_eq!(exported.concat().iter().filter(|byte| **byte == b'\n').count(), 152);
    let mut import = lines::Import::default();
    for lines in exported.iter().chain(&exported) {
        import.append(store.as_ref(), &name("d"), lines.clone()).await.expect("imported");
    }
    assert_eq!((import.appended, import.existed), (152, 152));
    let bytes = |stored: Vec<a11_grpc::interaction::store::Stored>| -> Vec<_> {
        stored.into_iter().map(|stored| (stored.id, stored.media_type, stored.bytes)).collect()
    };
    assert_eq!(bytes(all(&store, "d").await), bytes(all(&store, "c").await));
    // Cut anywhere, and without the last line feed.
    let text = exported.concat();
    let mut import = lines::Import::default();
    for piece in text[..text.len() - 1].chunks(1_001) {
        let piece = Bytes::copy_from_slice(piece);
        import.append(store.as_ref(), &name("e"), piece).await.expect("imported");
    }
    import.finish(store.as_ref(), &name("e")).await.expect("imported");
    assert_eq!((import.appended, import.existed), (152, 0));
    assert_eq!(bytes(all(&store, "e").await), bytes(all(&store, "c").await));
    let rest: Vec<_> = lines::export(store.clone(), name("c"), 150).collect().await;
    let rest = rest.into_iter().map(|lines| lines.expect("exported")).collect::<Vec<_>>().concat();
    assert_eq!(rest.iter().filter(|byte| **byte == b'\n').count(), 2);
}

pub async fn foreign_lines_are_imported_and_a_bad_one_is_named(store: Arc<dyn Store>) {
    let text = "\n{\"id\":\"a\",\"role\":\"user\",\"colour\":1}\r\n\
                {\"id\":\"b\",\"role\":\"ROLE_MODEL\",\"previousInteractionId\":\"a\"}\n\
                {\"id\":\"c\",\"role\":\"user\",\"previous_interaction_id\":\"z\"}\n\
                {\"id\":\"d\"}";
    let mut import = lines::Import::default();
    let refused = import.append(store.as_ref(), &name("c"), text.into()).await;
    let message = refused.expect_err("a bad line").message;
    assert!(message.starts_with("line 4: ") && message.contains("\"z\""), "{message}");
    assert_eq!(import.appended, 2);
    assert_eq!(ids(&store, "c").await, ["a", "b"]);
    let kept = &all(&store, "c").await[0].bytes;
    assert!(kept.starts_with(b"{\"id\":\"a\",\"role\":\"user\",\"colour\":1}"), "{kept:?}");
}

//! Files of every past version keep opening.

use std::{fs, path::Path, sync::Arc};

use a11_grpc::interaction::store::{Opened, Store, open, sqlite};
use uuid::Uuid;

use crate::turns::{all, append, calling, name, record, turn};

/// What every fixture was made with.
async fn fill(store: &Arc<dyn Store>) {
    append(store, "old", &turn("a", "")).await.expect("appended");
    let asked = calling("t", &[("c1", "x")]);
    let owner = Uuid::nil();
    store
        .open_round(&name("old"), record(&asked), owner, std::time::Duration::ZERO)
        .await
        .expect("opened");
    let key = a11_grpc::interaction::store::RoundKey {
        conversation: name("old"),
        turn: crate::turns::id("t"),
    };
    let round = a11_grpc::interaction::store::HeldRound { key, owner };
    store.begin_call(&round, "c1").await.expect("begun");
}

fn fixture(version: usize) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/store_v{version}.db"))
}

/// Makes the fixture of the present version: when a version is added, once.
#[tokio::test]
#[ignore = "writes tests/data"]
async fn write_the_fixture_of_this_version() {
    let path = fixture(1);
    let store = open(path.to_str().expect("UTF-8")).await.expect("opens");
    fill(&store).await;
}

#[tokio::test]
async fn a_file_of_every_version_opens_and_goes_on() {
    for version in 1..=1 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store.db");
        fs::copy(fixture(version), &path).expect("copied");
        let store = open(path.to_str().expect("UTF-8")).await.expect("opens");
        let stored = all(&store, "old").await;
        assert_eq!(stored[0].interaction().expect("readable"), turn("a", ""));
        let asked = calling("t", &[("c1", "x")]);
        assert_eq!(stored[1].interaction().expect("readable"), asked);
        let lease = std::time::Duration::from_secs(1);
        let opened = store.open_round(&name("old"), record(&asked), Uuid::new_v4(), lease).await;
        let Ok(Opened::Held(calls)) = opened else { panic!("{opened:?}") };
        assert_eq!((calls[0].id.as_str(), &calls[0].outcome), ("c1", &None));
        assert_eq!(append(&store, "old", &turn("b", "a")).await.expect("appended").position, 3);
    }
}

#[tokio::test]
async fn a_file_that_is_not_ours_or_newer_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = async |sql: &str, is_expected: fn(&sqlite::OpenError) -> bool| {
        let path = folder.path().join("x.db");
        fs::remove_file(&path).ok();
        rusqlite::Connection::open(&path)
            .and_then(|connection| connection.execute_batch(sql))
            .expect("made");
        let before = fs::read(&path).expect("readable");
        let refused = sqlite::SqliteStore::open(&path).await.expect_err("refused");
        assert!(is_expected(&refused), "{refused}");
        assert_eq!(fs::read(&path).expect("readable"), before);
    };
    check("CREATE TABLE other (a)", |error| matches!(error, sqlite::OpenError::Foreign(_))).await;
    check(
        "CREATE TABLE conversation (a); PRAGMA application_id = 1630613875; PRAGMA user_version = 9",
        |error| matches!(error, sqlite::OpenError::Newer { found: 9, .. }),
    )
    .await;
    fs::write(folder.path().join("text"), "no database, but text that is long enough")
        .expect("written");
    let refused = sqlite::SqliteStore::open(folder.path().join("text")).await;
    assert!(matches!(refused, Err(sqlite::OpenError::Sqlite { .. })), "{refused:?}");
    let refused = open("mysql://somewhere/else").await.map(drop);
    assert!(refused.is_err_and(|error| error.to_string().contains("mysql")));
}

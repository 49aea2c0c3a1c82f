//! A PostgreSQL database that several processes share, and connections that break.

use std::time::Duration;

use a11_grpc::interaction::store::open;
use tokio::time::timeout;

use crate::{
    postgres::Server,
    turns::{append, ids, name, turn},
};

/// Longer than anything here takes, and shorter than any fallback would.
const SOON: Duration = Duration::from_secs(8);

#[tokio::test]
async fn what_one_process_appends_another_hears_of() {
    let Some(server) = Server::start() else { return };
    let url = server.fresh_url("heard").await;
    let (here, there) = (open(&url).await.expect("opens"), open(&url).await.expect("opens"));
    let mut changes = here.changes(&name("c"));
    for at in 0..6 {
        if at == 3 {
            server.break_connections().await;
        }
        // The first time it may be only that others are heard from now on.
        append(&there, "c", &turn(&at.to_string(), "")).await.expect("appended");
        let heard = timeout(SOON, changes.changed()).await;
        heard.unwrap_or_else(|_| panic!("nothing is heard of {at}")).expect("the store is there");
    }
    assert!(here.poll_interval() > Duration::from_secs(1), "it need not look often");
}

#[tokio::test]
async fn a_broken_connection_is_made_again() {
    let Some(server) = Server::start() else { return };
    let store = open(&server.fresh_url("broken").await).await.expect("opens");
    let mut expected = vec![];
    for at in 0..20 {
        let id = at.to_string();
        append(&store, "c", &turn(&id, "")).await.expect("appended");
        expected.push(id);
        server.break_connections().await;
        assert_eq!(ids(&store, "c").await, expected);
    }
}

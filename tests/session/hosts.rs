//! Which sessions run an action, as callers are told it while hosts come and go.

use std::sync::Arc;

use a11_grpc::action::{Host, Registry};
use a11_grpc::client::{Client, Peer, actions};
use a11_grpc::wire::pb::{self, action_host};
use prost::Message as _;
use serde_json::{Value, json};

use crate::service::{Service, host_name};

async fn attach(service: &Service, name: &str) -> Client {
    let registry = Arc::new(Registry::new());
    host_name(&registry, "who", "a peer");
    let peer = Peer::host(registry).named(name);
    peer.connect(service.channel().await).await.expect("attaches")
}

fn short(client: &Client) -> String {
    client.session().id()[..8].to_owned()
}

/// Peers, with the beginnings of their sessions' ids.
fn peers(hosts: Option<&pb::ActionHosts>) -> Vec<(String, String)> {
    let peer = |host: &pb::ActionHost| match host.host.clone().expect("a host") {
        action_host::Host::Peer(peer) => (peer.name, peer.session),
        action_host::Host::McpServer(name) => panic!("{name}"),
    };
    hosts.map(|hosts| hosts.hosts.iter().map(peer).collect()).unwrap_or_default()
}

async fn listed(service: &Service) -> pb::ListActionsResponse {
    let request = pb::ListActionsRequest { include_document: true, ..Default::default() };
    let mut client = actions(service.channel().await);
    client.list_actions(request).await.expect("lists").into_inner()
}

#[tokio::test]
async fn who_runs_an_action_is_told_and_no_id_that_lets_in() {
    let service = Service::start().await;
    host_name(&service.registry, "own", "the service");
    let (one, two) = (attach(&service, "worker").await, attach(&service, "worker").await);
    let unnamed = attach(&service, "").await;
    let host = |client: &Client, name: &str| (name.to_owned(), short(client));
    let all = vec![host(&one, "worker"), host(&two, "worker"), host(&unnamed, "")];

    let page = listed(&service).await;
    assert_eq!(page.hosts.keys().collect::<Vec<_>>(), ["who"]);
    assert_eq!((peers(page.hosts.get("who")), page.hosts["who"].others), (all.clone(), 0));
    let document: Value = serde_json::from_str(&page.document).expect("a document");
    let hosts = |at: usize| &document["actions"][at]["hosts"];
    assert_eq!(*hosts(0), Value::Null, "own");
    assert_eq!(hosts(1)[2], json!({"peer": "", "session": short(&unnamed)}));
    let bytes = page.encode_to_vec();
    for client in [&one, &two, &unnamed] {
        let session = client.session();
        let is_told = bytes.windows(session.id().len()).any(|it| it == session.id().as_bytes());
        assert!(!is_told, "with all of an id its session can be reached");
    }

    let mut client = actions(service.channel().await);
    let mut described = async |name: &str| {
        let request = pb::GetActionRequest { name: name.to_owned(), ..Default::default() };
        client.get_action(request).await.expect("is there").into_inner().hosts
    };
    assert_eq!(described("own").await, None);
    assert_eq!(peers(described("who").await.as_ref()), all);

    // At its session it has that host alone.
    let at_session = service.registry.entry_at(two.session().id(), "who").expect("is attached");
    let expected = Host::Peer { name: "worker".to_owned(), session: short(&two) };
    assert_eq!(at_session.hosts().listed, [expected]);

    let session = service.directory.session(one.session().id()).expect("attached");
    one.close().await;
    session.ended().await;
    assert_eq!(peers(described("who").await.as_ref()), all[1..]);
    for client in [two, unnamed] {
        client.close().await;
    }
    service.until(|registry| registry.entry("who").is_none()).await;
    assert!(listed(&service).await.hosts.is_empty());
}

#[tokio::test]
async fn so_many_hosts_are_named_and_the_others_counted() {
    let service = Service::start().await;
    let mut clients = vec![];
    for at in 0..18 {
        clients.push(attach(&service, &format!("worker {at}")).await);
    }
    let page = listed(&service).await;
    let names: Vec<_> = peers(page.hosts.get("who")).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, (0..16).map(|at| format!("worker {at}")).collect::<Vec<_>>());
    assert_eq!(page.hosts["who"].others, 2);
    let document: Value = serde_json::from_str(&page.document).expect("a document");
    assert_eq!(document["actions"][0]["other_hosts"], 2);
}

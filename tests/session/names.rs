//! Who serves a name: in turn, one schema a name, the service's own first.

use std::{sync::Arc, time::Duration};

use a11_grpc::action::schema::{Ports, Runnable};
use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
use a11_grpc::client::{Client, Peer};
use a11_grpc::session::Session;
use a11_grpc::wire::pb::{RefusedAction, frame::Body};
use a11_grpc::wire::{Reason, Status};
use futures::FutureExt as _;

use crate::frames::Frames;
use crate::service::{Service, host_endless, host_name};

fn hosting(action: &str, answer: &'static str) -> Arc<Registry> {
    let registry = Arc::new(Registry::new());
    host_name(&registry, action, answer);
    registry
}

fn reasons(refused: &[RefusedAction]) -> Vec<(&str, Reason)> {
    let reason =
        |refused: &RefusedAction| Status::from(refused.status.clone().unwrap_or_default()).reason;
    refused.iter().map(|refused| (refused.name.as_str(), reason(refused))).collect()
}

#[tokio::test]
async fn peers_with_one_action_serve_it_in_turn() {
    let service = Service::start().await;
    let mut hosts = vec![];
    for answer in ["one", "two", "three"] {
        let peer = Peer::host(hosting("who", answer)).named(answer);
        hosts.push(peer.connect(service.channel().await).await.expect("attaches"));
    }
    let caller = Client::connect(service.channel().await).await.expect("attaches");
    let mut answers = vec![];
    for _ in 0..6 {
        let outputs = caller.call("who").run().await.expect("runs");
        answers.push(outputs.value::<String>("name").expect("a name"));
    }
    assert_eq!(answers[..3], answers[3..]);
    answers.truncate(3);
    answers.sort();
    assert_eq!(answers, ["one", "three", "two"]);
}

#[tokio::test]
async fn names_of_the_service_and_other_schemas_are_refused() {
    let service = Service::start().await;
    host_name(&service.registry, "own", "the service");
    let first = Peer::host(hosting("who", "first")).named("the first");
    let _first = first.connect(service.channel().await).await.expect("attaches");

    let other = hosting("own", "a peer");
    let schema = ActionSchema::builder("who").output(Port::json("name")).build();
    let run = |_: Context| async { Ok(()) };
    other.register(schema, handler(run)).expect("registers");
    let other = Peer::host(other).connect(service.channel().await).await.expect("attaches");
    let refused = other.refused();
    assert_eq!(reasons(&refused), [("own", Reason::NameTaken), ("who", Reason::NameTaken)]);
    let why = |at: usize| refused[at].status.clone().unwrap_or_default().message;
    assert!(why(0).contains("the service itself"), "{}", why(0));
    assert!(why(1).contains(r#"by peer "the first", with another schema"#), "{}", why(1));

    let caller = Client::connect(service.channel().await).await.expect("attaches");
    for (action, answer) in [("own", "the service"), ("who", "first")] {
        let outputs = caller.call(action).run().await.expect("runs");
        assert_eq!(outputs.value::<String>("name").expect("a name"), answer);
    }
}

/// A program whose `who` has the schema of no other `who`.
fn hosting_otherwise(answer: &'static str) -> Peer {
    let registry = Arc::new(Registry::new());
    let schema = ActionSchema::builder("who").describe("Differs.").output(Port::text("name"));
    let run = move |context: Context| async move { context.write("name", answer).await };
    registry.register(schema.build(), handler(run)).expect("registers");
    Peer::host(registry)
}

#[tokio::test]
async fn a_name_that_becomes_free_goes_to_those_that_wait_for_it_in_turn() {
    let service = Service::start().await;
    let attach = async |peer: Peer| peer.connect(service.channel().await).await.expect("attaches");
    let holder = attach(Peer::host(hosting("who", "holder"))).await;
    let second = attach(hosting_otherwise("second")).await;
    let leaving = attach(hosting_otherwise("leaves before it is its turn")).await;
    let third = attach(Peer::host(hosting("who", "third"))).await;
    let fourth = attach(hosting_otherwise("fourth")).await;
    for refused in [&second, &leaving, &fourth] {
        assert_eq!(reasons(&refused.refused()), [("who", Reason::NameTaken)]);
    }
    assert_eq!(reasons(&third.refused()), []);
    let leave = async |peer: Client| {
        let session = service.directory.session(peer.session().id()).expect("attached");
        peer.close().await;
        session.ended().await;
    };
    leave(leaving).await;

    let caller = Client::connect(service.channel().await).await.expect("attaches");
    let check = async |expected: &[&str]| {
        let described = |registry: &Registry| {
            registry.entry("who").map(|entry| entry.schema().description().to_owned())
        };
        let wanted = if expected.contains(&"second") { "Differs." } else { "" };
        service.until(|registry| described(registry).as_deref() == Some(wanted)).await;
        let mut answers = vec![];
        for _ in expected {
            let outputs = caller.call("who").run().await.expect("runs");
            answers.push(outputs.value::<String>("name").expect("a name"));
        }
        answers.sort();
        assert_eq!(answers, expected);
    };
    check(&["holder", "third"]).await;
    leave(holder).await;
    check(&["third"]).await;
    leave(third).await;
    check(&["fourth", "second"]).await;
}

#[tokio::test]
async fn a_program_started_anew_has_its_names_once_its_old_connection_breaks() {
    let service = Service::start().await;
    let schema = ActionSchema::builder("who").output(Port::text("name").required()).build();
    let who = schema.expect("a schema").to_message(Runnable::Yes, Ports::All);
    let mut killed = Frames::open_as(&service, "worker", vec![who]).await;
    let caller = Client::connect(service.channel().await).await.expect("attaches");
    let mut run = caller.call("who").start().await.expect("starts");
    assert!(matches!(killed.next().await, Body::Call(_)));

    let attach = async |peer: Peer| peer.connect(service.channel().await).await.expect("attaches");
    let stranger = attach(hosting_otherwise("a stranger").named("another")).await;
    let anew = attach(hosting_otherwise("started anew").named("worker")).await;
    for refused in [&stranger, &anew] {
        assert_eq!(reasons(&refused.refused()), [("who", Reason::NameTaken)]);
    }
    drop(killed);
    let differs = |registry: &Registry| {
        registry.entry("who").is_some_and(|it| it.schema().description() == "Differs.")
    };
    service.until(differs).await;
    for _ in 0..2 {
        let outputs = caller.call("who").run().await.expect("runs");
        assert_eq!(outputs.value::<String>("name").expect("a name"), "started anew");
    }
    // What ran at the old one may still end well: it has its grace period.
    assert!(run.finished().now_or_never().is_none());
}

/// Waits until the connection of a session has broken.
async fn broken(session: &Session) {
    let waited = async {
        while session.is_connected() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waited).await.expect("is noticed");
}

fn is_otherwise(registry: &Registry) -> Option<bool> {
    registry.entry("who").map(|entry| entry.schema().description() == "Differs.")
}

/// Opens a session that hosts the plain `who`.
async fn open_plain(service: &Service) -> Frames {
    let who = hosting("who", "plain").entry("who").expect("is there");
    let schema = who.schema().to_message(Runnable::Yes, Ports::All);
    Frames::open_as(service, "worker", vec![schema]).await
}

#[tokio::test]
async fn a_stranger_that_was_refused_waits_for_as_long_as_the_holder_may_come_back() {
    let service = Service::start().await;
    let holder = open_plain(&service).await;
    let held = service.directory.sessions().pop().expect("is attached");
    let stranger = hosting_otherwise("a stranger").named("another");
    let stranger = stranger.connect(service.channel().await).await.expect("attaches");
    assert_eq!(reasons(&stranger.refused()), [("who", Reason::NameTaken)]);
    drop(holder);
    broken(&held).await;
    // What a broken connection sets off has been done once another call is over.
    let refused = stranger.call("absent").run().await.expect_err("is nowhere");
    assert_eq!(refused.reason, Reason::UnknownAction);
    assert_eq!(is_otherwise(&service.registry), Some(false));
    held.end(Status::of(Reason::PeerLost, "it did not come back"));
    service.until(|registry| is_otherwise(registry) == Some(true)).await;
    let outputs = stranger.call("who").run().await.expect("runs");
    assert_eq!(outputs.value::<String>("name").expect("a name"), "a stranger");
}

#[tokio::test]
async fn a_holder_whose_connection_broke_is_replaced_by_who_publishes_then() {
    let service = Service::start().await;
    let holder = open_plain(&service).await;
    let held = service.directory.sessions().pop().expect("is attached");
    drop(holder);
    broken(&held).await;
    let newcomer = hosting_otherwise("a newcomer").named("another");
    let newcomer = newcomer.connect(service.channel().await).await.expect("attaches");
    assert_eq!(reasons(&newcomer.refused()), []);
    assert_eq!(is_otherwise(&service.registry), Some(true));
    // The holder may come back, and has its name again once it is free.
    assert!(!held.is_over() && service.registry.entry_at(held.id(), "who").is_ok());
    newcomer.close().await;
    service.until(|registry| is_otherwise(registry) == Some(false)).await;
    held.end(Status::of(Reason::PeerLost, "it did not come back"));
    service.until(|registry| registry.entry("who").is_none()).await;
}

#[tokio::test]
async fn what_is_added_and_removed_while_attached_is_published() {
    let service = Service::start().await;
    let hosted = Arc::new(Registry::new());
    let host = Peer::host(hosted.clone()).connect(service.channel().await).await.expect("attaches");
    host_name(&hosted, "late", "came later");
    service.until(|registry| registry.entry("late").is_some()).await;
    let outputs = host.call("late").run().await.expect("runs");
    assert_eq!(outputs.value::<String>("name").expect("a name"), "came later");
    hosted.remove("late");
    service.until(|registry| registry.entry("late").is_none()).await;
}

#[tokio::test]
async fn a_peer_that_leaves_takes_its_actions_along_and_its_calls_fail() {
    let service = Service::start().await;
    let hosted = Arc::new(Registry::new());
    let mut happened = host_endless(&hosted);
    let host = Peer::host(hosted).connect(service.channel().await).await.expect("attaches");
    let caller = Client::connect(service.channel().await).await.expect("attaches");
    let mut run = caller.call("endless").start().await.expect("starts");
    assert_eq!(happened.recv().await, Some("begun"));
    let (status, ()) = tokio::join!(run.finished(), host.close());
    assert_eq!(status.reason, Reason::PeerLost);
    assert_eq!(happened.recv().await, Some("dropped"));
    service.until(|registry| registry.entry("endless").is_none()).await;
    let status = caller.call("endless").run().await.expect_err("is gone");
    assert_eq!(status.reason, Reason::UnknownAction);
}

#[tokio::test]
async fn a_service_that_stops_ends_its_sessions() {
    let service = Service::with_grace(Duration::from_secs(60)).await;
    let host = Peer::host(hosting("who", "a")).connect(service.channel().await).await;
    let session = host.as_ref().expect("attaches").session();
    service.directory.shut_down().await;
    session.ended().await;
    assert!(service.registry.entry("who").is_none());
}

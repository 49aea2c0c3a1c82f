//! Actions that a program hosts and others call through the service.

use std::{sync::Arc, time::Duration};

use a11_grpc::action::{ActionSchema, Context, Event, Port, Registry, handler};
use a11_grpc::client::{Client, Peer};
use a11_grpc::wire::pb::{self, frame::Body};
use a11_grpc::wire::{Chunk, Code, Reason};

use crate::frames::Frames;
use crate::service::{Service, host_echo, host_endless, host_failure};

#[tokio::test]
async fn a_peers_action_streams_both_ways_to_another_peer() {
    let service = Service::start().await;
    let hosted = Arc::new(Registry::new());
    host_echo(&hosted);
    let _host = Peer::host(hosted).connect(service.channel().await).await.expect("attaches");
    let caller = Client::connect(service.channel().await).await.expect("attaches");

    let mut run = caller.call("echo").start().await.expect("starts");
    let mut values = run.input("values").expect("an input");
    let mut echoes = run.take_output("echoes").expect("an output");
    // Each value is answered before the next one is sent.
    for number in 0..100 {
        values.send(Chunk::text(number.to_string())).await.expect("is written");
        let piece = tokio::select! {
            piece = echoes.next() => piece.expect("no failure").expect("an echo"),
            event = until_finished(&mut run) => panic!("{event:?}"),
        };
        assert_eq!(piece.chunk().expect("a chunk").data(), number.to_string().as_bytes());
    }
    values.finish().await.expect("ends");
    assert!(until_finished(&mut run).await.is_ok());
    assert!(echoes.next().await.expect("no failure").is_none());
}

async fn until_finished(run: &mut a11_grpc::action::Run) -> a11_grpc::wire::Status {
    run.finished().await
}

#[tokio::test]
async fn large_streams_arrive_whole_and_in_order() {
    let service = Service::start().await;
    let hosted = Arc::new(Registry::new());
    host_echo(&hosted);
    let _host = Peer::host(hosted).connect(service.channel().await).await.expect("attaches");
    let caller = Client::connect(service.channel().await).await.expect("attaches");
    // Many times the window of a node, in pieces small and large.
    let values: Vec<String> =
        (0..3_000).map(|at| at.to_string().repeat(1 + at % 7 * 100)).collect();
    let outputs = caller.call("echo").argument("values", &values).run().await.expect("runs");
    assert_eq!(outputs.values::<String>("echoes").expect("texts"), values);
}

#[tokio::test]
async fn a_value_larger_than_every_window_crosses_whole() {
    let service = Service::start().await;
    let hosted = Arc::new(Registry::new());
    host_echo(&hosted);
    let _host = Peer::host(hosted).connect(service.channel().await).await.expect("attaches");
    let caller = Client::connect(service.channel().await).await.expect("attaches");
    let large = "x".repeat(10 << 20);
    let outputs = caller.call("echo").argument("values", &[&large]).run().await.expect("runs");
    assert_eq!(outputs.values::<String>("echoes").expect("texts"), [large]);
    // No frame holds this one; it is refused before anything is sent.
    let huge = "x".repeat(17 << 20);
    let status = caller.call("echo").argument("values", &[huge]).run().await.expect_err("fails");
    assert_eq!(status.reason, Reason::SessionLimit);
}

#[tokio::test]
async fn narration_and_failures_cross_with_their_own_status() {
    let service = Service::start().await;
    let hosted = Arc::new(Registry::new());
    host_failure(&hosted);
    host_echo(&hosted);
    let _host = Peer::host(hosted).connect(service.channel().await).await.expect("attaches");
    let caller = Client::connect(service.channel().await).await.expect("attaches");

    let status = caller.call("fail").run().await.expect_err("fails");
    assert_eq!((status.code, status.message.as_str()), (Code::NotFound, "no such row"));
    let status = caller.call("nowhere").run().await.expect_err("is unknown");
    assert_eq!(status.reason, Reason::UnknownAction);

    let mut run = caller.call("echo").argument("values", &["a"]).start().await.expect("starts");
    let mut logs = vec![];
    while let Some(event) = run.next_event().await {
        if let Event::Log(entry) = event {
            logs.push(entry.text);
        }
    }
    assert_eq!(logs, ["begun"]);
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_where_it_runs() {
    let service = Service::start().await;
    let hosted = Arc::new(Registry::new());
    let mut happened = host_endless(&hosted);
    let _host = Peer::host(hosted).connect(service.channel().await).await.expect("attaches");
    let caller = Client::connect(service.channel().await).await.expect("attaches");
    let run = caller.call("endless").start().await.expect("starts");
    assert_eq!(happened.recv().await, Some("begun"));
    drop(run);
    assert_eq!(happened.recv().await, Some("dropped"));
}

#[tokio::test]
async fn a_deadline_ends_the_call_on_every_side() {
    let service = Service::start().await;
    let hosted = Arc::new(Registry::new());
    let mut happened = host_endless(&hosted);
    let _host = Peer::host(hosted).connect(service.channel().await).await.expect("attaches");
    let caller = Client::connect(service.channel().await).await.expect("attaches");
    let call = caller.call("endless").timeout(Duration::from_millis(50));
    let status = call.run().await.expect_err("its time is up");
    assert_eq!(status.code, Code::DeadlineExceeded);
    assert_eq!(happened.recv().await, Some("begun"));
    assert_eq!(happened.recv().await, Some("dropped"));
}

#[tokio::test]
async fn a_reader_that_stops_holds_up_its_own_node_alone() {
    let service = Service::start().await;
    let hosted = Arc::new(Registry::new());
    let schema = ActionSchema::builder("two")
        .output(Port::text("unread").stream())
        .output(Port::text("read").stream())
        .build();
    let run = |context: Context| async move {
        let flood = async {
            // Never ends: nobody reads it.
            while context.write("unread", &"x".repeat(10_000)).await.is_ok() {}
        };
        let few = async {
            for _ in 0..1_000 {
                context.write("read", &"y".repeat(10_000)).await?;
            }
            context.output("read")?.finish().await
        };
        tokio::select! {
            () = flood => Ok(()),
            done = few => { done?; std::future::pending().await }
        }
    };
    hosted.register(schema, handler(run)).expect("registers");
    let _host = Peer::host(hosted).connect(service.channel().await).await.expect("attaches");
    let caller = Client::connect(service.channel().await).await.expect("attaches");
    let mut run = caller.call("two").start().await.expect("starts");
    let _unread = run.take_output("unread").expect("an output");
    let mut read = run.take_output("read").expect("an output");
    let mut pieces = 0;
    while let Some(piece) = read.next().await.expect("no failure") {
        pieces += usize::from(!piece.is_null());
    }
    assert_eq!(pieces, 1_000);
}

#[tokio::test]
async fn a_nested_call_of_a_call_with_the_longest_id_reaches_its_peer() {
    let service = Service::start().await;
    let hosted = Arc::new(Registry::new());
    host_echo(&hosted);
    let _host = Peer::host(hosted).connect(service.channel().await).await.expect("attaches");
    let run = |context: Context| async move { context.call("echo").run().await.map(drop) };
    service
        .registry
        .register(ActionSchema::builder("outer").build(), handler(run))
        .expect("is new");
    for id in ["i".repeat(255), "\u{1f600}".repeat(255)] {
        let mut caller = Frames::open(&service, vec![]).await;
        let call = pb::CallFrame { call: 1, id, action: "outer".into(), ..Default::default() };
        caller.send(Body::Call(call)).await;
        let status = caller.status().await;
        assert!(status.is_ok(), "{status}");
    }
}

//! What peers may not do, by frames that no client of ours would send.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
use a11_grpc::client::{Client, Peer, actions};
use a11_grpc::wire::pb::{self, frame::Body};
use a11_grpc::wire::{Chunk, NodeFragment, Reason, Status};

use crate::frames::Frames;
use crate::service::{Service, host_echo, host_endless, host_name};

fn at(seq: u32, fragment: NodeFragment) -> NodeFragment {
    NodeFragment { seq: Some(seq), ..fragment }
}

fn more(text: &str) -> NodeFragment {
    NodeFragment::more("text", Chunk::text(text))
}

fn last(text: &str) -> NodeFragment {
    NodeFragment::last("text", Chunk::text(text))
}

#[tokio::test]
async fn a_host_is_held_to_its_schema_however_soon_its_status_comes() {
    let check = async |fragments: Vec<NodeFragment>, expected: Result<&str, Reason>| {
        let service = Service::start().await;
        let text = pb::PortSchema {
            name: "text".into(),
            media_type: "text/plain".into(),
            required: true,
            unary: true,
            ..Default::default()
        };
        let tell =
            pb::ActionSchema { name: "tell".into(), outputs: vec![text], ..Default::default() };
        let mut host = Frames::open(&service, vec![tell]).await;
        let caller = Client::connect(service.channel().await).await.expect("attaches");
        let hosting = async {
            let Body::Call(pb::CallFrame { call, .. }) = host.next().await else {
                panic!("no call")
            };
            host.send(Body::Fragments(pb::FragmentsFrame { call, fragments })).await;
            let status = Some(Status::ok().into());
            host.send(Body::Status(pb::StatusFrame { call, status })).await;
        };
        let (outputs, ()) = tokio::join!(caller.call("tell").run(), hosting);
        let said = outputs.and_then(|outputs| outputs.value::<String>("text"));
        let said = said.map_err(|status| (status.reason, status.message));
        let what = format!("{said:?}");
        assert_eq!(said.map_err(|(reason, _)| reason), expected.map(str::to_owned), "{what}");
    };
    check(vec![last("x")], Ok("x")).await;
    let undeclared = NodeFragment::last("undeclared", Chunk::text("x"));
    check(vec![last("x"), undeclared], Err(Reason::InvalidOutput)).await;
    let picture = NodeFragment::last("text", Chunk::new("image/png", "x"));
    check(vec![picture], Err(Reason::InvalidOutput)).await;
    check(vec![], Err(Reason::InvalidOutput)).await;
    check(vec![NodeFragment::end("text")], Err(Reason::InvalidOutput)).await;
    let long = NodeFragment::last("text", Chunk::new("x".repeat(256), "x"));
    check(vec![long], Err(Reason::InvalidOutput)).await;
    // `seq` is the order, whatever came first.
    let words = [at(1, more("world")), at(0, more("hello ")), at(2, last("!"))];
    check(words.into(), Ok("hello world!")).await;
    check(vec![at(1, last("second")), at(0, more("first "))], Ok("first second")).await;
    check(vec![at(0, more("a")), at(2, last("c"))], Err(Reason::Gap)).await;
    check(vec![at(0, more("a")), at(0, more("b"))], Err(Reason::SeqConflict)).await;
    check(vec![last("1"), last("2")], Err(Reason::PastFinal)).await;
}

#[tokio::test]
async fn a_call_whose_frames_are_wrong_ends_with_what_is_wrong() {
    let service = Service::start().await;
    host_echo(&service.registry);
    let _happened = host_endless(&service.registry);
    let check = async |frame: pb::CallFrame, inputs: Vec<NodeFragment>, expected: Reason| {
        let mut caller = Frames::open(&service, vec![]).await;
        let what = format!("{frame:?} {inputs:?}");
        caller.send(Body::Call(frame)).await;
        if !inputs.is_empty() {
            let fragments = pb::FragmentsFrame { call: 1, fragments: inputs };
            caller.send(Body::Fragments(fragments)).await;
        }
        assert_eq!(caller.status().await.reason, expected, "{what:.300}");
    };
    let call =
        |action: &str| pb::CallFrame { call: 1, action: action.into(), ..Default::default() };
    let header = |name: &str, value: &[u8]| pb::CallFrame {
        headers: [(name.to_owned(), value.to_vec().into())].into(),
        ..call("endless")
    };
    check(header("x-a11-deadline", b"1"), vec![], Reason::Deadline).await;
    check(header("x-a11-deadline", b"zzz"), vec![], Reason::InvalidRequest).await;
    check(header("x-a11-depth", b"32"), vec![], Reason::TooDeep).await;
    check(header("x-a11-depth", b"-1"), vec![], Reason::InvalidRequest).await;
    check(header("x-a11-other", &[0; 1 << 16]), vec![], Reason::InvalidRequest).await;
    check(pb::CallFrame { id: "x".repeat(256), ..call("echo") }, vec![], Reason::InvalidRequest)
        .await;
    for id in ["", "!!", &"x".repeat(256)] {
        let binding = pb::PortBinding { name: "values".into(), id: id.into() };
        let frame = pb::CallFrame { inputs: vec![binding], ..call("echo") };
        check(frame, vec![], Reason::InvalidRequest).await;
    }
    let binding = |id: &str| pb::PortBinding { name: "values".into(), id: id.into() };
    let twice = pb::CallFrame { inputs: vec![binding("a"), binding("b")], ..call("echo") };
    check(twice, vec![], Reason::InvalidRequest).await;
    let value = |chunk| NodeFragment::last("values", chunk);
    let long = value(Chunk::new("x".repeat(256), "x"));
    check(call("echo"), vec![long], Reason::InvalidRequest).await;
    let two = vec![value(Chunk::text("1")), value(Chunk::text("2"))];
    check(call("echo"), two, Reason::PastFinal).await;
    check(call("echo"), vec![NodeFragment::end("other")], Reason::UndeclaredInput).await;
}

/// Says which of its inputs came.
fn host_came(registry: &Registry) {
    let schema = ActionSchema::builder("came")
        .input(Port::text("must").required())
        .input(Port::text("may"))
        .output(Port::text("said"));
    let run = |context: Context| async move {
        let must: String = context.read("must").await?;
        let may: Option<String> = context.read_optional("may").await?;
        context.write("said", &format!("{must} {}", may.unwrap_or_default())).await
    };
    registry.register(schema.build(), handler(run)).expect("registers");
}

#[tokio::test]
async fn inputs_that_a_caller_does_not_list_have_ended() {
    let service = Service::start().await;
    host_came(&service.registry);
    let check = async |listed: &[(&str, &str)], written: &[&str], expected: Result<(), Reason>| {
        let mut caller = Frames::open(&service, vec![]).await;
        let binding = |(name, id): &(&str, &str)| pb::PortBinding {
            name: (*name).to_owned(),
            id: (*id).to_owned(),
        };
        let frame = pb::CallFrame {
            call: 1,
            action: "came".into(),
            inputs: listed.iter().map(binding).collect(),
            only_listed_inputs: true,
            ..Default::default()
        };
        caller.send(Body::Call(frame)).await;
        if !written.is_empty() {
            let input = |id: &&str| NodeFragment::last(*id, Chunk::text("x"));
            let fragments = written.iter().map(input).collect();
            caller.send(Body::Fragments(pb::FragmentsFrame { call: 1, fragments })).await;
        }
        let status = caller.status().await;
        let ended = if status.is_ok() { Ok(()) } else { Err(status.reason) };
        assert_eq!(ended, expected, "{listed:?} {written:?}: {status}");
    };
    check(&[("must", "must")], &["must"], Ok(())).await;
    check(&[("must", "node")], &["node"], Ok(())).await;
    check(&[("must", "must"), ("may", "other")], &["other", "must"], Ok(())).await;
    check(&[], &[], Err(Reason::MissingInput)).await;
    check(&[("may", "may")], &["may"], Err(Reason::MissingInput)).await;
    check(&[("must", "must")], &["may"], Err(Reason::UndeclaredInput)).await;
    check(&[("must", "must"), ("gone", "gone")], &["must"], Err(Reason::UndeclaredInput)).await;
    check(&[("must", "one"), ("may", "one")], &["one"], Err(Reason::InvalidRequest)).await;
    check(&[("must", "")], &[], Err(Reason::InvalidRequest)).await;
}

#[tokio::test]
async fn every_timeout_of_a_call_ends_it_or_is_none() {
    const YEAR: i64 = 365 * 24 * 3600;
    let service = Service::start().await;
    host_echo(&service.registry);
    let check = async |seconds, nanos, expected: Reason| {
        let mut caller = Frames::open(&service, vec![]).await;
        let timeout = Some(pbjson_types::Duration { seconds, nanos });
        let frame = pb::CallFrame { call: 1, action: "echo".into(), timeout, ..Default::default() };
        caller.send(Body::Call(frame)).await;
        let fragments = vec![NodeFragment::end("values")];
        caller.send(Body::Fragments(pb::FragmentsFrame { call: 1, fragments })).await;
        assert_eq!(caller.status().await.reason, expected, "{timeout:?}");
    };
    for far in [i64::MAX, i64::MAX - YEAR, i64::MAX - 100 * YEAR, 200 * YEAR] {
        check(far, 999_999_999, Reason::Unspecified).await;
    }
    check(-1, 0, Reason::Deadline).await;
    check(i64::MIN, -999_999_999, Reason::Deadline).await;
    check(1, -1, Reason::InvalidRequest).await;
    check(1, 1_000_000_000, Reason::InvalidRequest).await;
}

#[tokio::test]
async fn an_rpc_says_how_deep_it_is_as_a_frame_does() {
    let service = Service::start().await;
    host_name(&service.registry, "who", "me");
    let mut client = actions(service.channel().await);
    let mut check = async |depth: &str, expected: Result<(), Reason>| {
        let headers = [("x-a11-depth".to_owned(), depth.to_owned().into())].into();
        let request = pb::RunActionRequest { action: "who".into(), headers, ..Default::default() };
        let ran = client.run_action(request).await.map(drop);
        assert_eq!(ran.map_err(|status| Status::from(status).reason), expected, "{depth}");
    };
    check("31", Ok(())).await;
    check("32", Err(Reason::TooDeep)).await;
    check("4294967295", Err(Reason::TooDeep)).await;
    check("deep", Err(Reason::InvalidRequest)).await;
}

/// Answers each call with a call of `other`, its headers as they came, until it is
/// refused; counts the calls.
async fn pass_on(mut peer: Frames, other: &'static str, calls: Arc<AtomicUsize>) {
    let mut asked = vec![];
    loop {
        match peer.next().await {
            Body::Call(frame) => {
                calls.fetch_add(1, Ordering::Relaxed);
                asked.push(frame.call);
                let call = 2 * asked.len() as u64 - 1;
                let headers = frame.headers;
                let frame =
                    pb::CallFrame { call, action: other.into(), headers, ..Default::default() };
                peer.send(Body::Call(frame)).await;
            }
            Body::Status(frame) => {
                let call = asked[(frame.call as usize - 1) / 2];
                peer.send(Body::Status(pb::StatusFrame { call, ..frame })).await;
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn peers_that_call_each_other_without_end_are_stopped_at_32() {
    let service = Service::start().await;
    let calls = Arc::new(AtomicUsize::new(0));
    for (own, other) in [("ping", "pong"), ("pong", "ping")] {
        let schema = pb::ActionSchema { name: own.into(), ..Default::default() };
        let peer = Frames::open(&service, vec![schema]).await;
        tokio::spawn(pass_on(peer, other, calls.clone()));
    }
    let caller = Client::connect(service.channel().await).await.expect("attaches");
    let status = caller.call("ping").run().await.expect_err("ends");
    assert_eq!(status.reason, Reason::TooDeep);
    assert_eq!(calls.load(Ordering::Relaxed), 32);
}

#[tokio::test]
async fn clients_that_call_each_other_without_end_are_stopped_at_32() {
    let service = Service::start().await;
    let calls = Arc::new(AtomicUsize::new(0));
    let mut clients = vec![];
    for (own, other) in [("ping", "pong"), ("pong", "ping")] {
        let registry = Arc::new(Registry::new());
        let client = Arc::new(OnceLock::<Client>::new());
        let (calling, calls) = (client.clone(), calls.clone());
        let run = move |context: Context| {
            let (client, calls) = (calling.get().cloned(), calls.clone());
            async move {
                calls.fetch_add(1, Ordering::Relaxed);
                let call = client.expect("is attached").call(other).within(&context);
                let outputs = call.run().await?;
                context.write("name", &outputs.value::<String>("name")?).await
            }
        };
        let schema = ActionSchema::builder(own).output(Port::text("name")).build();
        registry.register(schema, handler(run)).expect("registers");
        let attached = Peer::host(registry).connect(service.channel().await).await;
        client.set(attached.expect("attaches")).ok().expect("is set once");
        clients.push(client);
    }
    let caller = Client::connect(service.channel().await).await.expect("attaches");
    let status = caller.call("ping").run().await.expect_err("ends");
    assert_eq!(status.reason, Reason::TooDeep);
    assert_eq!(calls.load(Ordering::Relaxed), 32);
}

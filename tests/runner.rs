//! The runner in process: where calls run, what they share, what is copied.

#![allow(missing_docs)]

use std::sync::Arc;

use a11_grpc::action::{Registry, Scope};
use a11_grpc::runner::{AllowList, CallResult, Limits, Plan, Request, Round, execute};
use a11_grpc::wire::pb::{
    ActionConfig, ActionMessage, Interaction, NodeFragments, Peer, node_fragment::Payload,
};
use a11_grpc::wire::{Chunk, Code, NodeFragment, Reason, Status};
use bytes::{Bytes, BytesMut};
use prost::Message as _;

#[path = "support/fixtures.rs"]
mod fixtures;

/// A turn with one call of `echo`.
fn echo(id: &str, word: impl Into<Bytes>) -> Interaction {
    let fragments = vec![NodeFragment::last("word", Chunk::new("text/plain", word))];
    Interaction {
        id: "turn".into(),
        action_calls: vec![ActionMessage {
            id: id.into(),
            name: "echo".into(),
            ..ActionMessage::default()
        }],
        action_inputs: [(id.to_owned(), NodeFragments { fragments })].into(),
        ..Interaction::default()
    }
}

fn request(interaction: Interaction) -> Request {
    let allow_list = AllowList::new([".*"]).expect("a pattern");
    Request { interaction, allow_list, ..Request::default() }
}

async fn run(registry: &Arc<Registry>, request: Request) -> Result<Round, Status> {
    let plan = Plan::new(registry, request)?;
    Ok(execute(&Scope::root(registry.clone()), plan, None).await)
}

#[tokio::test]
async fn a_config_that_leads_elsewhere_says_why_it_cannot_be_followed() {
    let check = async |peer: &str, sender: Option<&str>, expected: (Code, Reason)| {
        let peer: Option<Peer> = (!peer.is_empty()).then(|| peer.parse().expect("a peer"));
        let config = ActionConfig { peer, ..ActionConfig::default() };
        let mut turn = echo("c", "x");
        turn.action_configs.insert("echo".into(), config);
        let request = Request { sender: sender.map(str::to_owned), ..request(turn) };
        let round = run(&fixtures::registry(), request).await.expect("a round");
        let status = &round.results[0].status;
        assert_eq!((status.code, status.reason), expected, "{status}");
    };
    let no_sender = (Code::FailedPrecondition, Reason::NoSender);
    let unknown = (Code::Unavailable, Reason::UnknownSession);
    let unsupported = (Code::Unimplemented, Reason::UnsupportedPeer);
    // Without a peer a config means the caller's own session.
    check("", None, no_sender).await;
    check("a11://$sender", None, no_sender).await;
    check("a11://$sender", Some("s1"), unknown).await;
    check("a11://s2", None, unknown).await;
    check("mcp://tools.example/mcp", None, unsupported).await;
    check("a11+ws://host:9000", None, unsupported).await;
}

#[tokio::test]
async fn equal_call_ids_of_two_rounds_never_meet() {
    let registry = fixtures::registry();
    for word in ["first", "second"] {
        let round = run(&registry, request(echo("same", word))).await.expect("a round");
        let outputs = &round.interaction.action_outputs["same"].fragments;
        assert_eq!(&outputs[0].chunk().expect("a chunk").data()[..], word.as_bytes());
    }
}

#[tokio::test]
async fn payload_bytes_are_slices_of_what_arrived_all_the_way_through() {
    let word = "x".repeat(100_000);
    let mut message = BytesMut::new();
    echo("c", word.clone()).encode(&mut message).expect("room");
    let message = message.freeze();
    let turn = Interaction::decode(message.clone()).expect("decodes");
    let registry = Registry::new();
    let schema = fixtures::registry().entry("echo").expect("there").schema().clone();
    let pass = a11_grpc::action::handler(|context: a11_grpc::action::Context| async move {
        let chunk = context.read_chunk("word").await?.unwrap_or_default();
        context.write_chunk("echoed", chunk).await
    });
    registry.register(Ok(schema), pass).expect("registers");
    let round = run(&Arc::new(registry), request(turn)).await.expect("a round");
    let Some(Payload::Chunk(chunk)) = &round.interaction.action_outputs["c"].fragments[0].payload
    else {
        panic!("no chunk");
    };
    assert_eq!(&chunk.data()[..], word.as_bytes());
    assert!(
        message.as_ptr_range().contains(&chunk.data().as_ptr()),
        "the output is a copy of the input"
    );
}

#[tokio::test]
async fn a_turn_cannot_widen_its_own_limits() {
    let registry = Registry::new();
    let schema = a11_grpc::action::ActionSchema::builder("seen")
        .header("x-tenant", "", None)
        .output(a11_grpc::action::Port::text("headers"));
    let seen = a11_grpc::action::handler(|context: a11_grpc::action::Context| async move {
        // The runner's own: when the call ends, and what it is recorded under.
        let own = ["x-a11-deadline", "x-a11-idempotency-key"];
        let pairs = context.headers().iter().filter(|(name, _)| !own.contains(name));
        let pairs = pairs.map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)));
        context.write("headers", &pairs.collect::<Vec<_>>().join(" ")).await
    });
    registry.register(schema.build(), seen).expect("registers");
    let mut turn = echo("c", "x");
    turn.action_inputs.clear();
    turn.action_calls[0].name = "seen".into();
    for header in ["X-A11-Allowed-LLM-Actions", "x-a11-session", "x-tenant"] {
        turn.action_calls[0].headers.insert(header.into(), "mine".into());
    }
    let round = run(&Arc::new(registry), request(turn)).await.expect("a round");
    let outputs = &round.interaction.action_outputs["c"].fragments;
    assert_eq!(&outputs[0].chunk().expect("a chunk").data()[..], b"x-tenant=mine");
}

#[tokio::test]
async fn headers_past_their_size_are_that_calls_fault() {
    let mut turn = echo("c", "x");
    let mut large = turn.action_calls[0].clone();
    large.id = "large".into();
    large.headers.insert("x-a11-large".into(), vec![b'x'; 65_536].into());
    turn.action_inputs.insert("large".into(), turn.action_inputs["c"].clone());
    turn.action_calls.push(large);
    let round = run(&fixtures::registry(), request(turn)).await.expect("a round");
    let reasons: Vec<Reason> = round.results.iter().map(|call| call.status.reason).collect();
    assert_eq!(reasons, [Reason::Unspecified, Reason::InvalidRequest]);
}

#[tokio::test]
async fn a_log_that_is_too_long_ends_with_a_notice_and_has_no_holes() {
    let registry = Registry::new();
    let talk = a11_grpc::action::handler(|context: a11_grpc::action::Context| async move {
        for _ in 0..6 {
            context.log("x".repeat(60_000));
            // Lets the runner take what was said, so that nothing is dropped before.
            tokio::task::yield_now().await;
        }
        context.log("short");
        Ok(())
    });
    let schema = a11_grpc::action::ActionSchema::builder("talk");
    registry.register(schema.build(), talk).expect("registers");
    let mut turn = echo("c", "x");
    turn.action_inputs.clear();
    turn.action_calls[0].name = "talk".into();
    let round = run(&Arc::new(registry), request(turn)).await.expect("a round");
    let log = &round.results[0].log;
    let said = log.strip_suffix("\n[the rest of the log was left out]").expect("a notice");
    assert_eq!(said.len(), 240_000);
}

#[tokio::test]
async fn calls_past_the_size_of_the_round_fail_and_the_others_keep_their_results() {
    let call = |at: usize| ActionMessage {
        id: format!("c{at}"),
        name: "big".into(),
        ..ActionMessage::default()
    };
    let inputs = |at: usize| {
        // The second alone is larger than the round; it takes nothing from others.
        let bytes = if at == 1 { "2000" } else { "400" };
        let fragments = vec![NodeFragment::last("bytes", Chunk::new("application/json", bytes))];
        (format!("c{at}"), NodeFragments { fragments })
    };
    let turn = Interaction {
        action_calls: (0..4).map(call).collect(),
        action_inputs: (0..4).map(inputs).collect(),
        ..Interaction::default()
    };
    let limits = Limits { max_round_bytes: 1000, ..Limits::default() };
    let round = run(&fixtures::registry(), Request { limits, ..request(turn) }).await;
    let round = round.expect("a round");
    let failed = |result: &&CallResult| result.status.reason == Reason::OutputTooLarge;
    let message = &round.results[1].status.message;
    assert!(
        failed(&&round.results[1]) && message.contains("1000 bytes for all calls"),
        "{message}"
    );
    // Which of the others is late depends on who is quick.
    assert_eq!(round.results.iter().filter(failed).count(), 2);
    assert_eq!(round.results.iter().filter(|result| result.status.is_ok()).count(), 2);
}

//! Sizes: a tool error of 100 KB, messages of 5 MB and 100 MB, and a compressed
//! bomb, narration and outputs without end; the real status each time, a usable
//! connection, bounded memory.

#![allow(missing_docs)]

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/server.rs"]
mod server;
#[path = "support/trials.rs"]
mod trials;
#[path = "support/turns.rs"]
mod turns;

use std::{future::Future, sync::Arc};

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler, log::MAX_HELD_BYTES};
use a11_grpc::wire::pb::{
    Backend, RunActionRequest, RunActionResponse, StreamActionRequest,
    action_service_client::ActionServiceClient, stream_action_response::Event,
};
use a11_grpc::wire::{Chunk, NodeFragment, Reason, Status, status::MAX_MESSAGE_BYTES};
use server::{MESSAGE_LIMIT, TestServer};
use tonic::{Code, codec::CompressionEncoding, transport::Channel};
use turns::{asked, execute, of_result, turn};

type Client = ActionServiceClient<Channel>;

async fn server() -> (TestServer, Client) {
    let server = TestServer::start(trials::registry()).await;
    let client = server.client().await.max_encoding_message_size(usize::MAX);
    (server, client)
}

/// A word of so many bytes, handed over as a fragment.
fn echo(bytes: usize) -> RunActionRequest {
    RunActionRequest {
        action: "echo".into(),
        inputs: vec![NodeFragment::last("word", Chunk::text("x".repeat(bytes)))],
        ..Default::default()
    }
}

async fn check_usable(client: &mut Client) {
    let response = client.run_action(echo(2)).await.expect("the connection is usable");
    assert_eq!(response.get_ref().outputs[0].payload_len(), 2);
}

#[tokio::test]
async fn a_tool_error_of_100_kb_arrives_cut_with_its_real_code_everywhere() {
    let (server, mut client) = server().await;
    let long = "é€😀".repeat(11_200);
    assert!(long.len() > 100_000);
    let arguments = serde_json::json!({"code": "ABORTED", "message": long}).to_string();
    let check = |status: Status| {
        assert_eq!((status.code, status.reason), (Code::Aborted, Reason::HandlerFailed));
        assert!(status.message.len() <= MAX_MESSAGE_BYTES, "{} bytes", status.message.len());
        assert!(status.message.starts_with("é€😀é€😀"));
        assert!(status.message.contains("cut"), "a notice says so");
    };
    let request = RunActionRequest {
        action: "fail_with".into(),
        arguments_json: arguments.clone(),
        ..Default::default()
    };
    check(client.run_action(request).await.expect_err("fails").into());
    let request = StreamActionRequest {
        action: "fail_with".into(),
        arguments_json: arguments,
        ..Default::default()
    };
    let mut events = client.stream_action(request).await.expect("starts").into_inner();
    let mut ended = None;
    while let Some(event) = events.message().await.expect("no failure of the RPC") {
        if let Some(Event::Status(status)) = event.event {
            ended = Some(status);
        }
    }
    check(ended.expect("a status").into());
    for backend in turns::BACKENDS {
        let inputs = [("code", "ABORTED"), ("message", long.as_str())];
        let mut request = execute(turn([asked("c", "fail_with", &inputs)]));
        request.backend = backend as i32;
        let response = client.execute_actions_from_interaction(request).await.expect("runs");
        let response = response.into_inner();
        check(response.results[0].status.clone().expect("a status").into());
        let turn = response.interaction.expect("a turn of results");
        let statuses = &turn.backend_specific_metadata["tool_statuses"];
        assert!(statuses.len() < 2 * MAX_MESSAGE_BYTES, "{} bytes", statuses.len());
        let told: usize = response.messages.iter().map(String::len).sum();
        assert!(told < 3 * MAX_MESSAGE_BYTES, "{backend:?}: {told} bytes");
    }
    check_usable(&mut client).await;
    server.idle().await;
}

#[tokio::test]
async fn a_message_of_5_mb_passes_and_one_of_100_mb_is_refused() {
    let (server, mut client) = server().await;
    let five = 5 << 20;
    let response = client.run_action(echo(five)).await.expect("runs").into_inner();
    assert_eq!(response.outputs[0].payload_len(), five);
    let status = client.run_action(echo(100 << 20)).await.expect_err("too large");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    check_usable(&mut client).await;
    server.idle().await;
}

#[tokio::test]
async fn a_result_too_large_for_a_message_is_refused_with_its_reason() {
    let (server, mut client) = server().await;
    let request = RunActionRequest {
        action: "big".into(),
        arguments_json: format!(r#"{{"bytes":{}}}"#, MESSAGE_LIMIT + 1),
        ..Default::default()
    };
    let status = client.run_action(request).await.map(drop).expect_err("too large");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    check_usable(&mut client).await;
    let bytes = "1000000";
    let mut request = execute(turn([
        asked("big", "big", &[("bytes", bytes)]),
        asked("good", "echo", &[("word", "hi")]),
    ]));
    request.backend = Backend::Gpt as i32;
    let response = client.execute_actions_from_interaction(request).await.expect("runs");
    let response = response.into_inner();
    assert_eq!(of_result(&response.results[0]).1, Code::ResourceExhausted);
    assert_eq!(of_result(&response.results[1]).1, Code::Ok);
    assert_eq!(response.interaction.expect("a turn").action_outputs["big"].fragments, []);
    server.idle().await;
}

#[tokio::test]
async fn a_round_too_large_for_a_message_still_answers_with_what_fits() {
    let (_server, mut client) = server().await;
    let calls = (0..10).map(|at| asked(&format!("c{at}"), "big", &[("bytes", "3000000")]));
    let mut request = execute(turn(calls));
    request.max_output_bytes = Some(4_000_000);
    request.backend = Backend::Claude as i32;
    let response = client.execute_actions_from_interaction(request).await.expect("an answer");
    let codes: Vec<Code> = response.get_ref().results.iter().map(|r| of_result(r).1).collect();
    let count = |code| codes.iter().filter(|other| **other == code).count();
    assert_eq!((count(Code::Ok), count(Code::ResourceExhausted)), (5, 5), "{codes:?}");
    check_usable(&mut client).await;
}

#[tokio::test]
async fn a_compressed_bomb_is_refused_without_being_unpacked() {
    let (server, client) = server().await;
    let mut bomber = client.clone().send_compressed(CompressionEncoding::Gzip);
    // Some 70 KB as it travels: only what it unpacks to is too large.
    let bomb = echo(MESSAGE_LIMIT + 1);
    let status = bomber.run_action(bomb).await.expect_err("too large");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let response = bomber.run_action(echo(1 << 20)).await.expect("compression is fine");
    assert_eq!(response.get_ref().outputs[0].payload_len(), 1 << 20);
    check_usable(&mut client.clone()).await;
    server.idle().await;
}

/// A server with one action, and what RunAction answers for it.
async fn run_alone<F>(output: Port, run: fn(Context) -> F) -> Result<RunActionResponse, Status>
where
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let registry = Registry::new();
    let schema = ActionSchema::builder("alone").output(output).build();
    registry.register(schema, handler(run)).expect("registers");
    let server = TestServer::start(Arc::new(registry)).await;
    let request = RunActionRequest { action: "alone".into(), ..Default::default() };
    Ok(server.client().await.run_action(request).await?.into_inner())
}

#[tokio::test]
async fn narration_without_end_leaves_its_newest_part_and_a_notice() {
    const ENTRY_BYTES: usize = 16 * 1024;
    let response = run_alone(Port::text("done"), |context| async move {
        for entry in 0..1000 {
            context.log(format!("{entry:<ENTRY_BYTES$}"));
            // So that each is taken before the next.
            tokio::task::yield_now().await;
        }
        context.write("done", "yes").await
    });
    let logs = response.await.expect("runs").logs;
    let bytes: usize = logs.iter().map(|entry| entry.text.len()).sum();
    assert!(bytes <= MAX_HELD_BYTES + 100, "{bytes}");
    assert!(logs[0].text.contains("earlier log entries were dropped"), "{}", logs[0].text);
    assert!(logs.last().expect("a log").text.starts_with("999 "));
}

#[tokio::test]
async fn outputs_that_are_large_beside_their_bytes_are_bounded_too() {
    let run = |context: Context| async move {
        let mut chunk = Chunk::text("");
        let attributes = &mut chunk.metadata.get_or_insert_default().attributes;
        attributes.insert("a".into(), vec![0; 60_000].into());
        loop {
            context.write_chunk("parts", chunk.clone()).await?;
        }
    };
    let status = run_alone(Port::text("parts").stream(), run).await.expect_err("has no end");
    assert_eq!((status.code, status.reason), (Code::ResourceExhausted, Reason::OutputTooLarge));
}

//! Rounds whose answer would be too large: what the calls came to still arrives, and is
//! recorded, with what did not fit left out.

#![allow(missing_docs)]

#[path = "support/turns.rs"]
mod turns;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
use a11_grpc::client;
use a11_grpc::interaction::store::{Store, sqlite::SqliteStore};
use a11_grpc::wire::pb::{
    Backend, ExecuteActionsFromInteractionRequest, ExecuteActionsFromInteractionResponse,
    RejectedCall,
};
use a11_grpc::wire::{Reason, Status, pb};
use tonic::Code;
use turns::{Asked, Client, asked, execute, failure, of_result, turn};

/// The services with `quotes`, whose result is so many characters that take two bytes in
/// JSON, and four in JSON within JSON, and `chatter`, which logs as much as is kept.
async fn services(store: Option<Arc<dyn Store>>, runs: Arc<AtomicUsize>) -> Client {
    let registry = Registry::new();
    let schema = ActionSchema::builder("quotes")
        .input(Port::text("bytes").required())
        .output(Port::text("text"));
    let quotes = move |context: Context| {
        runs.fetch_add(1, Ordering::Relaxed);
        async move {
            let bytes: String = context.read("bytes").await?;
            context.write("text", &"\"".repeat(bytes.parse().unwrap_or_default())).await
        }
    };
    registry.register(schema.build(), handler(quotes)).expect("quotes");
    let chatter = |context: Context| async move {
        for _ in 0..5 {
            context.log("\n".repeat(50_000));
            // Lets the runner take what was said, so that nothing is dropped before.
            tokio::task::yield_now().await;
        }
        context.write("text", "done").await
    };
    let schema = ActionSchema::builder("chatter").output(Port::text("text"));
    registry.register(schema.build(), handler(chatter)).expect("chatter");
    let channel = a11_grpc::serve::in_process(Arc::new(registry), store).await.expect("serves");
    client::actions(channel)
}

fn many(calls: usize, name: &str, inputs: &[(&str, &str)]) -> Vec<Asked> {
    (0..calls).map(|at| asked(&format!("c{at}"), name, inputs)).collect()
}

fn request(calls: Vec<Asked>) -> ExecuteActionsFromInteractionRequest {
    ExecuteActionsFromInteractionRequest {
        backend: Backend::Claude as i32,
        max_output_bytes: Some(u32::MAX),
        ..execute(turn(calls))
    }
}

async fn answer(
    client: &mut Client,
    request: ExecuteActionsFromInteractionRequest,
) -> ExecuteActionsFromInteractionResponse {
    client.execute_actions_from_interaction(request).await.expect("an answer").into_inner()
}

/// How many calls went well, and how many were too large.
fn count(answer: &ExecuteActionsFromInteractionResponse) -> (usize, usize) {
    let codes: Vec<Code> = answer.results.iter().map(|result| of_result(result).1).collect();
    let count = |code| codes.iter().filter(|other| **other == code).count();
    (count(Code::Ok), count(Code::ResourceExhausted))
}

#[tokio::test]
async fn narration_costs_no_call_its_result() {
    let mut client = services(None, Arc::default()).await;
    let answer = answer(&mut client, request(many(150, "chatter", &[]))).await;
    assert_eq!(count(&answer), (150, 0));
    let notice = "\n[the rest of the log was left out]";
    let said = answer.results.iter().map(|result| {
        let log = result.log.strip_suffix(notice).unwrap_or(&result.log);
        assert!(log == result.log || log.len() < 250_000, "cut, and says so");
        log.len()
    });
    let said: usize = said.sum();
    assert!((900_000..=1 << 20).contains(&said), "{said} bytes, each two as JSON");
}

#[tokio::test]
async fn what_grows_on_its_way_to_the_model_is_bounded_as_it_is_sent() {
    let mut client = services(None, Arc::default()).await;
    let calls = many(9, "quotes", &[("bytes", "1000000")]);
    let answer = answer(&mut client, request(calls)).await;
    let (well, too_large) = count(&answer);
    assert!(well >= 5 && too_large >= 1 && well + too_large == 9, "{well} {too_large}");
    let late = answer.results.iter().find(|result| of_result(result).1 != Code::Ok);
    let status = late.and_then(|result| result.status.clone()).expect("one is too large");
    assert_eq!(Status::from(status).reason, Reason::OutputTooLarge);
}

#[tokio::test]
async fn a_round_that_is_too_large_is_recorded_as_it_was_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(folder.path().join("a11.db")).await.expect("a store");
    let runs = Arc::new(AtomicUsize::new(0));
    let mut client = services(Some(Arc::new(store)), runs.clone()).await;
    let recorded = || ExecuteActionsFromInteractionRequest {
        store: true,
        conversation: "large".into(),
        ..request(many(9, "quotes", &[("bytes", "1000000")]))
    };
    let first = answer(&mut client, recorded()).await;
    assert!(count(&first).1 >= 1, "{:?}", count(&first));
    let again = answer(&mut client, recorded()).await;
    assert!(first == again, "the same answer");
    assert_eq!(runs.load(Ordering::Relaxed), 9, "each ran once");
}

#[tokio::test]
async fn failures_are_told_shorter_where_there_are_very_many() {
    let mut client = services(None, Arc::default()).await;
    let rejected = |position| RejectedCall {
        position,
        id: format!("r{position}"),
        name: "other".into(),
        status: Some(Status::of(Reason::NotAllowed, "\"".repeat(4000)).into()),
    };
    let mut request = request(vec![]);
    request.rejected_calls = (0..2500).map(rejected).collect();
    let answer = answer(&mut client, request).await;
    assert_eq!(answer.results.len(), 2500);
    let statuses = answer.results.iter().map(|result| result.status.clone().unwrap_or_default());
    let (whole, short): (Vec<_>, Vec<_>) =
        statuses.partition(|status| status.message.len() == 4000);
    assert!(!whole.is_empty() && !short.is_empty(), "{} {}", whole.len(), short.len());
    let same = |status: &pb::Status| status.reason == Reason::NotAllowed as i32;
    assert!(whole.iter().chain(&short).all(same), "why is told all the same");
}

#[tokio::test]
async fn a_turn_whose_names_alone_fill_an_answer_is_refused_before_anything_runs() {
    let runs = Arc::new(AtomicUsize::new(0));
    let mut client = services(None, runs.clone()).await;
    let call =
        |at: usize| asked(&format!("{}{at:05}", "\"".repeat(250)), "quotes", &[("bytes", "1")]);
    let request = request((0..16_000).map(call).collect());
    let status = client.execute_actions_from_interaction(request).await.expect_err("refused");
    assert!(status.message().contains("ids and names"), "{status}");
    assert_eq!(failure(status), (Code::InvalidArgument, Reason::InvalidRequest));
    assert_eq!(runs.load(Ordering::Relaxed), 0);
}

//! Deadlines over a real connection: a call ends when its time is up, with
//! DEADLINE_EXCEEDED, what it calls included, and nothing happens after it.

#![allow(missing_docs)]

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/server.rs"]
mod server;
#[path = "support/trials.rs"]
mod trials;
#[path = "support/turns.rs"]
mod turns;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
use a11_grpc::wire::pb::{
    CallActionRequest, CallStart, RunActionRequest, StreamActionRequest,
    StreamActionsFromInteractionRequest, call_action_request, call_action_response,
    stream_action_response, stream_actions_from_interaction_response,
};
use a11_grpc::wire::{NodeFragment, Reason, Status};
use parking_lot::Mutex;
use server::TestServer;
use tonic::{Code, Request};
use turns::{asked, execute, failure, millis, of_result, turn};

/// Long enough for every start, far shorter than a test may last.
const SHORT: Duration = Duration::from_millis(200);

/// Notes what `outer` and `inner` did.
#[derive(Clone, Default)]
struct Notes {
    time_left: Arc<Mutex<Option<Duration>>>,
    header: Arc<Mutex<Option<String>>>,
    after: Arc<AtomicBool>,
}

/// `outer` puts out a word and calls `inner`, which sleeps for long.
fn registry(notes: &Notes) -> Arc<Registry> {
    let registry = trials::registry();
    let schema = ActionSchema::builder("outer").output(Port::text("words").stream());
    let noted = notes.clone();
    let run = move |context: Context| {
        let notes = noted.clone();
        async move {
            context.write("words", "first").await?;
            context.call("inner").run().await?;
            notes.after.store(true, Ordering::Release);
            context.write("words", "second").await
        }
    };
    registry.register(schema.build(), handler(run)).expect("outer");
    let schema = ActionSchema::builder("inner").output(Port::text("done"));
    let noted = notes.clone();
    let run = move |context: Context| {
        let notes = noted.clone();
        async move {
            *notes.time_left.lock() = context.time_left();
            *notes.header.lock() = context.headers().text("x-a11-deadline").map(str::to_owned);
            tokio::time::sleep(Duration::from_secs(60)).await;
            notes.after.store(true, Ordering::Release);
            context.write("done", "done").await
        }
    };
    registry.register(schema.build(), handler(run)).expect("inner");
    registry
}

fn unix_millis(at: SystemTime) -> String {
    at.duration_since(UNIX_EPOCH).expect("after 1970").as_millis().to_string()
}

/// What is checked of every way to say a deadline.
fn check_time(began: Instant) {
    let took = began.elapsed();
    assert!(took >= SHORT - Duration::from_millis(30), "ended early, after {took:?}");
    assert!(took < Duration::from_secs(3), "ended late, after {took:?}");
}

#[tokio::test]
async fn a_call_and_what_it_calls_end_when_the_time_is_up() {
    let notes = Notes::default();
    let server = TestServer::start(registry(&notes)).await;
    let mut client = server.client().await;
    let began = Instant::now();
    let request = StreamActionRequest {
        action: "outer".into(),
        timeout: Some(millis(200)),
        ..Default::default()
    };
    let mut events = client.stream_action(request).await.expect("starts").into_inner();
    let mut words = 0;
    let mut ended = None;
    while let Some(event) = events.message().await.expect("no failure of the RPC") {
        match event.event.expect("an event") {
            stream_action_response::Event::Outputs(outputs) => words += outputs.fragments.len(),
            stream_action_response::Event::Log(_) => {}
            stream_action_response::Event::Status(status) => ended = Some(status),
        }
    }
    check_time(began);
    let ended = ended.expect("the status, last");
    assert_eq!(ended.code, Code::DeadlineExceeded as i32, "{ended:?}");
    assert_eq!(ended.reason, Reason::Deadline as i32, "{ended:?}");
    assert_eq!(words, 1);
    server.idle().await;
    let left = notes.time_left.lock().expect("the nested call began");
    assert!(left <= SHORT && left > Duration::ZERO, "{left:?}");
    assert!(notes.header.lock().is_some(), "the deadline flows as a header too");
    assert!(!notes.after.load(Ordering::Acquire), "nothing happens after the deadline");
}

#[tokio::test]
async fn however_the_deadline_is_said_it_is_kept() {
    let server = TestServer::start(registry(&Notes::default())).await;
    let mut client = server.client().await;
    let run = || RunActionRequest { action: "outer".into(), ..Default::default() };

    let timeout = Request::new(RunActionRequest { timeout: Some(millis(200)), ..run() });
    let mut header = Request::new(run());
    let at = unix_millis(SystemTime::now() + SHORT);
    header.metadata_mut().insert("x-a11-deadline", at.parse().expect("ascii"));
    let mut rpc = Request::new(run());
    rpc.set_timeout(SHORT);
    let at = unix_millis(SystemTime::now() + 3 * SHORT);
    let own_header = Request::new(RunActionRequest {
        headers: [("X-A11-Deadline".to_owned(), at.into())].into(),
        ..run()
    });
    for (how, request) in
        [("timeout", timeout), ("header", header), ("rpc", rpc), ("own header", own_header)]
    {
        let status = client.run_action(request).await.expect_err(how);
        // A client that keeps its own time may be first to say so.
        assert!(
            matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled),
            "{how}: {status}"
        );
        if how != "rpc" {
            assert_eq!(failure(status), (Code::DeadlineExceeded, Reason::Deadline), "{how}");
        }
        server.idle().await;
    }
}

#[tokio::test]
async fn a_deadline_that_has_passed_ends_a_call_before_it_does_anything() {
    let notes = Notes::default();
    let server = TestServer::start(registry(&notes)).await;
    let mut client = server.client().await;
    for past in ["0", "1", "1700000000000"] {
        let mut request =
            Request::new(RunActionRequest { action: "inner".into(), ..Default::default() });
        request.metadata_mut().insert("x-a11-deadline", past.parse().expect("ascii"));
        let status = client.run_action(request).await.expect_err(past);
        assert_eq!(failure(status), (Code::DeadlineExceeded, Reason::Deadline), "{past}");
    }
    let zero =
        RunActionRequest { action: "inner".into(), timeout: Some(millis(0)), ..Default::default() };
    let status = client.run_action(zero).await.expect_err("zero");
    assert_eq!(failure(status), (Code::DeadlineExceeded, Reason::Deadline));
    assert_eq!(*notes.time_left.lock(), None, "the handler never began");
}

#[tokio::test]
async fn what_finished_in_time_reaches_a_caller_whose_rpc_has_a_deadline() {
    let server = TestServer::start(registry(&Notes::default())).await;
    let mut client = server.client().await;
    let calls = [asked("quick", "echo", &[("word", "hi")]), asked("slow", "outer", &[])];
    let mut request = Request::new(execute(turn(calls)));
    request.set_timeout(Duration::from_secs(1));
    let response = client.execute_actions_from_interaction(request).await.expect("in time");
    let response = response.into_inner();
    let results: Vec<_> = response.results.iter().map(of_result).collect();
    assert_eq!((results[0].0, results[0].1), ("quick", Code::Ok));
    assert_eq!((results[1].0, results[1].1), ("slow", Code::DeadlineExceeded));
    let outputs = &response.interaction.expect("a turn").action_outputs;
    assert_eq!(outputs["quick"].fragments.len(), 1);
    server.idle().await;
}

#[tokio::test]
async fn a_round_streamed_ends_each_call_in_time_and_then_sums_up() {
    use stream_actions_from_interaction_response::Event;
    let server = TestServer::start(registry(&Notes::default())).await;
    let mut client = server.client().await;
    let calls = [asked("one", "outer", &[]), asked("two", "hang", &[])];
    let mut request = execute(turn(calls));
    request.call_timeout = Some(millis(200));
    let began = Instant::now();
    let request = StreamActionsFromInteractionRequest { request: Some(request) };
    let events = client.stream_actions_from_interaction(request).await.expect("starts");
    let mut events = events.into_inner();
    let mut outputs: Vec<NodeFragment> = vec![];
    let mut finished = vec![];
    let mut summary = None;
    while let Some(event) = events.message().await.expect("no failure of the RPC") {
        assert!(summary.is_none(), "the summary is last");
        match event.event.expect("an event") {
            Event::Started(_) | Event::Log(_) => {}
            Event::Output(output) => outputs.extend(output.fragments),
            Event::Finished(result) => finished.push(result),
            Event::Summary(whole) => summary = Some(whole),
        }
    }
    check_time(began);
    assert_eq!(outputs.len(), 2, "what was put out before the deadline came at once");
    assert_eq!(finished.len(), 2);
    let summary = summary.expect("a summary");
    let ids: Vec<_> = summary.results.iter().map(|result| result.id.as_str()).collect();
    assert_eq!(ids, ["one", "two"]);
    for result in finished.iter().chain(&summary.results) {
        assert_eq!(of_result(result).1, Code::DeadlineExceeded);
    }
    server.idle().await;
}

/// Times that some clock cannot say: the machine's, that of the day, or the timer's.
fn far() -> impl Iterator<Item = pbjson_types::Duration> {
    const YEAR: i64 = 365 * 24 * 3600;
    let seconds =
        [i64::MAX, i64::MAX - YEAR, i64::MAX - 100 * YEAR, u64::MAX as i64 / 2, 200 * YEAR];
    seconds.into_iter().map(|seconds| pbjson_types::Duration { seconds, nanos: 999_999_999 })
}

/// How `echo` ends over each RPC that takes a timeout.
async fn timed(server: &TestServer, timeout: pbjson_types::Duration) -> [Status; 4] {
    let mut client = server.client().await;
    let (action, timeout) = ("echo".to_owned(), Some(timeout));
    let arguments_json = r#"{"word":"hi"}"#.to_owned();
    let (name, arguments) = (action.clone(), arguments_json.clone());
    let run = RunActionRequest { action, arguments_json, timeout, ..Default::default() };
    let run = client.run_action(run).await.map_or_else(Status::from, |_| Status::ok());

    let (action, arguments_json) = (name.clone(), arguments.clone());
    let stream = StreamActionRequest { action, arguments_json, timeout, ..Default::default() };
    let streamed = async {
        let mut events = client.stream_action(stream).await?.into_inner();
        while let Some(event) = events.message().await? {
            if let Some(stream_action_response::Event::Status(status)) = event.event {
                return Ok(status.into());
            }
        }
        panic!("no status")
    };
    let streamed = streamed.await.unwrap_or_else(|status: tonic::Status| status.into());

    let (action, arguments_json) = (name, arguments);
    let start = CallStart { action, arguments_json, timeout, ..Default::default() };
    let start = CallActionRequest { message: Some(call_action_request::Message::Start(start)) };
    let called = async {
        let requests = futures::stream::iter([start]);
        let mut events = client.call_action(requests).await?.into_inner();
        while let Some(event) = events.message().await? {
            if let Some(call_action_response::Event::Status(status)) = event.event {
                return Ok(status.into());
            }
        }
        panic!("no status")
    };
    let called = called.await.unwrap_or_else(|status: tonic::Status| status.into());

    let mut request = execute(turn([asked("c", "echo", &[("word", "hi")])]));
    request.call_timeout = timeout;
    let executed = client.execute_actions_from_interaction(request).await;
    let executed = executed.map_or_else(Status::from, |response| {
        response.into_inner().results.remove(0).status.expect("a status").into()
    });
    [run, streamed, called, executed]
}

#[tokio::test]
async fn a_deadline_as_late_as_can_be_is_no_deadline() {
    let server = TestServer::start(registry(&Notes::default())).await;
    for far in far() {
        for (way, status) in timed(&server, far).await.into_iter().enumerate() {
            assert!(status.is_ok(), "{way}, {far:?}: {status}");
        }
    }
    let mut client = server.client().await;
    for late in [u64::MAX, u64::MAX / 2, 10_000_000_000_000_000] {
        let mut request = Request::new(RunActionRequest {
            action: "echo".into(),
            arguments_json: r#"{"word":"hi"}"#.into(),
            ..Default::default()
        });
        let late = late.to_string();
        request.metadata_mut().insert("x-a11-deadline", late.parse().expect("ascii"));
        client.run_action(request).await.expect("runs");
    }
}

#[tokio::test]
async fn a_negative_timeout_is_up_and_a_malformed_one_is_refused() {
    let server = TestServer::start(registry(&Notes::default())).await;
    let check = async |seconds, nanos, reason| {
        let timeout = pbjson_types::Duration { seconds, nanos };
        for (way, status) in timed(&server, timeout).await.into_iter().enumerate() {
            assert_eq!(status.reason, reason, "{way}, {timeout:?}: {status}");
        }
    };
    check(0, 0, Reason::Deadline).await;
    check(-1, 0, Reason::Deadline).await;
    check(i64::MIN, -999_999_999, Reason::Deadline).await;
    check(0, -1, Reason::Deadline).await;
    check(1, 1_000_000_000, Reason::InvalidRequest).await;
    check(1, -1, Reason::InvalidRequest).await;
    check(-1, 1, Reason::InvalidRequest).await;
}

//! CallAction: headers at once, inputs and outputs side by side, refusals while
//! the caller is still writing, and everything a caller can get wrong on the way.

#![allow(missing_docs)]

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/server.rs"]
mod server;
#[path = "support/trials.rs"]
mod trials;
#[path = "support/turns.rs"]
mod turns;

use a11_grpc::action::{ActionSchema, Context, Port, handler};
use a11_grpc::wire::pb::{
    self, CallActionRequest, CallActionResponse, CallStart, NodeFragments,
    action_service_client::ActionServiceClient, call_action_request::Message,
    call_action_response::Event,
};
use a11_grpc::wire::{Chunk, NodeFragment, Reason, Status};
use futures::{StreamExt as _, stream};
use server::TestServer;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming, transport::Channel};
use turns::Failure;

type Client = ActionServiceClient<Channel>;

fn start(action: &str) -> CallActionRequest {
    let start = CallStart { action: action.into(), ..Default::default() };
    CallActionRequest { message: Some(Message::Start(start)) }
}

fn start_with(action: &str, arguments_json: &str) -> CallActionRequest {
    let start = CallStart {
        action: action.into(),
        arguments_json: arguments_json.into(),
        ..Default::default()
    };
    CallActionRequest { message: Some(Message::Start(start)) }
}

fn inputs(fragments: impl Into<Vec<NodeFragment>>) -> CallActionRequest {
    let fragments = fragments.into();
    CallActionRequest { message: Some(Message::Inputs(NodeFragments { fragments })) }
}

fn more(port: &str, text: &str) -> NodeFragment {
    NodeFragment::more(port, Chunk::text(text))
}

fn last(port: &str, text: &str) -> NodeFragment {
    NodeFragment::last(port, Chunk::text(text))
}

fn at(seq: u32, fragment: NodeFragment) -> NodeFragment {
    NodeFragment { seq: Some(seq), ..fragment }
}

/// The texts that a call put out, and how it ended.
type Ending = (Vec<String>, Status);

/// Sends all requests, half-closes, and reads to the end. A failure of the RPC
/// and the status in the stream are one here.
async fn call(client: &mut Client, requests: Vec<CallActionRequest>) -> Ending {
    match client.call_action(stream::iter(requests)).await {
        Ok(events) => read(events.into_inner()).await,
        Err(status) => (vec![], status.into()),
    }
}

async fn read(mut events: Streaming<CallActionResponse>) -> Ending {
    let mut texts = vec![];
    let mut ended = None;
    loop {
        match events.message().await {
            Ok(Some(event)) => {
                assert!(ended.is_none(), "the status is last");
                match event.event.expect("an event") {
                    Event::Outputs(outputs) => texts.extend(texts_of(&outputs)),
                    Event::Log(_) => {}
                    Event::Status(status) => ended = Some(Status::from(status)),
                }
            }
            Ok(None) => return (texts, ended.expect("a status, last")),
            Err(status) => return (texts, status.into()),
        }
    }
}

fn texts_of(outputs: &NodeFragments) -> Vec<String> {
    let chunks = outputs.fragments.iter().filter_map(NodeFragment::chunk);
    chunks
        .filter(|chunk| !chunk.is_null())
        .map(|chunk| String::from_utf8_lossy(chunk.data()).into_owned())
        .collect()
}

async fn server() -> (TestServer, Client) {
    let registry = trials::registry();
    // Reads its second port to the end before it looks at the first.
    let schema = ActionSchema::builder("second_first")
        .input(Port::text("first").stream())
        .input(Port::text("second").stream())
        .output(Port::text("order").stream());
    let run = |context: Context| async move {
        for port in ["second", "first"] {
            let mut words = context.read_stream::<String>(port)?;
            let mut bytes = 0;
            while let Some(word) = words.next().await {
                bytes += word?.len();
            }
            context.write("order", &format!("{port}: {bytes}")).await?;
        }
        Ok(())
    };
    registry.register(schema.build(), handler(run)).expect("second_first");
    let schema = ActionSchema::builder("first_word")
        .input(Port::text("words").stream())
        .output(Port::text("word"));
    let run = |context: Context| async move {
        let mut words = context.read_stream::<String>("words")?;
        let word = words.next().await.expect("a word")?;
        context.write("word", &word).await
    };
    registry.register(schema.build(), handler(run)).expect("first_word");
    let schema = ActionSchema::builder("scaled")
        .input(Port::json("by").schema(r#"{"type":"integer","maximum":9}"#).required())
        .input(Port::json("numbers").schema(r#"{"type":"number","minimum":0}"#).stream())
        .output(Port::json("products").stream());
    let run = |context: Context| async move {
        let by: f64 = context.read("by").await?;
        let mut numbers = context.read_stream::<f64>("numbers")?;
        while let Some(number) = numbers.next().await {
            context.write("products", &(by * number?)).await?;
        }
        Ok(())
    };
    registry.register(schema.build(), handler(run)).expect("scaled");
    let server = TestServer::start(registry).await;
    let client = server.client().await;
    (server, client)
}

#[tokio::test]
async fn what_is_written_to_a_running_call_is_fitted_to_its_ports() {
    let (_server, mut client) = server().await;
    // The inputs, and the products or the input that is refused.
    type Expected = Result<&'static [&'static str], &'static str>;
    let cases: [(&str, &[&str], Expected); 4] = [
        ("2", &["1", "2.5"], Ok(&["2.0", "5.0"])),
        ("10", &["1"], Err("input \"by\"")),
        ("two", &["1"], Err("input \"by\"")),
        ("2", &["1", "-1"], Err("input \"numbers\"")),
    ];
    for (by, numbers, expected) in cases {
        // Texts on JSON ports: what they say is what counts.
        let mut requests = vec![start("scaled"), inputs([last("by", by)])];
        requests.extend(numbers.iter().map(|number| inputs([more("numbers", number)])));
        requests.push(inputs([NodeFragment::end("numbers")]));
        let (products, status) = call(&mut client, requests).await;
        match expected {
            Ok(expected) => assert_eq!(
                (products, status.code as i32),
                (expected.iter().map(ToString::to_string).collect(), 0)
            ),
            Err(names) => {
                assert_eq!(status.reason, Reason::InvalidInput, "{status:?}");
                assert!(status.message.contains(names), "{status:?}");
            }
        }
    }
}

#[tokio::test]
async fn response_headers_come_at_once_with_nothing_sent() {
    let (server, mut client) = server().await;
    let (requests, received) = mpsc::channel(4);
    let events = client.call_action(ReceiverStream::new(received)).await.expect("headers");
    // And the call is as good as any.
    requests.send(start("relay")).await.expect("room");
    requests.send(inputs([last("words", "late")])).await.expect("room");
    drop(requests);
    let (texts, status) = read(events.into_inner()).await;
    assert_eq!((texts, status.code), (vec!["late".to_owned()], Code::Ok), "{status}");
    server.idle().await;
}

#[tokio::test]
async fn each_side_answers_the_other_in_turn() {
    let (server, mut client) = server().await;
    let (requests, received) = mpsc::channel(1);
    requests.send(start("relay")).await.expect("room");
    let events = client.call_action(ReceiverStream::new(received)).await.expect("starts");
    let mut events = events.into_inner();
    for word in ["one", "two", "three"] {
        requests.send(inputs([more("words", word)])).await.expect("room");
        let event = events.message().await.expect("no failure").expect("an event");
        let Some(Event::Outputs(outputs)) = event.event else { panic!("{event:?}") };
        assert_eq!(texts_of(&outputs), [word]);
    }
    drop(requests);
    let (_, status) = read(events).await;
    assert!(status.is_ok(), "{status}");
    server.idle().await;
}

#[tokio::test]
async fn a_refusal_has_its_real_status_every_time_while_the_caller_is_still_writing() {
    let (_server, client) = server().await;
    let check = async |first: CallActionRequest, expected: Failure| {
        for _ in 0..100 {
            // Never ends: the caller writes until it is told to stop.
            let big = "x".repeat(10_000);
            let rest = stream::repeat(inputs([more("words", &big)]));
            let requests = stream::iter([first.clone()]).chain(rest);
            let mut client = client.clone();
            let status = match client.call_action(requests).await {
                Ok(events) => read(events.into_inner()).await.1,
                Err(status) => status.into(),
            };
            assert_eq!((status.code, status.reason), expected, "{status}");
        }
    };
    check(start("no_such_action"), (Code::NotFound, Reason::UnknownAction)).await;
    check(start("schema_only"), (Code::NotFound, Reason::NoHandler)).await;
    check(start_with("relay", r#"{"nope":1}"#), (Code::InvalidArgument, Reason::UndeclaredInput))
        .await;
    check(inputs([more("words", "x")]), (Code::InvalidArgument, Reason::InvalidRequest)).await;
}

#[tokio::test]
async fn a_call_that_is_opened_wrongly_is_refused() {
    let (server, mut client) = server().await;
    let nothing = CallActionRequest { message: None };
    let check = [
        (vec![], Reason::InvalidRequest),
        (vec![nothing.clone()], Reason::InvalidRequest),
        (vec![inputs([last("words", "x")]), start("relay")], Reason::InvalidRequest),
        (vec![start("relay"), start("relay")], Reason::InvalidRequest),
        (vec![start("relay"), inputs([more("words", "x")]), start("echo")], Reason::InvalidRequest),
        (vec![start("relay"), nothing], Reason::InvalidRequest),
        (vec![start_with("echo", "{")], Reason::InvalidInput),
        (vec![start_with("echo", r#"{"word":7}"#)], Reason::InvalidInput),
        (vec![start_with("who_am_i", r#"{"user_id":"root"}"#)], Reason::AutofilledInput),
        (vec![start("echo")], Reason::MissingInput),
    ];
    for (requests, reason) in check {
        let shown = format!("{requests:?}");
        let (_, status) = call(&mut client, requests).await;
        assert_eq!(
            (status.code, status.reason),
            (Code::InvalidArgument, reason),
            "{shown} {status}"
        );
        server.idle().await;
    }
}

#[tokio::test]
async fn inputs_that_contradict_or_do_not_belong_fail_the_call() {
    let (server, mut client) = server().await;
    let opened =
        |action: &str, fragments: Vec<NodeFragment>| vec![start(action), inputs(fragments)];
    let image = NodeFragment::last("words", Chunk::new("image/png", "x"));
    let no_text = NodeFragment::last("words", Chunk::new("text/plain", vec![0xff, 0xfe]));
    let reference = NodeFragment {
        payload: Some(pb::node_fragment::Payload::NodeRef(pb::NodeRef {
            id: "elsewhere".into(),
            ..Default::default()
        })),
        ..last("words", "")
    };
    let check = [
        (
            opened("relay", vec![at(0, more("words", "a")), at(0, more("words", "b"))]),
            Code::InvalidArgument,
            Reason::SeqConflict,
        ),
        (
            opened("relay", vec![last("words", "a"), more("words", "b")]),
            Code::InvalidArgument,
            Reason::PastFinal,
        ),
        (
            opened("relay", vec![at(3, more("words", "d")), at(1, last("words", "b"))]),
            Code::InvalidArgument,
            Reason::PastFinal,
        ),
        (
            opened("relay", vec![at(0, more("words", "a")), at(2, last("words", "c"))]),
            Code::DataLoss,
            Reason::Gap,
        ),
        (opened("relay", vec![at(u32::MAX, more("words", "a"))]), Code::DataLoss, Reason::Gap),
        (
            opened("relay", vec![at(u32::MAX, more("words", "a")), more("words", "b")]),
            Code::ResourceExhausted,
            Reason::NodeFull,
        ),
        (opened("relay", vec![more("nope", "a")]), Code::InvalidArgument, Reason::UndeclaredInput),
        (opened("relay", vec![image]), Code::InvalidArgument, Reason::InvalidInput),
        (opened("relay", vec![no_text]), Code::InvalidArgument, Reason::InvalidInput),
        (opened("relay", vec![reference]), Code::NotFound, Reason::UnknownNode),
        (
            opened("who_am_i", vec![last("question", "who?"), last("user_id", "root")]),
            Code::InvalidArgument,
            Reason::AutofilledInput,
        ),
        // A port that was given as an argument has ended with it.
        (
            vec![start_with("echo", r#"{"word":"a"}"#), inputs([last("word", "b")])],
            Code::InvalidArgument,
            Reason::PastFinal,
        ),
        (
            opened(
                "sum_numbers",
                vec![NodeFragment::last("numbers", Chunk::new("application/json", "\"x\""))],
            ),
            Code::InvalidArgument,
            Reason::InvalidInput,
        ),
    ];
    for (requests, code, reason) in check {
        let shown = format!("{requests:?}");
        let (_, status) = call(&mut client, requests).await;
        assert_eq!((status.code, status.reason), (code, reason), "{shown} {status}");
        server.idle().await;
    }
}

#[tokio::test]
async fn fragments_in_any_order_and_repeated_are_read_in_order() {
    let (server, mut client) = server().await;
    let check = [
        vec![at(2, last("words", "c")), at(0, more("words", "a")), at(1, more("words", "b"))],
        vec![
            at(0, more("words", "a")),
            at(0, more("words", "a")),
            at(2, last("words", "c")),
            at(1, more("words", "b")),
            at(2, last("words", "c")),
        ],
        vec![more("words", "a"), more("words", "b"), last("words", "c")],
        // No final fragment: the half-close ends it.
        vec![more("words", "a"), more("words", "b"), more("words", "c")],
        // The only port callers write may go without its name.
        vec![more("", "a"), more("", "b"), last("", "c")],
    ];
    for fragments in check {
        let shown = format!("{fragments:?}");
        let (texts, status) = call(&mut client, vec![start("relay"), inputs(fragments)]).await;
        assert!(status.is_ok(), "{shown} {status}");
        assert_eq!(texts, ["a", "b", "c"], "{shown}");
    }
    let pieces = vec![more("word", "h"), last("word", "i")];
    let (texts, status) = call(&mut client, vec![start("echo"), inputs(pieces)]).await;
    assert!(status.is_ok(), "{status}");
    assert_eq!(texts, ["hi"]);
    server.idle().await;
}

#[tokio::test]
async fn a_port_that_is_read_late_keeps_what_it_is_fed() {
    let (server, mut client) = server().await;
    let part = "x".repeat(1000);
    // Within what one port holds unread.
    let mut requests = vec![start("second_first")];
    requests.extend((0..500).map(|_| inputs([more("first", &part)])));
    requests.extend((0..5_000).map(|_| inputs([more("second", &part)])));
    let (texts, status) = call(&mut client, requests).await;
    assert!(status.is_ok(), "{status}");
    assert_eq!(texts, ["second: 5000000", "first: 500000"]);
    server.idle().await;
}

#[tokio::test]
async fn a_port_fed_past_what_is_read_holds_its_own_call_until_the_deadline_and_no_other() {
    let (server, mut client) = server().await;
    let part = "x".repeat(100_000);
    let opening = CallStart {
        action: "second_first".into(),
        timeout: Some(turns::millis(200)),
        ..Default::default()
    };
    let opening = CallActionRequest { message: Some(Message::Start(opening)) };
    let requests = stream::iter([opening]).chain(stream::repeat(inputs([more("first", &part)])));
    let events = client.call_action(requests).await.expect("starts");
    let beside = call(&mut client, vec![start("relay"), inputs([last("words", "a")])]).await;
    assert!(beside.1.is_ok(), "{}", beside.1);
    let (_, status) = read(events.into_inner()).await;
    assert_eq!(
        (status.code, status.reason),
        (Code::DeadlineExceeded, Reason::Deadline),
        "{status}"
    );
    server.idle().await;
}

#[tokio::test]
async fn a_call_that_needs_no_more_ends_while_its_caller_is_still_writing() {
    let (server, client) = server().await;
    let word = "b".repeat(10_000);
    for _ in 0..20 {
        let opening = [start("first_word"), inputs([more("words", "a")])];
        let rest = stream::repeat(inputs([more("words", &word)]));
        let requests = stream::iter(opening).chain(rest);
        let events = client.clone().call_action(requests).await.expect("starts");
        let (texts, status) = read(events.into_inner()).await;
        assert!(status.is_ok(), "{status}");
        assert_eq!(texts, ["a"]);
    }
    server.idle().await;
}

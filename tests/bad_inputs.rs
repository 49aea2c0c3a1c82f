//! Inputs that do not fit: each is that call's failure, with the input named, and
//! touches nothing else.

#![allow(missing_docs)]

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/server.rs"]
mod server;
#[path = "support/trials.rs"]
mod trials;
#[path = "support/turns.rs"]
mod turns;

use a11_grpc::wire::pb::{self, RunActionRequest};
use a11_grpc::wire::{Chunk, NodeFragment, Reason, Status};
use server::TestServer;
use tonic::Code;
use turns::{Client, asked, endings, execute, failure, turn};

async fn server() -> (TestServer, Client) {
    let server = TestServer::start(trials::registry()).await;
    let client = server.client().await;
    (server, client)
}

#[tokio::test]
async fn inputs_of_one_call_that_do_not_fit_are_that_calls_failure() {
    let (_server, mut client) = server().await;
    let with = |name: &str, inputs: Vec<NodeFragment>| {
        let mut odd = asked("odd", name, &[]);
        odd.inputs = inputs;
        execute(turn([odd, asked("good", "echo", &[("word", "hi")])]))
    };
    let at = |seq, fragment: NodeFragment| NodeFragment { seq: Some(seq), ..fragment };
    let more = |text: &str| NodeFragment::more("word", Chunk::text(text));
    let last = |text: &str| NodeFragment::last("word", Chunk::text(text));
    let on = |port: &str, chunk: Chunk| NodeFragment::last(port, chunk);
    let json = |text: &str| Chunk::new("application/json", text.to_owned());
    let reference = NodeFragment {
        payload: Some(pb::node_fragment::Payload::NodeRef(pb::NodeRef {
            id: "elsewhere".into(),
            ..Default::default()
        })),
        ..last("")
    };
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let check = [
        ("echo", vec![], Code::InvalidArgument, Reason::MissingInput),
        (
            "echo",
            vec![at(0, more("a")), at(0, more("b")), last("")],
            Code::InvalidArgument,
            Reason::SeqConflict,
        ),
        ("echo", vec![at(0, more("a")), at(2, last("c"))], Code::DataLoss, Reason::Gap),
        ("echo", vec![last("a"), more("b")], Code::InvalidArgument, Reason::PastFinal),
        ("echo", vec![at(u32::MAX, last("a"))], Code::DataLoss, Reason::Gap),
        (
            "echo",
            vec![on("word", Chunk::new("text/plain", vec![0xff]))],
            Code::InvalidArgument,
            Reason::InvalidInput,
        ),
        (
            "echo",
            vec![on("word", Chunk::new("image/png", "x"))],
            Code::InvalidArgument,
            Reason::InvalidInput,
        ),
        (
            "echo",
            vec![on("nope", Chunk::text("x"))],
            Code::InvalidArgument,
            Reason::UndeclaredInput,
        ),
        (
            "echo",
            vec![on(&"n".repeat(100_000), Chunk::text("x"))],
            Code::InvalidArgument,
            Reason::UndeclaredInput,
        ),
        ("echo", vec![reference], Code::NotFound, Reason::UnknownNode),
        (
            "who_am_i",
            vec![on("question", Chunk::text("who?")), on("user_id", Chunk::text("root"))],
            Code::InvalidArgument,
            Reason::AutofilledInput,
        ),
        ("slow", vec![on("millis", json("{"))], Code::InvalidArgument, Reason::InvalidInput),
        ("slow", vec![on("millis", json("\"x\""))], Code::InvalidArgument, Reason::InvalidInput),
        ("slow", vec![on("millis", json("1.5"))], Code::InvalidArgument, Reason::InvalidInput),
        ("slow", vec![on("millis", json(&deep))], Code::InvalidArgument, Reason::InvalidInput),
        ("parse", vec![on("value", json(&deep))], Code::InvalidArgument, Reason::InvalidInput),
        ("schema_only", vec![], Code::NotFound, Reason::NoHandler),
    ];
    for (name, inputs, code, reason) in check {
        let shown: String = format!("{name} {inputs:?}").chars().take(300).collect();
        let got = endings(&mut client, with(name, inputs)).await;
        assert_eq!((got[0].0, got[0].1), (code, reason), "{shown} {}", got[0].2);
        assert!(got[0].2.len() <= 4096, "{} bytes", got[0].2.len());
        assert_eq!(got[1].0, Code::Ok, "the other call is untouched: {}", got[1].2);
    }
}

#[tokio::test]
async fn a_node_bound_to_one_port_and_named_like_another_is_ambiguous() {
    let (_server, mut client) = server().await;
    let bind = |name: &str, id: &str| pb::PortBinding { name: name.into(), id: id.into() };
    let mut odd = asked("odd", "fail_with", &[("message", "NOT_FOUND")]);
    odd.message.inputs = vec![bind("code", "message")];
    let got = endings(&mut client, execute(turn([odd]))).await;
    assert_eq!((got[0].0, got[0].1), (Code::InvalidArgument, Reason::InvalidInput), "{}", got[0].2);
    let mut bound = asked("bound", "echo", &[("node-1", "hi")]);
    bound.message.inputs = vec![bind("word", "node-1"), bind("nope", "node-2")];
    let got = endings(&mut client, execute(turn([bound]))).await;
    assert_eq!(got[0].0, Code::Ok, "{}", got[0].2);
}

#[tokio::test]
async fn one_actions_arguments_given_two_ways_or_in_no_way_are_refused() {
    use pbjson_types::Struct;
    let (_server, mut client) = server().await;
    let echo = || RunActionRequest { action: "echo".into(), ..Default::default() };
    let json = || r#"{"word":"hi"}"#.to_owned();
    let fragments = || vec![NodeFragment::last("word", Chunk::text("hi"))];
    let object = || Some(Struct { fields: Default::default() });
    let duration = |seconds, nanos| Some(pbjson_types::Duration { seconds, nanos });
    let check = [
        (
            RunActionRequest { arguments: object(), arguments_json: json(), ..echo() },
            Reason::InvalidRequest,
            "arguments",
        ),
        (
            RunActionRequest { inputs: fragments(), arguments_json: json(), ..echo() },
            Reason::InvalidRequest,
            "inputs",
        ),
        (
            RunActionRequest { inputs: fragments(), arguments: object(), ..echo() },
            Reason::InvalidRequest,
            "inputs",
        ),
        (
            RunActionRequest { arguments_json: json(), timeout: duration(1, -1), ..echo() },
            Reason::InvalidRequest,
            "timeout",
        ),
        (
            RunActionRequest { arguments_json: json(), timeout: duration(0, i32::MIN), ..echo() },
            Reason::InvalidRequest,
            "timeout",
        ),
        (RunActionRequest { arguments_json: "{".into(), ..echo() }, Reason::InvalidInput, "JSON"),
        (echo(), Reason::MissingInput, "word"),
    ];
    for (request, reason, names) in check {
        let status = Status::from(client.run_action(request).await.map(drop).expect_err(names));
        assert_eq!((status.code, status.reason), (Code::InvalidArgument, reason), "{status}");
        assert!(status.message.contains(names), "{status}");
    }
    for name in ["", "no_such_action", "e!", &"x".repeat(100_000)] {
        let request = RunActionRequest { action: name.into(), ..Default::default() };
        let status = client.run_action(request).await.map(drop).expect_err("unknown");
        assert_eq!(failure(status), (Code::NotFound, Reason::UnknownAction));
    }
}

//! Inputs that are written while their action runs are held to its ports, and
//! bounded, whatever runs the action: a handler, a typed function, a command, a
//! tool of another MCP server.

#![allow(missing_docs)]

#[path = "support/mcp.rs"]
mod mcp;
#[path = "support/server.rs"]
mod server;
#[path = "support/taking.rs"]
mod taking;

use std::{path::Path, sync::Arc};

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler, typed::Incoming};
use a11_grpc::config::{Config, register};
use a11_grpc::mcp::{McpOptions, McpSource, Reach, Taking};
use a11_grpc::wire::pb::{
    CallActionRequest, CallStart, NodeFragments, call_action_request::Message,
    call_action_response::Event,
};
use a11_grpc::wire::{Chunk, Code, NodeFragment, Reason, Status};
use futures::{Stream, StreamExt as _, stream};
use server::TestServer;

const COMMANDS: &str = r#"
[actions.show]
command = ["printf", "%s\\n", "{files}"]
output = "lines"
inputs.files = { stream = true, schema = { type = "string", pattern = "^[a-z]+$" } }

[actions.sum]
command = ["cat"]
stdin = "json"
output = "json"
inputs.numbers = { stream = true, schema = { type = ["integer", "array"] } }

[actions.count]
command = ["wc", "-c"]
stdin = { argument = "text" }
inputs.text = { required = true }
"#;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Numbers {
    numbers: Incoming<u32>,
}

/// Actions of each kind, and the MCP server whose tools are among them.
async fn registry() -> (Arc<Registry>, Taking) {
    let far = Arc::new(Registry::new());
    let schema = ActionSchema::builder("tool")
        .input(Port::text("files").stream().schema(r#"{"type":"string","pattern":"^[a-z]+$"}"#))
        .input(Port::text("text"))
        .input(Port::json("numbers").stream())
        .output(Port::text("output").stream());
    let run = |context: Context| async move {
        let mut files = context.read_stream::<String>("files")?;
        while let Some(file) = files.next().await {
            context.write("output", &file?).await?;
        }
        Ok(())
    };
    far.register(schema.build(), handler(run)).expect("registers");
    let mcp = mcp::TestServer::start(McpOptions::new(far)).await;

    let config = Config::parse(COMMANDS, Path::new("actions.toml"), Path::new("."));
    let registry = Arc::new(Registry::new());
    let refused = register(&registry, config.expect("a config"));
    assert!(refused.is_empty(), "{refused:?}");
    let reach = Reach::Url { url: mcp.url.clone(), headers: vec![] };
    let source = McpSource { name: "far".to_owned(), prefix: String::new(), reach };
    let taking = Taking::begin(source, registry.clone());
    assert_eq!(taking::open(&taking).await, 1);

    let schema = ActionSchema::builder("typed");
    let typed = |Numbers { numbers }: Numbers, _: Context| async move {
        let numbers: Vec<_> = numbers.collect().await;
        numbers.into_iter().sum::<Result<u32, Status>>()
    };
    registry.register_function(schema, typed).expect("registers");
    let schema = ActionSchema::builder("read").input(Port::text("text")).output(Port::text("size"));
    let run = |context: Context| async move {
        let text: String = context.read("text").await?;
        context.write("size", &text.len().to_string()).await
    };
    registry.register(schema.build(), handler(run)).expect("registers");
    (registry, taking)
}

/// What an action puts out whose inputs are written while it runs.
async fn call(
    server: &TestServer,
    action: &str,
    inputs: impl Stream<Item = NodeFragment> + Send + 'static,
) -> Result<Vec<String>, Status> {
    let start = Message::Start(CallStart { action: action.to_owned(), ..Default::default() });
    let inputs = inputs.map(|it| Message::Inputs(NodeFragments { fragments: vec![it] }));
    let requests = stream::iter([start]).chain(inputs);
    let requests = requests.map(|message| CallActionRequest { message: Some(message) });
    let mut events = server.client().await.call_action(requests).await?.into_inner();
    let mut texts = vec![];
    while let Some(event) = events.message().await? {
        match event.event.expect("an event") {
            Event::Outputs(outputs) => {
                let chunks = outputs.fragments.iter().filter_map(NodeFragment::chunk);
                let values = chunks.filter(|chunk| !chunk.is_null());
                texts.extend(values.map(|it| String::from_utf8_lossy(it.data()).into_owned()));
            }
            Event::Log(_) => {}
            Event::Status(status) => {
                let status = Status::from(status);
                return if status.is_ok() { Ok(texts) } else { Err(status) };
            }
        }
    }
    panic!("no status")
}

fn text(text: &str) -> Chunk {
    Chunk::text(text)
}

fn json(text: &str) -> Chunk {
    Chunk::new("application/json", text.to_owned())
}

#[tokio::test]
async fn a_value_that_does_not_fit_its_port_reaches_no_action() {
    let (registry, _taking) = registry().await;
    let server = TestServer::start(registry).await;
    let check = async |action: &str, port: &'static str, chunks: Vec<Chunk>, expected| {
        let more = chunks.into_iter().map(move |chunk| NodeFragment::more(port, chunk));
        let inputs: Vec<_> = more.chain([NodeFragment::end(port)]).collect();
        let put_out = call(&server, action, stream::iter(inputs)).await;
        match (put_out, expected) {
            (Ok(put_out), Some(expected)) => assert_eq!(put_out.join(" "), expected, "{action}"),
            (Err(status), None) => {
                assert_eq!(status.reason, Reason::InvalidInput, "{action}: {status}");
                assert!(status.message.contains(port), "{action}: {status}");
            }
            (put_out, _) => panic!("{action}: {put_out:?}"),
        }
    };
    for action in ["show", "tool"] {
        check(action, "files", vec![text("ab"), json(r#""c""#)], Some("ab c")).await;
        check(action, "files", vec![text("ab"), text("--exec=x")], None).await;
        check(action, "files", vec![json("5")], None).await;
        check(action, "files", vec![Chunk::new("image/png", "x")], None).await;
    }
    let sum = |result: &'static str| Some(result);
    check("sum", "numbers", vec![text("5"), json("-6")], sum(r#"{"numbers":[5,-6]}"#)).await;
    check("sum", "numbers", vec![text("five")], None).await;
    check("typed", "numbers", vec![text("5"), json("6")], sum("11")).await;
    check("typed", "numbers", vec![json("-6")], None).await;
}

#[tokio::test]
async fn a_value_that_never_ends_is_refused_before_it_fills_the_memory() {
    let (registry, _taking) = registry().await;
    let server = TestServer::start(registry).await;
    let check = async |action: &str, ports: &'static [&str], chunk: Chunk, most: usize| {
        // Those before the last are ended first: an action may read one after the other.
        let (port, before) = ports.split_last().expect("a port");
        let pieces = most / chunk.data().len() + 2;
        let endless = stream::repeat_with(move || NodeFragment::more(*port, chunk.clone()));
        let before = stream::iter(before.iter().map(|port| NodeFragment::end(*port)));
        let inputs = before.chain(endless.take(pieces));
        let status = call(&server, action, inputs).await.expect_err(action);
        assert_eq!(status.code, Code::ResourceExhausted, "{action}: {status}");
    };
    let mebibyte = || text(&"x".repeat(1 << 20));
    check("read", &["text"], mebibyte(), 64 << 20).await;
    check("count", &["text"], mebibyte(), 16 << 20).await;
    check("tool", &["files", "numbers", "text"], mebibyte(), 16 << 20).await;
    check("tool", &["files"], mebibyte(), 16 << 20).await;
    // Half a million values each, which are a hundred bytes each in memory.
    let values = || json(&format!("[{}1]", "1,".repeat(500_000)));
    check("sum", &["numbers"], values(), 3_000_000).await;
    check("tool", &["files", "text", "numbers"], values(), 3_000_000).await;
}

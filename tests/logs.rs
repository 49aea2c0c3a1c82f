//! What the program says in its log: peers that come and go, what they publish,
//! calls over gRPC and MCP; and nothing that was passed.

#![allow(missing_docs, clippy::unwrap_used)]
#![cfg(unix)]

#[path = "support/program.rs"]
mod program;

use std::{process::Stdio, sync::Arc, time::Duration};

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
use a11_grpc::client::{Peer, connect};
use a11_grpc::wire::Status;
use rmcp::{
    ClientHandler, ServiceExt as _,
    model::{CallToolRequestParams, ClientConfig, Implementation},
    transport::StreamableHttpClientTransport,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStderr},
    time::timeout,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// What is passed in calls and must not be found in the log.
const SECRET: &str = "hunter2";
/// A name that would write a line of its own.
const FORGED: &str = "evil\n2026-01-01 INFO forged \u{1b}[31m";

struct Served {
    _child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    grpc: String,
    mcp: String,
    /// All that was said.
    said: Vec<String>,
}

impl Served {
    async fn start(more: &[&str]) -> Self {
        let args = ["serve", "--listen", "127.0.0.1:0", "--mcp", "127.0.0.1:0"];
        let mut child =
            program::command(&[&args[..], more].concat()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (grpc, mcp) = Default::default();
        let mut served = Self { _child: child, lines, grpc, mcp, said: vec![] };
        let after = |line: &str, what: &str| {
            let rest = line.split_once(what)?.1;
            Some(rest.split(['"', ' ']).next().unwrap_or_default().to_owned())
        };
        while served.mcp.is_empty() {
            let line = served.line().await;
            if let Some(address) = after(&line, "listening on ") {
                served.grpc = address;
            }
            served.mcp = after(&line, "MCP on ").unwrap_or_default();
        }
        served
    }

    async fn line(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("it says more");
        let line = line.unwrap().expect("it runs");
        self.said.push(line.clone());
        line
    }

    /// The fields of the next line with a message, of a log for machines.
    async fn event(&mut self, message: &str) -> Value {
        loop {
            let line = self.line().await;
            let line: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
            if line["fields"]["message"] == message {
                assert_eq!(line["level"], "INFO", "{line}");
                return line["fields"].clone();
            }
        }
    }

    fn secretive(&self) {
        let told = self.said.iter().find(|line| line.contains(SECRET));
        assert_eq!(told, None);
    }
}

fn hosted(description: &str) -> Arc<Registry> {
    let registry = Arc::new(Registry::new());
    let schema = ActionSchema::builder("greet")
        .describe(description)
        .input(Port::text("name").required())
        .output(Port::text("greeting"));
    let greet = async |context: Context| {
        let name: String = context.read("name").await?;
        context.log(&name);
        if name.is_empty() {
            return Err(Status::handler(a11_grpc::wire::Code::NotFound, SECRET));
        }
        context.write("greeting", &format!("hello {name}")).await
    };
    registry.register(schema.build(), handler(greet)).unwrap();
    registry
}

#[tokio::test]
async fn a_peer_is_told_of_from_its_coming_to_its_leaving() {
    let mut served = Served::start(&["--log-format", "json"]).await;
    let attach = async |description, name: &str| {
        let channel = connect(&served.grpc).await.unwrap();
        Peer::host(hosted(description)).named(name).connect(channel).await.unwrap()
    };
    let host = attach("", "greeter").await;
    let other = attach("Differs.", FORGED).await;
    other.close().await;
    let id = host.session().id().to_owned();
    host.call("greet").argument("name", SECRET).run().await.unwrap();
    host.close().await;

    let event = served.event("a peer attached").await;
    assert_eq!((&event["peer"], &event["actions"]), (&json!("greeter"), &json!(1)));
    assert_eq!(event["session"], id[..8]);
    let event = served.event("actions were published").await;
    assert_eq!((&event["peer"], &event["actions"]), (&json!("greeter"), &json!("greet")));
    let event = served.event("a peer attached").await;
    assert_eq!(event["peer"], FORGED);
    let event = served.event("an action was refused").await;
    assert_eq!((&event["action"], &event["code"]), (&json!("greet"), &json!("ALREADY_EXISTS")));
    assert!(event["why"].as_str().unwrap().contains(r#"peer "greeter""#), "{event}");
    let event = served.event("a peer left").await;
    assert_eq!((&event["peer"], &event["code"]), (&json!(FORGED), &json!("OK")));
    let event = served.event("a peer left").await;
    assert_eq!((&event["peer"], &event["actions"]), (&json!("greeter"), &json!(1)));
    served.secretive();
    assert!(served.said.iter().all(|line| !line.contains(&id)));
}

#[tokio::test]
async fn a_peer_whose_connection_breaks_and_comes_back_is_told_of() {
    let mut served = Served::start(&["--log-format", "json"]).await;
    let hosted = hosted("");
    // A way that can be cut.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let way = listener.local_addr().unwrap().to_string();
    let (open, is_open) = tokio::sync::watch::channel(true);
    let target = served.grpc.clone();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let (mut is_open, target) = (is_open.clone(), target.clone());
            if !*is_open.borrow_and_update() {
                continue;
            }
            tokio::spawn(async move {
                let mut far = tokio::net::TcpStream::connect(target).await.unwrap();
                tokio::select! {
                    _ = is_open.changed() => {}
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                }
            });
        }
    });
    let channel = connect(&way).await.unwrap();
    let host = Peer::host(hosted.clone()).named("greeter").connect(channel).await.unwrap();
    served.event("actions were published").await;
    open.send_replace(false);
    let event = served.event("a peer's connection is gone").await;
    assert_eq!((&event["peer"], &event["kept_seconds"]), (&json!("greeter"), &json!(60)));
    open.send_replace(true);
    assert_eq!(served.event("a peer came back").await["peer"], "greeter");
    hosted.remove("greet");
    let event = served.event("actions were withdrawn").await;
    assert_eq!((&event["count"], &event["actions"]), (&json!(1), &json!("greet")));
    host.close().await;
}

struct Named(&'static str);

impl ClientHandler for Named {
    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::default();
        info.client_info = Implementation::new(self.0, "1");
        info
    }
}

#[tokio::test]
async fn calls_over_mcp_stand_beside_those_of_grpc() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut served = Served::start(&["--log-format", "json"]).await;
    let channel = connect(&served.grpc).await.unwrap();
    let _host = Peer::host(hosted("")).connect(channel).await.unwrap();
    let transport = StreamableHttpClientTransport::from_uri(served.mcp.as_str());
    let client = Named(FORGED).serve(transport).await.unwrap();
    let tool = |name: &'static str, argument| {
        let mut params = CallToolRequestParams::new(name);
        params.arguments = json!({"name": argument}).as_object().cloned();
        client.call_tool(params)
    };
    assert_ne!(tool("greet", SECRET).await.unwrap().is_error, Some(true));
    assert_eq!(tool("greet", "").await.unwrap().is_error, Some(true));
    tool("nobody", SECRET).await.unwrap_err();

    for (action, code) in [("greet", "OK"), ("greet", "NOT_FOUND"), ("nobody", "NOT_FOUND")] {
        let event = served.event("call").await;
        assert_eq!((&event["rpc"], &event["action"]), (&json!("mcp/tools/call"), &json!(action)));
        assert_eq!((&event["code"], event["millis"].is_u64()), (&json!(code), true));
        assert_eq!(event["client"], format!("{FORGED}/1"));
    }
    served.secretive();
    let of_sdk = served.said.iter().find(|line| line.contains(r#""target":"rmcp"#));
    assert_eq!(of_sdk, None);
}

/// An action that fails, to be called in each of the ways.
const BROKEN: &str = "[actions.broken]\ncommand = ['false']\n[actions.fine]\ncommand = ['true']\n";

#[tokio::test]
async fn a_call_over_grpc_is_told_with_its_action_and_the_status_it_ended_with() {
    use a11_grpc::{client::actions, wire::pb};
    let config = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    std::fs::write(config.path(), BROKEN).unwrap();
    let path = config.path().to_str().unwrap();
    let mut served = Served::start(&["--log-format", "json", "--config", path]).await;
    let mut client = actions(connect(&served.grpc).await.unwrap());
    let action = || "broken".to_owned();

    let request = pb::RunActionRequest { action: action(), ..Default::default() };
    client.run_action(request).await.unwrap_err();
    let request = pb::StreamActionRequest { action: action(), ..Default::default() };
    let mut events = client.stream_action(request).await.unwrap().into_inner();
    while events.message().await.unwrap().is_some() {}
    let message = pb::call_action_request::Message::Start(pb::CallStart {
        action: action(),
        ..Default::default()
    });
    let start = pb::CallActionRequest { message: Some(message) };
    let calls = client.call_action(futures::stream::iter([start])).await.unwrap();
    let mut events = calls.into_inner();
    while events.message().await.unwrap().is_some() {}
    for rpc in ["RunAction", "StreamAction", "CallAction"] {
        let event = served.event("call").await;
        assert_eq!(event["rpc"], format!("a11.v1.ActionService/{rpc}"));
        assert_eq!((&event["action"], &event["code"]), (&json!("broken"), &json!("UNKNOWN")));
        assert!(event["client"].as_str().unwrap().contains("tonic"), "{event}");
    }

    let call = |id, name| json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    let reply = json!({"role": "assistant", "content": [call("a", "broken"), call("b", "fine")]});
    let round = || pb::ExecuteActionsFromInteractionRequest {
        interaction_json: reply.to_string(),
        allowed_actions: vec![".*".to_owned()],
        ..Default::default()
    };
    client.execute_actions_from_interaction(round()).await.unwrap();
    let request = pb::StreamActionsFromInteractionRequest { request: Some(round()) };
    let mut events = client.stream_actions_from_interaction(request).await.unwrap().into_inner();
    while events.message().await.unwrap().is_some() {}
    for rpc in ["ExecuteActionsFromInteraction", "StreamActionsFromInteraction"] {
        let event = served.event("call").await;
        assert_eq!(event["rpc"], format!("a11.v1.ActionService/{rpc}"));
        let told = (&event["calls"], &event["failed"], &event["code"]);
        assert_eq!(told, (&json!(2), &json!(1), &json!("OK")));
    }

    let open = pb::OpenFrame { resume_token: b"nobody's".to_vec().into(), ..Default::default() };
    let open = pb::Frame { body: Some(pb::frame::Body::Open(open)), ..Default::default() };
    let open = futures::stream::iter([pb::OpenSessionRequest { frame: Some(open) }]);
    let channel = connect(&served.grpc).await.unwrap();
    let mut sessions = pb::peer_service_client::PeerServiceClient::new(channel);
    let mut frames = sessions.open_session(open).await.unwrap().into_inner();
    while frames.message().await.unwrap().is_some() {}
    let event = served.event("call").await;
    assert_eq!(event["rpc"], "a11.v1.PeerService/OpenSession");
    assert_eq!(event["code"], "UNAVAILABLE", "{event}");
}

#[tokio::test]
async fn an_mcp_server_that_stays_away_is_told_of_once_and_why() {
    // Bound and dropped, so that nobody listens there.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let away = format!("http://{free}/mcp");
    let log = ["--log-format", "json", "--log", "info,a11_grpc=debug", "--mcp-server", &away];
    let mut served = Served::start(&log).await;
    let mut levels = vec![];
    let lines = served.said.clone().into_iter();
    let mut seen: std::collections::VecDeque<String> = lines.collect();
    while levels.len() < 2 {
        let line = match seen.pop_front() {
            Some(line) => line,
            None => served.line().await,
        };
        let line: Value = serde_json::from_str(&line).unwrap();
        assert!(!line["target"].as_str().unwrap().starts_with("rmcp"), "{line}");
        if line["fields"]["message"] == "an MCP server is away" {
            let fault = line["fields"]["fault"].as_str().unwrap();
            assert!(fault.contains("refused") && !fault.contains("rmcp"), "{fault}");
            levels.push(line["level"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(levels, ["WARN", "DEBUG"]);
}

#[tokio::test]
async fn a_name_that_a_peer_chose_stays_on_its_line() {
    let mut served = Served::start(&[]).await;
    let channel = connect(&served.grpc).await.unwrap();
    let host = Peer::host(hosted("")).named(FORGED).connect(channel).await.unwrap();
    host.close().await;
    while !served.line().await.contains("a peer left") {}
    let named = served.said.iter().filter(|line| line.contains("evil")).collect::<Vec<_>>();
    assert_eq!(named.len(), 3, "{named:?}");
    assert!(named.iter().all(|line| line.contains(r"evil\n2026") && !line.contains('\u{1b}')));
}

//! MCP servers that a request's `action_configs` names: dialled where that is
//! permitted, and nowhere else.

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/mcp.rs"]
mod mcp;
#[path = "support/server.rs"]
mod server;
#[path = "support/turns.rs"]
mod turns;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler, tool_name};
use a11_grpc::mcp::{Dialler, McpOptions, McpServer, PermittedPeer, http::HttpOptions};
use a11_grpc::wire::{Code, Reason, Status, pb};
use futures::FutureExt as _;
use hyper_util::{rt::TokioIo, server::conn::auto, service::TowerToHyperService};
use mcp::TestServer as FarServer;
use server::TestServer;
use tokio::{io::AsyncReadExt as _, io::AsyncWriteExt as _, net::TcpListener};
use turns::{asked, execute, turn};

/// A service that may dial some servers.
async fn service(permitted: &[&str]) -> (TestServer, Arc<Dialler>) {
    mcp::rustls_provider();
    let permitted: Vec<PermittedPeer> =
        permitted.iter().map(|peer| peer.parse().expect(peer)).collect();
    let dialler = Dialler::new(permitted);
    let registry = fixtures::registry();
    registry.set_dialler(dialler.clone());
    (TestServer::start(registry).await, dialler)
}

/// A request whose calls of `action` go to a peer.
fn request(
    peer: &pb::Peer,
    action: &str,
    inputs: &[(&str, &str)],
) -> pb::ExecuteActionsFromInteractionRequest {
    request_naming(peer, action, action, inputs)
}

/// The same, with the peer named for one action and another one called.
fn request_naming(
    peer: &pb::Peer,
    named: &str,
    action: &str,
    inputs: &[(&str, &str)],
) -> pb::ExecuteActionsFromInteractionRequest {
    let mut turn = turn([asked("c1", action, inputs), asked("c2", "echo", &[("word", "here")])]);
    let autofills = [("x-tenant".to_owned(), "t1".into())].into();
    let config = pb::ActionConfig { peer: Some(peer.clone()), header_autofills: autofills };
    turn.action_configs.insert(named.to_owned(), config);
    execute(turn)
}

/// What the call that went to the peer put out by port, while the call beside it
/// ran here.
async fn run(
    service: &TestServer,
    request: pb::ExecuteActionsFromInteractionRequest,
) -> Result<BTreeMap<String, Vec<String>>, Status> {
    let mut client = service.client().await;
    let response = client.execute_actions_from_interaction(request).await?.into_inner();
    let [far, near] = response.results.try_into().expect("two results");
    assert_eq!(near.status.map_or(0, |status| status.code), 0);
    let status = Status::from(far.status.unwrap_or_default());
    if !status.is_ok() {
        return Err(status);
    }
    let mut outputs = response.interaction.expect("a turn").action_outputs;
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for fragment in outputs.remove("c1").expect("outputs").fragments {
        let chunk = fragment.chunk().expect("a chunk");
        if !chunk.is_null() {
            let text = String::from_utf8_lossy(chunk.data()).into_owned();
            found.entry(fragment.id.clone()).or_default().push(text);
        }
    }
    Ok(found)
}

fn peer(text: &str) -> pb::Peer {
    text.parse().expect(text)
}

/// The peer's address of a URL.
fn peer_of(url: &str) -> String {
    url.replacen("http://", "mcp://", 1)
}

#[tokio::test]
async fn a_call_runs_at_the_server_that_its_config_names() {
    let far = fixtures::registry();
    let schema = ActionSchema::builder("tenant")
        .header("x-tenant", "whose", None)
        .output(Port::text("tenant"))
        .build();
    let run_there = handler(|context: Context| async move {
        let tenant = context.headers().text("x-tenant").unwrap_or_default().to_owned();
        context.write("tenant", &tenant).await
    });
    far.register(schema, run_there).expect("registered");
    let schema = ActionSchema::builder("a#b").output(Port::text("x")).build();
    let run_there = handler(|context: Context| async move { context.write("x", "y").await });
    far.register(schema, run_there).expect("registered");
    let far = FarServer::start(McpOptions::new(far)).await;
    let address = peer_of(&far.url);
    let (service, dialler) = service(&[&address]).await;
    let check = async |action: &str, inputs: &[(&str, &str)], expected: &[(&str, &[&str])]| {
        let found = run(&service, request(&peer(&address), action, inputs)).await.expect(action);
        let owned = |texts: &&[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let expected = expected.iter().map(|(port, texts)| ((*port).to_owned(), owned(texts)));
        assert_eq!(found, expected.collect(), "{action}");
    };
    check("split_words", &[("text", "a b")], &[("words", &["a", "b"])]).await;
    check("tenant", &[], &[("tenant", &["t1"])]).await;
    check("a#b", &[], &[("x", &["y"])]).await;
    // The same, by the name that a model is told.
    let told = request_naming(&peer(&address), "a#b", &tool_name("a#b"), &[]);
    assert_eq!(run(&service, told).await.expect("the tool name")["x"], ["y"]);
    let fails = request(&peer(&address), "fail_with", &[("code", "ABORTED"), ("message", "late")]);
    let status = run(&service, fails).await.expect_err("fails");
    assert_eq!((status.code, status.message.as_str()), (Code::Aborted, "late"));
    let unknown = request(&peer(&address), "no_such_tool", &[]);
    let status = run(&service, unknown).await.expect_err("there is none");
    assert_eq!((status.code, status.reason), (Code::NotFound, Reason::UnknownAction), "{status}");
    // One connection served all of these.
    assert_eq!(dialler.kept(), 1);
}

#[tokio::test]
async fn a_server_that_is_not_permitted_is_never_connected_to() {
    let victim = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = victim.local_addr().expect("bound").port();
    let permitted = [format!("mcp://127.0.0.1:{port}/mcp"), "mcp+https://tools.example".into()];
    let (service, _) = service(&[&permitted[0], &permitted[1]]).await;
    let refused = async |peer: pb::Peer, expected: (Code, Reason)| {
        let status = run(&service, request(&peer, "big", &[("bytes", "1")])).await;
        let status = status.expect_err("refused");
        assert_eq!((status.code, status.reason), expected, "{peer} {status}");
    };
    let denied = (Code::PermissionDenied, Reason::PeerNotPermitted);
    for endpoint in [
        format!("127.0.0.1:{port}/other"),
        format!("127.0.0.1:{port}/mcp?x=1"),
        format!("127.0.0.1:{port}/mcp/../other"),
        format!("localhost:{port}/mcp"),
        format!("[::1]:{port}/mcp"),
        format!("[::ffff:127.0.0.1]:{port}/mcp"),
        format!("tools.example:{port}/mcp"),
        format!("127.0.0.1.nip.example:{port}/mcp"),
        "169.254.169.254/latest/meta-data".into(),
    ] {
        refused(peer(&format!("mcp://{endpoint}")), denied).await;
    }
    refused(peer(&format!("mcp+https://127.0.0.1:{port}/mcp")), denied).await;
    let invalid = (Code::InvalidArgument, Reason::InvalidRequest);
    let mcp = |endpoint: String| pb::Peer {
        protocol: "mcp".into(),
        scheme: "http".into(),
        identity: String::new(),
        endpoint,
    };
    refused(mcp(format!("tools.example@127.0.0.1:{port}/mcp")), invalid).await;
    refused(mcp(format!("127.0.0.1:{port}\\@tools.example")), invalid).await;
    refused(mcp(String::new()), invalid).await;
    let unknown = (Code::Unimplemented, Reason::UnsupportedPeer);
    refused(pb::Peer { scheme: "ws".into(), ..mcp(format!("127.0.0.1:{port}/mcp")) }, unknown)
        .await;

    // What the model may not call, or does not, dials nobody either.
    let mut unlisted = request(&peer(&permitted[0]), "big", &[("bytes", "1")]);
    unlisted.allowed_actions = vec!["echo".into()];
    let status = run(&service, unlisted).await.expect_err("denied");
    assert_eq!(status.reason, Reason::NotAllowed, "{status}");
    let uncalled = request_naming(&peer(&permitted[0]), "sound", "big", &[("bytes", "1")]);
    run(&service, uncalled).await.expect("runs here");
    assert!(victim.accept().now_or_never().is_none(), "it was connected to");
}

#[tokio::test]
async fn a_server_is_not_followed_to_where_it_points() {
    let victim = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let victim_address = victim.local_addr().expect("bound");
    let pointing = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = format!("mcp://{}/mcp", pointing.local_addr().expect("bound"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = pointing.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let answer = format!(
                "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{victim_address}/mcp\r\n\
                 content-length: 0\r\nconnection: close\r\n\r\n"
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    let (service, dialler) = service(&[&address]).await;
    let status = run(&service, request(&peer(&address), "sound", &[])).await.expect_err("away");
    assert_eq!(status.code, Code::Unavailable, "{status}");
    assert!(victim.accept().now_or_never().is_none(), "it was connected to");
    assert_eq!(dialler.kept(), 0);
}

#[tokio::test]
async fn a_server_that_is_silent_takes_no_longer_than_the_call_may() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = format!("mcp://{}/mcp", silent.local_addr().expect("bound"));
    let (service, _) = service(&[&address]).await;
    let mut client = service.client().await;
    let mut request = tonic::Request::new(request(&peer(&address), "sound", &[]));
    // A tenth of it is kept for the answer, which has to be enough on a busy machine.
    request.set_timeout(Duration::from_secs(3));
    let response = client.execute_actions_from_interaction(request).await.expect("an answer");
    let results = response.into_inner().results;
    let status = Status::from(results[0].status.clone().unwrap_or_default());
    assert_eq!((status.code, status.reason), (Code::DeadlineExceeded, Reason::Deadline));
}

#[tokio::test]
async fn a_server_that_was_away_is_dialled_anew() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let far_address = free.local_addr().expect("bound");
    drop(free);
    let address = format!("mcp://{far_address}/mcp");
    let (service, _) = service(&[&address]).await;
    let status = run(&service, request(&peer(&address), "sound", &[])).await.expect_err("away");
    assert_eq!(status.code, Code::Unavailable, "{status}");
    let listener = TcpListener::bind(far_address).await.expect("the port is free");
    let far = McpServer::new(McpOptions::new(fixtures::registry()));
    tokio::spawn(async move {
        let never = std::future::pending();
        far.serve_http(listener, &HttpOptions::default(), never, Duration::ZERO).await;
    });
    run(&service, request(&peer(&address), "whole_string", &[("query", "q")])).await.expect("runs");
}

#[tokio::test]
async fn only_so_many_servers_are_kept() {
    mcp::rustls_provider();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let host = format!("mcp://{}", listener.local_addr().expect("bound"));
    let far = Arc::new(Registry::new());
    let schema = ActionSchema::builder("there").output(Port::text("x")).build();
    let there = handler(|context: Context| async move { context.write("x", "y").await });
    far.register(schema, there).expect("registered");
    let far = McpServer::new(McpOptions::new(far)).http_service(&HttpOptions::default());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(far.clone());
            tokio::spawn(async move {
                let connections = auto::Builder::new(hyper_util::rt::TokioExecutor::new());
                let _ = connections.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    let (service, dialler) = service(&[&host]).await;
    for number in 0..70 {
        let address = peer(&format!("{host}/{number}"));
        run(&service, request(&address, "there", &[])).await.expect("runs");
        assert_eq!(dialler.kept(), 64.min(number + 1));
    }
}

//! `a11-grpc serve` as a program: what it says and when, its log, its signals, and what
//! those hear whose calls run when it stops.

#![allow(clippy::unwrap_used)]

#[path = "support/program.rs"]
mod program;

use std::{future::Future, process::Stdio, time::Duration};

use a11_grpc::{
    client,
    wire::{
        Code, Reason, Status,
        pb::{self, action_service_client::ActionServiceClient},
    },
};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tonic::transport::Channel;

/// What must happen soon, or the test fails.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("it takes too long")
}

async fn actions(address: &str) -> ActionServiceClient<Channel> {
    client::actions(client::connect(address).await.unwrap())
}

/// The lines that the program says on standard error.
type Said = tokio::io::Lines<BufReader<tokio::process::ChildStderr>>;

/// Starts the program as a server; its address is what it says.
async fn serve(listen: &str) -> (tokio::process::Child, String, Said, Vec<String>) {
    let mut child =
        program::command(&["serve", "--listen", listen]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut before = Vec::new();
    loop {
        let line = soon(said.next_line()).await.unwrap().expect("it says where it listens");
        if let Some(address) = line.strip_prefix("listening on ") {
            return (child, address.to_owned(), said, before);
        }
        before.push(line);
    }
}

#[cfg(unix)]
fn terminate(child: &tokio::process::Child) {
    signal(child, rustix::process::Signal::TERM);
}

#[cfg(unix)]
fn signal(child: &tokio::process::Child, signal: rustix::process::Signal) {
    let id = rustix::process::Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    rustix::process::kill_process(id, signal).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn the_program_serves_until_it_is_told_to_stop() {
    let (mut child, address, _said, before) = serve("127.0.0.1:0").await;
    assert_eq!(before, Vec::<String>::new());
    let ran = program::run(&["actions", "--json", "--server", &address]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("a11.actions/v1"), "{}", ran.stdout);
    let ran = program::run_with(&["execute", "-", "--server", &address], "{}").await;
    assert_eq!((ran.code, ran.stdout_bytes), (2, vec![]), "{}", ran.stderr);
    terminate(&child);
    assert_eq!(soon(child.wait()).await.unwrap().code(), Some(0));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_terminal_that_goes_stops_the_program_in_order_unless_it_is_to_stay() {
    use rustix::process::Signal;
    // Whatever the tests themselves were started with, as by `nohup`.
    let start = async |how: &[&str]| {
        let mut child = tokio::process::Command::new("env")
            .args(how)
            .args([env!("CARGO_BIN_EXE_a11-grpc"), "serve", "--listen", "127.0.0.1:0"])
            .env_remove("A11_CONFIG")
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = soon(said.next_line()).await.unwrap().unwrap();
        let address = line.strip_prefix("listening on ").expect("where").to_owned();
        (child, said, address)
    };
    let (mut child, mut said, _) = start(&["--default-signal=HUP"]).await;
    signal(&child, Signal::HUP);
    while !soon(said.next_line()).await.unwrap().unwrap().contains("shutting down") {}
    assert_eq!(soon(child.wait()).await.unwrap().code(), Some(0));

    let (mut kept, _said, address) = start(&["--ignore-signal=HUP"]).await;
    signal(&kept, Signal::HUP);
    let listed = actions(&address).await.list_actions(pb::ListActionsRequest::default()).await;
    assert!(listed.is_ok(), "{listed:?}");
    terminate(&kept);
    assert_eq!(soon(kept.wait()).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn nothing_is_said_to_listen_before_all_of_it_can() {
    let held = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = held.local_addr().unwrap().to_string();
    let check = async |flags: &[&str], code: i32, told: &str| {
        let args = [&["serve", "--listen", "127.0.0.1:0"], flags].concat();
        let ran = program::run(&args).await;
        assert_eq!(ran.code, code, "{flags:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(told), "{flags:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("listening"), "{flags:?}: {}", ran.stderr);
    };
    check(&["--mcp", &taken], 3, "for MCP").await;
    check(&["--mcp", "127.0.0.1:0", "--mcp-allow", "("], 2, "--mcp-allow").await;
    check(&["--mcp", "127.0.0.1:0", "--mcp-accept-header", "("], 2, "--mcp-accept-header").await;
    // Flags that would say nothing.
    for flag in ["--mcp-allow=x", "--mcp-accept-header=x", "--mcp-deadline=1s", "--mcp-no-describe"]
    {
        check(&[flag], 2, "--mcp").await;
    }
    check(&["--mcp-stdio", "--mcp-allow-host=a.example"], 2, "--mcp ").await;

    let file = |text: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    };
    let pair = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (one, other, no_pem) = (pair(), pair(), file("x"));
    let (cert, key) = (file(&one.cert.pem()), file(&other.signing_key.serialize_pem()));
    let path = |file: &tempfile::NamedTempFile| file.path().to_str().unwrap().to_owned();
    let (cert, key, no_pem) = (path(&cert), path(&key), path(&no_pem));
    check(&["--tls-cert", &cert, "--tls-key", &key], 2, "is not that of the certificate").await;
    check(&["--tls-cert", &no_pem, "--tls-key", &key], 2, &no_pem).await;
    check(&["--tls-cert", &cert, "--tls-key", &no_pem], 2, &no_pem).await;
}

#[tokio::test]
async fn what_ends_a_program_that_logs_for_machines_is_json_too() {
    let held = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = held.local_addr().unwrap().to_string();
    let check = async |args: &[&str], code: i32, told: &str| {
        let ran = program::run(&[&["serve", "--log-format=json"], args].concat()).await;
        assert_eq!(ran.code, code, "{}", ran.stderr);
        let lines = ran.stderr.lines().map(serde_json::from_str::<serde_json::Value>);
        let lines = lines.map(|line| line.unwrap_or_else(|_| panic!("{}", ran.stderr)));
        let lines: Vec<_> = lines.collect();
        let last = lines.last().unwrap();
        assert_eq!(last["level"], "ERROR", "{last}");
        assert!(last["fields"]["message"].as_str().unwrap().contains(told), "{last}");
    };
    check(&["--listen", &taken, "--log", "off"], 3, "cannot listen on").await;
    check(&["--frobnicate"], 2, "--frobnicate").await;
    check(&["--config", "/nowhere/at/all.toml"], 2, "/nowhere/at/all.toml").await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_second_signal_ends_the_program_at_once() {
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    let (mut child, address, mut said, _) = serve("127.0.0.1:0").await;
    // A stream that its client keeps open.
    let channel = client::connect(&address).await.unwrap();
    let open = ServerReflectionClient::new(channel)
        .server_reflection_info(futures::stream::pending())
        .await
        .unwrap();
    terminate(&child);
    while !soon(said.next_line()).await.unwrap().unwrap().contains("shutting down") {}
    terminate(&child);
    assert_eq!(soon(child.wait()).await.unwrap().code(), Some(143));
    drop(open);
}

#[cfg(unix)]
#[tokio::test]
async fn a_peer_whose_call_outlasts_the_shutdown_is_told_so_at_once() {
    let config = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    let nap = "[actions.nap]\ncommand = ['sh', '-c', 'echo begun >&2; exec sleep 600']\n";
    std::fs::write(config.path(), nap).unwrap();
    let path = config.path().to_str().unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--shutdown-timeout", "200ms"];
    let args = [&args[..], &["--config", path]].concat();
    let mut child = program::command(&args).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = soon(said.next_line()).await.unwrap().unwrap();
    let address = line.strip_prefix("listening on ").expect("where");
    let client = client::Client::connect(client::connect(address).await.unwrap()).await.unwrap();
    let mut call = client.call("nap").start().await.unwrap();
    while !matches!(soon(call.next_event()).await, Some(a11_grpc::action::Event::Log(_))) {}

    terminate(&child);
    let Status { code, reason, message, .. } = soon(call.finished()).await;
    assert_eq!((code, reason), (Code::Unavailable, Reason::PeerLost), "{message}");
    assert!(message.contains("shutting down"), "{message}");
    assert_eq!(soon(child.wait()).await.unwrap().code(), Some(0));
    let mut cut = false;
    while let Some(line) = soon(said.next_line()).await.unwrap() {
        cut |= line.contains("time was up");
    }
    assert!(cut, "the call was not cut off");
}

#[cfg(unix)]
#[tokio::test]
async fn a_command_whose_server_stops_under_its_call_says_so() {
    let config = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    let nap = "[actions.nap]\ncommand = ['sh', '-c', 'echo begun >&2; exec sleep 600']\n";
    std::fs::write(config.path(), nap).unwrap();
    let flags = ["--shutdown-timeout", "200ms", "--config", config.path().to_str().unwrap()];
    let server = program::serving(&flags, &[]).await;
    let mut call = program::command(&["call", "nap", "--server", &server.address])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(call.stderr.take().unwrap()).lines();
    while !soon(said.next_line()).await.unwrap().unwrap().contains("begun") {}
    terminate(&server.child);
    let mut rest = String::new();
    while let Some(line) = soon(said.next_line()).await.unwrap() {
        rest.push_str(&line);
    }
    assert_eq!(soon(call.wait()).await.unwrap().code(), Some(3), "{rest}");
    assert!(rest.contains("UNAVAILABLE") && !rest.contains("does a gRPC server"), "{rest}");
}

#[cfg(unix)]
#[tokio::test]
async fn listening_to_other_machines_is_warned_about() {
    let (_child, _, _, before) = serve("0.0.0.0:0").await;
    assert!(before.iter().any(|line| line.contains("no authentication")), "{before:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_log_for_machines_is_json_alone_and_has_each_call_with_its_code() {
    let args = ["serve", "--listen", "127.0.0.1:0", "--log-format", "json"];
    let mut child = program::command(&args).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut next = async || {
        let line = soon(lines.next_line()).await.unwrap().expect("a line");
        serde_json::from_str::<serde_json::Value>(&line).unwrap_or_else(|_| panic!("{line}"))
    };
    let said = next().await["fields"]["message"].as_str().unwrap().to_owned();
    let address = said.strip_prefix("listening on ").expect("where").to_owned();
    assert_eq!(next().await["fields"]["names"], "http_fetch");

    let mut client = client::actions(client::connect(&address).await.unwrap());
    let listed = client.list_actions(pb::ListActionsRequest::default()).await.unwrap();
    assert_eq!(listed.get_ref().actions.len(), 1);
    let request = pb::RunActionRequest { action: "nope".into(), ..Default::default() };
    client.run_action(request).await.expect_err("no such action");
    for (rpc, code) in [("ListActions", "OK"), ("RunAction", "NOT_FOUND")] {
        let fields = next().await["fields"].clone();
        assert_eq!(fields["rpc"], format!("a11.v1.ActionService/{rpc}"));
        assert_eq!((&fields["code"], fields["millis"].is_u64()), (&code.into(), true));
    }
    terminate(&child);
    assert!(next().await["fields"]["message"].as_str().unwrap().contains("shutting down"));
    assert_eq!(soon(child.wait()).await.unwrap().code(), Some(0));
}

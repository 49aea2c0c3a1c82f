//! What people do by hand: grpcurl and buf curl against the real program, with
//! nothing but reflection. Both tools are set up by `make test`, which names
//! them in `A11_GRPCURL` and `A11_BUF`; where they are absent the tests say so
//! and pass.

#![allow(missing_docs, clippy::unwrap_used)]

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use futures::{StreamExt as _, stream};
use installed::installed;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

#[path = "support/installed.rs"]
mod installed;
#[path = "support/program.rs"]
mod program;

const PATIENCE: Duration = Duration::from_secs(60);

/// The program, serving the example actions; its address.
async fn serve() -> (Child, String) {
    serve_with(&["--config", "examples/actions.toml"]).await
}

async fn serve_with(args: &[&str]) -> (Child, String) {
    let args = [&["serve", "--listen", "127.0.0.1:0"], args].concat();
    let mut child = program::command(&args).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = timeout(PATIENCE, async {
        loop {
            let line = lines.next_line().await.unwrap().expect("it says where it listens");
            if let Some((_, address)) = line.split_once("listening on ") {
                return address.trim().to_owned();
            }
        }
    });
    let address = address.await.unwrap();
    // Read on, so that the program is never held up by its own log.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (child, address)
}

async fn run(tool: &PathBuf, args: &[&str], input: &str) -> String {
    let mut child = Command::new(tool)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).await.ok();
    let output = timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

const WORD_COUNT: &str = r#"{"action":"word_count","arguments":{"text":"as easy as pie"}}"#;

fn check_word_count(answer: &str) {
    let answer: Value = serde_json::from_str(answer).unwrap();
    assert_eq!(answer["result"]["words"], json!(4), "{answer}");
}

#[tokio::test]
async fn grpcurl_lists_the_services_and_runs_an_action() {
    let Some(grpcurl) = installed("A11_GRPCURL") else { return };
    let (_server, address) = serve().await;

    let services = run(&grpcurl, &["-plaintext", &address, "list"], "").await;
    for service in [
        "a11.v1.ActionService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ] {
        assert!(services.lines().any(|line| line == service), "{service} in {services}");
    }
    let description =
        run(&grpcurl, &["-plaintext", &address, "describe", "a11.v1.NodeFragment"], "").await;
    assert!(description.contains("optional uint32 seq"), "{description}");

    let run_action = "a11.v1.ActionService/RunAction";
    let answer = run(&grpcurl, &["-plaintext", "-d", WORD_COUNT, &address, run_action], "").await;
    check_word_count(&answer);
    let health = run(&grpcurl, &["-plaintext", &address, "grpc.health.v1.Health/Check"], "").await;
    assert!(health.contains("SERVING"), "{health}");
}

#[tokio::test]
async fn grpcurl_runs_a_providers_reply() {
    let Some(grpcurl) = installed("A11_GRPCURL") else { return };
    let (_server, address) = serve().await;
    let reply = std::fs::read_to_string("examples/replies/claude.json").unwrap();
    let request = json!({
        "interaction_json": reply,
        "allowed_actions": ["word_count", "order_status"],
    });
    let execute = "a11.v1.ActionService/ExecuteActionsFromInteraction";
    let args = ["-plaintext", "-d", "@", &address, execute];
    let answer: Value =
        serde_json::from_str(&run(&grpcurl, &args, &request.to_string()).await).unwrap();
    let message: Value = serde_json::from_str(answer["messages"][0].as_str().unwrap()).unwrap();
    assert_eq!(answer["backend"], "BACKEND_CLAUDE");
    assert_eq!(message["content"].as_array().unwrap().len(), 3);
    assert_eq!(answer["results"][2]["status"]["reason"], "REASON_NOT_ALLOWED");
}

#[tokio::test]
async fn buf_curl_speaks_grpc_and_grpc_web() {
    let Some(buf) = installed("A11_BUF") else { return };
    let (_server, address) = serve().await;
    let url = format!("http://{address}/a11.v1.ActionService/RunAction");
    for protocol in ["grpc", "grpcweb"] {
        let mut args = vec!["curl", "--protocol", protocol, "-d", WORD_COUNT];
        // gRPC wants HTTP/2 from the first byte where there is no TLS.
        args.push("--http2-prior-knowledge");
        args.push(&url);
        check_word_count(&run(&buf, &args, "").await);
    }
}

#[tokio::test]
async fn grpcurl_shows_the_reason_of_a_refusal() {
    let Some(grpcurl) = installed("A11_GRPCURL") else { return };
    let (_server, address) = serve().await;
    let refused = r#"{"action":"no_such_action"}"#;
    let output = Command::new(grpcurl)
        .args(["-plaintext", "-d", refused, &address, "a11.v1.ActionService/RunAction"])
        .output();
    let output = timeout(PATIENCE, output).await.unwrap().unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(shown.contains("\"reason\""), "{shown}");
    assert!(shown.contains("UNKNOWN_ACTION"), "{shown}");
}

#[tokio::test]
async fn a_silent_stream_has_its_headers_at_once() {
    let Some(grpcurl) = installed("A11_GRPCURL") else { return };
    let (_server, address) = serve().await;
    for method in ["PeerService/OpenSession", "ActionService/CallAction"] {
        let method = format!("a11.v1.{method}");
        let mut silent = Command::new(&grpcurl)
            .args(["-v", "-plaintext", "-d", "@", &address, &method])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        // Open to the end: the client has neither written nor half-closed.
        let _input = silent.stdin.take();
        let mut lines = BufReader::new(silent.stdout.take().unwrap()).lines();
        let headers = timeout(PATIENCE, async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line == "Response headers received:" {
                    return true;
                }
            }
            false
        });
        assert!(headers.await.unwrap(), "{method}");
    }
}

#[tokio::test]
async fn a_refusal_while_the_client_writes_is_the_same_each_time() {
    const TIMES: usize = 100;
    const AT_ONCE: usize = 10;
    let Some(grpcurl) = installed("A11_GRPCURL") else { return };
    let (_server, address) = serve().await;
    let input = r#"{"inputs":{"fragments":[{"id":"text","chunk":{"data":"aGk="}}]}}"#;
    let start = r#"{"start":{"action":"no_such_action"}}"#;
    let messages = format!("{start}\n{}", format!("{input}\n").repeat(2_000));
    let refusals = stream::iter(0..TIMES).map(|_| {
        let mut client = Command::new(&grpcurl)
            .args(["-plaintext", "-d", "@", &address, "a11.v1.ActionService/CallAction"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (mut stdin, messages) = (client.stdin.take().unwrap(), messages.clone());
        async move {
            let write = async move { stdin.write_all(messages.as_bytes()).await.ok() };
            let (_, output) = tokio::join!(write, client.wait_with_output());
            String::from_utf8(output.unwrap().stderr).unwrap()
        }
    });
    let refusals: Vec<String> =
        timeout(PATIENCE, refusals.buffer_unordered(AT_ONCE).collect()).await.unwrap();
    for refusal in refusals {
        assert!(refusal.contains("Code: NotFound"), "{refusal}");
        assert!(refusal.contains("UNKNOWN_ACTION"), "{refusal}");
    }
}

#[tokio::test]
async fn a_client_that_is_killed_takes_its_call_with_it() {
    let Some(grpcurl) = installed("A11_GRPCURL") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (pid, config) = (folder.path().join("pid"), folder.path().join("actions.toml"));
    let script = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 300", pid.display());
    std::fs::write(
        &config,
        format!(
            "[actions.rest]\ndescription = \"Rests.\"\ncommand = [\"sh\", \"-c\", {script:?}]\n"
        ),
    )
    .unwrap();
    let (_server, address) = serve_with(&["--config", config.to_str().unwrap()]).await;
    let mut client = Command::new(grpcurl)
        .args(["-plaintext", "-d", r#"{"action":"rest"}"#, &address])
        .arg("a11.v1.ActionService/RunAction")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    until(|| pid.exists()).await;
    let process = Path::new("/proc").join(std::fs::read_to_string(&pid).unwrap().trim());
    assert!(process.exists());
    client.kill().await.unwrap();
    until(|| !process.exists()).await;
}

#[tokio::test]
async fn what_json_can_hardly_say_comes_back_equal_or_is_refused() {
    let Some(grpcurl) = installed("A11_GRPCURL") else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("c.db");
    let (_server, address) = serve_with(&["--store", store.to_str().unwrap()]).await;
    let call = |method: &str, request: String| {
        let method = format!("a11.v1.InteractionService/{method}");
        let client =
            Command::new(&grpcurl).args(["-plaintext", "-d", &request, &address, &method]).output();
        async move {
            let output = timeout(PATIENCE, client).await.unwrap().unwrap();
            let said = if output.status.success() { &output.stdout } else { &output.stderr };
            (output.status.success(), String::from_utf8_lossy(said).into_owned())
        }
    };
    let check = async |id: &str, fields: &str, expected: Result<&str, &str>| {
        let turn = format!(r#"{{"id":"{id}","role":"ROLE_USER",{fields}}}"#);
        let request = format!(r#"{{"conversation":"c","interaction":{turn}}}"#);
        let (appended, said) = call("AppendInteraction", request).await;
        match expected {
            Err(why) => assert!(!appended && said.contains(why), "{fields}: {said}"),
            Ok(shown) => {
                assert!(appended, "{fields}: {said}");
                let request =
                    format!(r#"{{"conversation":"c","id":"{id}","form":"RECORD_FORM_DECODED"}}"#);
                let (found, said) = call("GetInteraction", request).await;
                assert!(found && said.contains(shown), "{fields}: {said}");
            }
        }
    };
    let detail = |json: &str| format!(r#""status":{{"code":3,"details":[{json:?}]}}"#);
    check("a", r#""createdAtMillis":"9223372036854775807""#, Ok("9223372036854775807")).await;
    check("b", r#""createdAtMillis":"9223372036854775808""#, Err("9223372036854775808")).await;
    check("c", r#""content":[{"data":"_-8="}]"#, Err("illegal base64")).await;
    check("i", r#""content":[{"data":"/+8="}]"#, Ok("/+8=")).await;
    check("d", &detail(r#"{"a":null}"#), Ok(r#"{\"a\":null}"#)).await;
    check("e", &detail("NaN"), Err("InvalidArgument")).await;
    check("f", &detail(r#""\ud800""#), Err("InvalidArgument")).await;
    check("g", r#""role":9"#, Err("InvalidArgument")).await;
    check("h", r#""colour":1"#, Err("colour")).await;
    let deep = |depth: usize| detail(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    for depth in [30, 33, 40, 101] {
        check(&format!("deep{depth}"), &deep(depth), Ok(&"[".repeat(depth))).await;
    }
}

/// Waits for what happens elsewhere.
async fn until(happened: impl Fn() -> bool) {
    let wait = async {
        while !happened() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, wait).await.expect("it happens in time");
}

//! MCP as it is on the wire, in every protocol version: what is sent, and what is
//! not; and whose requests are whose.

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/mcp.rs"]
mod mcp;
#[path = "support/mcp_fixtures.rs"]
mod mcp_fixtures;
#[path = "support/mcp_raw.rs"]
mod raw;

use std::{collections::HashMap, sync::Arc};

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
use a11_grpc::mcp::{McpOptions, http::HttpOptions};
use mcp::TestServer;
use parking_lot::Mutex;
use raw::{
    NEWEST, OnLines, OverHttp, VERSIONS, call, call_telling, cancelled, initialized, request, soon,
};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

/// `chatter` narrates for as long as it runs, and goes on when it is cancelled: as
/// one would that starts work of its own. What it did is counted.
fn chattering() -> (Arc<Registry>, watch::Receiver<usize>) {
    struct Stopped(Context, watch::Sender<usize>);
    impl Drop for Stopped {
        fn drop(&mut self) {
            let (context, stopped) = (self.0.clone(), self.1.clone());
            context.log("late");
            tokio::spawn(async move {
                for _ in 0..100 {
                    context.log("later");
                    tokio::task::yield_now().await;
                }
                stopped.send_modify(|count| *count += 1);
            });
        }
    }
    let registry = fixtures::registry();
    let (stop, stopped) = watch::channel(0);
    let schema = ActionSchema::builder("chatter").output(Port::text("never")).build();
    let run = handler(move |context: Context| {
        let stopped = Stopped(context.clone(), stop.clone());
        async move {
            let _stopped = stopped;
            loop {
                context.log("on");
                tokio::task::yield_now().await;
            }
        }
    });
    registry.register(schema, run).expect("registered");
    (registry, stopped)
}

/// Whether a message is of a call that was cancelled: id 1, token `t`.
fn is_of_the_cancelled(message: &Value) -> bool {
    message["id"] == 1 || message["params"]["progressToken"] == "t"
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_on_lines_for_a_call_that_was_cancelled() {
    for version in VERSIONS {
        let (registry, mut stopped) = chattering();
        let server = TestServer::start(McpOptions::new(registry)).await;
        let (mut client, _) = OnLines::open(&server.server, version).await;
        client.send(&call_telling("t", call(version, 1, "chatter", json!({})))).await;
        let progress = client.next().await.expect("progress");
        assert_eq!(progress["params"]["progressToken"], "t", "{progress}");
        client.send(&cancelled(1)).await;
        // What was under way before the cancel came may still come until here.
        let told = client.ask(&call(version, 2, "echo", json!({"word": "on"}))).await;
        assert!(told.iter().all(|message| message["id"] != 1), "{version}: {told:?}");
        soon(stopped.wait_for(|count| *count == 1)).await.expect("stopped");
        let told = client.ask(&call(version, 3, "echo", json!({"word": "on"}))).await;
        assert_eq!(told.len(), 1, "{version}: {told:?}");
        let rest = client.rest().await;
        assert!(rest.is_empty(), "{version}: {rest:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_over_http_for_a_call_that_was_cancelled() {
    let with_sessions = VERSIONS.into_iter().filter(|version| *version != NEWEST);
    for (version, is_resumed) in with_sessions.flat_map(|it| [(it, false), (it, true)]) {
        let (registry, mut stopped) = chattering();
        let server = TestServer::start(McpOptions::new(registry)).await;
        let (mut client, _) = OverHttp::open(&server.url, version).await;
        let mut own = match is_resumed {
            true => None,
            false => Some(client.listen().await),
        };
        let mut of_call =
            client.begin(&call_telling("t", call(version, 1, "chatter", json!({})))).await;
        assert!(of_call.next().await.is_some_and(|it| it["params"]["progressToken"] == "t"));
        assert_eq!(client.tell(&cancelled(1)).await, StatusCode::ACCEPTED);
        // Its stream ends, without an answer.
        let told = of_call.all().await;
        assert!(told.iter().all(|message| message["id"] != 1), "{version}: {told:?}");
        // Nor is it resumed, whichever request of the session it was.
        for stream in 0..3 {
            client.headers = vec![("last-event-id".to_owned(), format!("0/{stream}"))];
            let told = client.listen().await.all().await;
            assert!(told.is_empty(), "{version}: {told:?}");
        }
        client.headers.clear();
        soon(stopped.wait_for(|count| *count == 1)).await.expect("stopped");
        let told = client.ask(&call(version, 2, "echo", json!({"word": "on"}))).await;
        assert_eq!(told.len(), 1, "{version}: {told:?}");
        assert_eq!(told[0]["result"]["structuredContent"], json!({"echoed": "on"}));
        if is_resumed {
            client.headers = vec![("last-event-id".to_owned(), "0".to_owned())];
            own = Some(client.listen().await);
        }
        client.end().await;
        let told = own.expect("listens").all().await;
        assert!(!told.iter().any(is_of_the_cancelled), "{version}: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newest_call_over_http_is_cancelled_by_leaving_it() {
    let (registry, mut stopped) = chattering();
    let server = TestServer::start(McpOptions::new(registry)).await;
    let (client, _) = OverHttp::open(&server.url, NEWEST).await;
    let mut of_call = client.begin(&call_telling("t", call(NEWEST, 1, "chatter", json!({})))).await;
    assert!(of_call.next().await.is_some_and(|it| it["params"]["progressToken"] == "t"));
    drop(of_call);
    soon(stopped.wait_for(|count| *count == 1)).await.expect("stopped");
    // The same id and token again: what comes is the new call's.
    let again = call_telling("t", call(NEWEST, 1, "narrate", json!({"topic": "x"})));
    let told = client.ask(&again).await;
    let texts: Vec<_> = told.iter().filter_map(|it| it["params"]["message"].as_str()).collect();
    assert_eq!(texts.concat(), "Looked up x.\n\n2 lines of output. Then summarised it.");
    assert_eq!(told.last().expect("an answer")["id"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_calls_id_is_the_next_calls_at_once() {
    let (registry, _) = chattering();
    let server = TestServer::start(McpOptions::new(registry)).await;
    for version in VERSIONS {
        let cut_off = call(version, 7, "chatter", json!({}));
        let next = call(version, 7, "echo", json!({"word": "on"}));
        let check = |told: Vec<Value>| {
            assert_eq!(told.len(), 1, "{version}: {told:?}");
            let result = &told[0]["result"]["structuredContent"];
            assert_eq!(*result, json!({"echoed": "on"}), "{version}: {told:?}");
        };
        let (mut on_lines, _) = OnLines::open(&server.server, version).await;
        let (over_http, _) = OverHttp::open(&server.url, version).await;
        for _ in 0..20 {
            on_lines.send(&cut_off).await;
            on_lines.send(&cancelled(7)).await;
            check(on_lines.ask(&next).await);
            if version != NEWEST {
                let _never = over_http.begin(&cut_off).await;
                assert_eq!(over_http.tell(&cancelled(7)).await, StatusCode::ACCEPTED);
                check(over_http.ask(&next).await);
            }
        }
    }
}

#[tokio::test]
async fn a_call_that_asks_for_no_progress_is_told_none() {
    let server = TestServer::start(McpOptions::new(fixtures::registry())).await;
    for version in VERSIONS {
        let narrate = call(version, 1, "narrate", json!({"topic": "x"}));
        let (mut client, _) = OnLines::open(&server.server, version).await;
        let told = [client.ask(&narrate).await, client.rest().await].concat();
        assert_eq!(told.len(), 1, "{version}: {told:?}");
        let (client, _) = OverHttp::open(&server.url, version).await;
        let own = match version {
            NEWEST => None,
            _ => Some(client.listen().await),
        };
        let told = client.ask(&narrate).await;
        assert_eq!(told.len(), 1, "{version}: {told:?}");
        let log = told[0]["result"]["_meta"]["to.a11/log"].as_str();
        assert!(log.is_some_and(|log| log.contains("summarised")), "{told:?}");
        if let Some(own) = own {
            client.end().await;
            assert_eq!(own.all().await, [Value::Null; 0], "{version}");
        }
    }
}

/// A client of either transport.
enum Either {
    Lines(OnLines),
    Http(OverHttp),
}

impl Either {
    /// The one message that comes for a request.
    async fn ask(&mut self, request: &Value) -> Value {
        let told = match self {
            Self::Lines(client) => client.ask(request).await,
            Self::Http(client) => client.ask(request).await,
        };
        let [answer] = &told[..] else { panic!("{told:?}") };
        assert_eq!(answer["id"], request["id"]);
        answer.clone()
    }
}

#[tokio::test]
async fn every_protocol_version_opens_lists_and_calls_on_either_transport() {
    let server = TestServer::start(McpOptions::new(fixtures::registry())).await;
    for version in VERSIONS {
        let is_newest = version == NEWEST;
        let (on_lines, opened_on_lines) = OnLines::open(&server.server, version).await;
        let (over_http, opened_over_http) = OverHttp::open(&server.url, version).await;
        assert_eq!(over_http.session.is_none(), is_newest, "{version}");
        let clients = [
            (Either::Lines(on_lines), opened_on_lines),
            (Either::Http(over_http), opened_over_http),
        ];
        for (mut client, opened) in clients {
            if is_newest {
                let discover = request(version, "d", "server/discover", json!({}));
                let found = &client.ask(&discover).await["result"];
                assert_eq!(found["supportedVersions"], json!(VERSIONS), "{found}");
                assert_eq!(found["capabilities"]["tools"]["listChanged"], true, "{found}");
            } else {
                let opened = &opened["result"];
                assert_eq!(opened["protocolVersion"], version, "{opened}");
                assert_eq!(opened["capabilities"]["tools"]["listChanged"], true, "{opened}");
                assert_eq!(opened["serverInfo"]["name"], "a11-grpc");
            }
            let listed = client.ask(&request(version, "l", "tools/list", json!({}))).await;
            let list = &listed["result"];
            let tools = list["tools"].as_array().expect("tools");
            let echo = tools.iter().find(|tool| tool["name"] == "echo").expect("echo");
            assert_eq!(echo["inputSchema"]["required"], json!(["word"]), "{version}");
            assert_eq!(echo["outputSchema"]["properties"]["echoed"]["type"], "string");
            // Only the newest version knows these two.
            assert_eq!(list.get("ttlMs").is_some(), is_newest, "{list}");
            let result_type = if is_newest { json!("complete") } else { Value::Null };
            assert_eq!(list["resultType"], result_type, "{version}");

            let mut result = async |tool: &str, arguments: Value| {
                let answer = client.ask(&call(version, tool, tool, arguments)).await;
                assert_eq!(answer["result"]["resultType"], result_type, "{version} {tool}");
                answer["result"].clone()
            };
            let echoed = result("echo", json!({"word": "x"})).await;
            assert_eq!(echoed["structuredContent"], json!({"echoed": "x"}), "{version}");
            let copy = json!([{"type": "text", "text": r#"{"echoed":"x"}"#}]);
            assert_eq!(echoed["content"], copy, "{version}");
            let text = result("whole_string", json!({"query": "q"})).await;
            assert_eq!(text["content"], json!([{"type": "text", "text": "answer to q"}]));
            assert_eq!(text.get("structuredContent"), None, "{version}");
            let failed = result("fail_with", json!({"code": "ABORTED", "message": "late"})).await;
            assert_eq!((&failed["isError"], failed.get("structuredContent")), (&json!(true), None));
            let sound = result("sound", json!({})).await;
            let block = &sound["content"][1];
            match version {
                // Its contents have no sound.
                "2024-11-05" => {
                    assert_eq!(block["type"], "resource", "{sound}");
                    assert_eq!(block["resource"]["mimeType"], "audio/wav", "{sound}");
                    assert!(block["resource"]["blob"].is_string(), "{sound}");
                }
                _ => assert_eq!(block["type"], "audio", "{version}: {sound}"),
            }
            let unknown = client.ask(&call(version, "u", "no_such_tool", json!({}))).await;
            assert_eq!(unknown["error"]["code"], -32602, "{version}");
        }
    }
}

/// `hold` says that it began, by its word, and answers once it is let go; who was
/// stopped before is counted by word too.
#[derive(Clone, Default)]
struct Holding {
    began: Arc<watch::Sender<Vec<String>>>,
    stopped: Arc<watch::Sender<Vec<String>>>,
    go: Arc<Mutex<HashMap<String, Arc<Notify>>>>,
}

impl Holding {
    fn server_options(&self) -> McpOptions {
        struct Stopping(Holding, Option<String>);
        impl Drop for Stopping {
            fn drop(&mut self) {
                let word = self.1.take();
                self.0.stopped.send_modify(|words| words.extend(word));
            }
        }
        let registry = fixtures::registry();
        let schema = ActionSchema::builder("hold")
            .input(Port::text("word").required())
            .output(Port::text("word"))
            .build();
        let own = self.clone();
        let run = handler(move |context: Context| {
            let own = own.clone();
            async move {
                let word: String = context.read("word").await?;
                let mut stopping = Stopping(own.clone(), Some(word.clone()));
                let go = own.gate(&word);
                own.began.send_modify(|words| words.push(word.clone()));
                go.notified().await;
                stopping.1 = None;
                context.write("word", &word).await
            }
        });
        registry.register(schema, run).expect("registered");
        McpOptions::new(registry)
    }

    fn gate(&self, word: &str) -> Arc<Notify> {
        self.go.lock().entry(word.to_owned()).or_default().clone()
    }

    async fn until(words: &watch::Sender<Vec<String>>, word: &str) {
        let is_there = |words: &Vec<String>| words.iter().any(|one| one == word);
        soon(words.subscribe().wait_for(is_there)).await.expect("open");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_client_cancels_is_its_own() {
    for version in ["2025-11-25", NEWEST] {
        let holding = Holding::default();
        let server = TestServer::start(holding.server_options()).await;
        let (a, _) = OverHttp::open(&server.url, version).await;
        let (b, _) = OverHttp::open(&server.url, version).await;
        let mut of_a = a.begin_in_background(&call(version, 1, "hold", json!({"word": "a"})));
        Holding::until(&holding.began, "a").await;
        // B has no such request yet, then one of the same id.
        assert_eq!(b.tell(&cancelled(1)).await, StatusCode::ACCEPTED);
        let of_b = b.begin_in_background(&call(version, 1, "hold", json!({"word": "b"})));
        Holding::until(&holding.began, "b").await;
        assert_eq!(b.tell(&cancelled(1)).await, StatusCode::ACCEPTED);
        if version == NEWEST {
            // Without sessions a notification is nobody's: only leaving cancels.
            of_b.abort();
        } else {
            assert_eq!(soon(of_b).await.expect("ends"), [Value::Null; 0]);
        }
        Holding::until(&holding.stopped, "b").await;
        assert!(futures::poll!(&mut of_a).is_pending(), "{version}");
        holding.gate("a").notify_one();
        let told = soon(of_a).await.expect("ends");
        assert_eq!(told.len(), 1, "{version}: {told:?}");
        assert_eq!(told[0]["result"]["structuredContent"], json!({"word": "a"}), "{version}");
        assert_eq!(*holding.stopped.borrow(), ["b"], "{version}");
    }
}

#[tokio::test]
async fn http_headers_make_nobody_somebody_else() {
    let holding = Holding::default();
    let registry = holding.server_options().registry;
    let options = mcp_fixtures::options(registry, None);
    let server = TestServer::start_with(options, HttpOptions::default()).await;
    let (a, _) = OverHttp::open(&server.url, "2025-11-25").await;
    let of_a = a.begin_in_background(&call("2025-11-25", 1, "hold", json!({"word": "a"})));
    Holding::until(&holding.began, "a").await;
    for version in VERSIONS {
        let (mut b, _) = OverHttp::open(&server.url, version).await;
        // Any header may be asked for here, and one is declared: by `_meta` alone.
        let spoofed = ["x-tenant", "x-a11-session", "x-a11-role", "x-a11-mcp-meta", "x-otel-id"];
        b.headers = spoofed.map(|name| (name.to_owned(), "admin".to_owned())).to_vec();
        b.headers.push(("x-a11-deadline".to_owned(), "1".to_owned()));
        let seen = b.ask(&call(version, 1, "headers_seen", json!({}))).await;
        assert_eq!(
            seen[0]["result"]["structuredContent"]["seen"],
            json!({}),
            "{version}: {seen:?}"
        );
        if version == NEWEST {
            // A session's name means nothing where there are none.
            b.session = a.session.clone();
            assert_eq!(b.tell(&cancelled(1)).await, StatusCode::ACCEPTED);
            let echoed = b.ask(&call(version, 1, "echo", json!({"word": "b"}))).await;
            assert_eq!(echoed[0]["result"]["structuredContent"], json!({"echoed": "b"}));
        } else {
            b.session = b.session.map(|session| session.to_uppercase() + "0");
            assert_eq!(b.tell(&cancelled(1)).await, StatusCode::NOT_FOUND, "{version}");
            assert_eq!(b.tell(&initialized()).await, StatusCode::NOT_FOUND, "{version}");
        }
    }
    assert!(holding.stopped.borrow().is_empty());
    holding.gate("a").notify_one();
    let told = soon(of_a).await.expect("ends");
    assert_eq!(told[0]["result"]["structuredContent"], json!({"word": "a"}));
}

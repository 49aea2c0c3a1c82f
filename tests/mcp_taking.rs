//! Taking in: another MCP server's tools as actions, over both transports; the
//! server is this crate's own, with and without its actions' documents.

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/mcp.rs"]
mod mcp;
#[path = "support/taking.rs"]
mod taking;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use a11_grpc::action::{ActionSchema, Context, Host, Port, Registry, handler};
use a11_grpc::mcp::{
    McpOptions, McpSource, Reach, Taking, declaration::Describe, taking::Standing,
};
use a11_grpc::wire::Code;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use mcp::TestServer;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool},
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde_json::{Value, json};
use taking::{call, open, outputs, soon};
use tokio::{net::TcpListener, sync::Notify};

fn at(url: &str) -> McpSource {
    let reach = Reach::Url { url: url.to_owned(), headers: vec![] };
    McpSource { name: "test".to_owned(), prefix: String::new(), reach }
}

/// The program, launched as an MCP host launches it, with one action.
fn launched(program: &Path, folder: &Path) -> Reach {
    let config = folder.join("actions.toml");
    let actions = "[actions.shout]\ncommand = [\"echo\", \"loud\"]\n";
    std::fs::write(&config, actions).expect("written");
    let args = ["--log", "error", "serve", "--mcp-stdio", "--config"].map(str::to_owned);
    Reach::Command {
        command: program.display().to_string(),
        args: args.into_iter().chain([config.display().to_string()]).collect(),
        env: BTreeMap::new(),
        cwd: None,
    }
}

#[tokio::test]
async fn a_served_action_has_its_own_ports_on_the_other_side() {
    let server = TestServer::start(McpOptions::new(fixtures::registry())).await;
    let registry = Arc::new(Registry::new());
    let taking =
        Taking::begin(McpSource { prefix: "far_".to_owned(), ..at(&server.url) }, registry.clone());
    assert!(open(&taking).await > 15);
    let hosts = registry.entry("far_echo").expect("taken in").hosts();
    assert_eq!(hosts, Host::McpServer("test".to_owned()).into());
    {
        let check = async |action: &str, arguments: Value, expected: Value| {
            assert_eq!(outputs(&registry, action, arguments).await, expected, "{action}");
        };
        check("far_echo", json!({"word": "x"}), json!({"echoed": ["x"]})).await;
        check(
            "far_counted",
            json!({"text": "a b", "parts": ["c"]}),
            json!({"words": ["a", "b", "c"], "total": ["3"]}),
        )
        .await;
        check("far_whole_string", json!({"query": "q"}), json!({"result": ["answer to q"]})).await;
        check("far_order_status", json!({"order_id": "7"}), json!({"status": ["7: delayed"]}))
            .await;
        let (pictures, _) = call(&registry, "far_two_pictures", json!({})).await.expect("pictures");
        assert_eq!(pictures["frames"].len(), 2);
        let (_, log) = call(&registry, "far_narrate", json!({"topic": "x"})).await.expect("a log");
        assert_eq!(log, "Looked up x.\n\n2 lines of output. Then summarised it.");
        let failed = json!({"code": "NOT_FOUND", "message": "no such order"});
        let status = call(&registry, "far_fail_with", failed).await.expect_err("fails");
        assert_eq!((status.code, status.message.as_str()), (Code::NotFound, "no such order"));
        drop(taking);
        let mut changes = registry.changes();
        while registry.entry("far_echo").is_some() {
            soon(changes.changed()).await.expect("changes");
        }
    }
}

#[tokio::test]
async fn a_plain_tool_has_text_content_and_structured_content() {
    let mut options = McpOptions::new(fixtures::registry());
    options.describe = Describe::Nothing;
    let server = TestServer::start(options).await;
    let registry = Arc::new(Registry::new());
    let taking = Taking::begin(at(&server.url), registry.clone());
    open(&taking).await;
    let echoed = outputs(&registry, "echo", json!({"word": "x"})).await;
    let document = json!([r#"{"echoed":"x"}"#]);
    assert_eq!(echoed, json!({"text": document, "structured_content": document}));
    let picture = outputs(&registry, "picture_only", json!({})).await;
    assert!(picture["content"][0].as_str().expect("a block").contains("image/png"));
    let failed = json!({"code": "NOT_FOUND", "message": "no such order"});
    let status = call(&registry, "fail_with", failed).await.expect_err("fails");
    assert_eq!((status.code, status.message.as_str()), (Code::Unknown, "NOT_FOUND: no such order"));
    let (_, log) = call(&registry, "narrate", json!({"topic": "x"})).await.expect("a log");
    assert!(log.contains("Then summarised it."), "{log}");
}

#[tokio::test]
async fn a_list_is_followed_and_a_call_that_is_over_is_cancelled_there() {
    struct Tell(Arc<Notify>);
    impl Drop for Tell {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let far = fixtures::registry();
    let server = TestServer::start(McpOptions::new(far.clone())).await;
    let registry = Arc::new(Registry::new());
    let taking = Taking::begin(at(&server.url), registry.clone());
    open(&taking).await;
    let (began, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let notices = (began.clone(), stopped.clone());
    let run = handler(move |_: Context| {
        let (began, stopped) = notices.clone();
        async move {
            let _tell = Tell(stopped);
            began.notify_one();
            std::future::pending().await
        }
    });
    let schema = ActionSchema::builder("late").output(Port::text("never")).build();
    let mut changes = registry.changes();
    far.register(schema, run).expect("registered");
    while registry.entry("late").is_none() {
        soon(changes.changed()).await.expect("changes");
    }
    let calling = call(&registry, "late", json!({}));
    soon(async {
        tokio::select! {
            ended = calling => panic!("{ended:?}"),
            () = began.notified() => {}
        }
    })
    .await;
    soon(stopped.notified()).await;
    far.remove("late").expect("there");
    while registry.entry("late").is_some() {
        soon(changes.changed()).await.expect("changes");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_launched_server_that_is_away_is_tried_again_and_its_calls_are_unavailable() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("server");
    let reach = launched(&path, folder.path());
    let source = McpSource { name: "late".to_owned(), prefix: String::new(), reach };
    let registry = Arc::new(Registry::new());
    let taking = Taking::begin(source, registry.clone());
    let mut standing = taking.standing();
    let away = |standing: &Standing| matches!(standing, Standing::Away(_));
    soon(standing.wait_for(away)).await.expect("away");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_a11-grpc"), &path).expect("linked");
    open(&taking).await;
    let shouted = outputs(&registry, "shout", json!({})).await;
    assert!(shouted.to_string().contains("loud"), "{shouted}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_away_is_tried_less_and_less_often() {
    let reach = Reach::Command {
        command: "/no/such/program".to_owned(),
        args: vec![],
        env: BTreeMap::new(),
        cwd: None,
    };
    let source = McpSource { name: "gone".to_owned(), prefix: String::new(), reach };
    let taking = Taking::begin(source, Arc::new(Registry::new()));
    let mut standing = taking.standing();
    standing.changed().await.expect("away");
    for seconds in [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] {
        let away = tokio::time::Instant::now();
        standing.changed().await.expect("away again");
        let pause = away.elapsed().as_secs_f64();
        // Timers go by the millisecond.
        assert!((seconds..seconds + 0.01).contains(&pause), "{pause} s for {seconds} s");
    }
    let Standing::Away(why) = &*standing.borrow() else { panic!("it is there") };
    assert!(why.starts_with("it does not start: "), "{why}");
}

/// A server whose list of tools has no end.
#[derive(Clone)]
struct Endless;

impl ServerHandler for Endless {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor).unwrap_or_default();
        let schema = json!({"type": "object"}).as_object().cloned().unwrap_or_default();
        let name = format!("tool_{}", cursor.len());
        let mut page = ListToolsResult::with_all_items(vec![Tool::new(name, "x", schema)]);
        page.next_cursor = Some(cursor + "+");
        Ok(page)
    }
}

/// Serves it on a free port; where.
async fn serve<S: ServerHandler + Clone>(server: S) -> String {
    mcp::rustls_provider();
    let sessions = Arc::new(LocalSessionManager::default());
    let config = StreamableHttpServerConfig::default();
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                let connections = auto::Builder::new(TokioExecutor::new());
                let _ = connections.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    url
}

#[tokio::test]
async fn a_list_without_an_end_is_not_read_for_ever() {
    let url = serve(Endless).await;
    let taking = Taking::begin(at(&url), Arc::new(Registry::new()));
    let mut standing = taking.standing();
    let settled = standing.wait_for(|standing| *standing != Standing::Opening);
    let settled = soon(settled).await.expect("settled").clone();
    let Standing::Away(fault) = settled else { panic!("{settled:?}") };
    assert!(fault.starts_with("its list is longer than"), "{fault}");
}

/// A server whose tools have names that become one.
#[derive(Clone)]
struct Alike;

impl ServerHandler for Alike {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object"}).as_object().cloned().unwrap_or_default();
        let tool = |name: &'static str, said| Tool::new(name, said, schema.clone());
        let tools = vec![tool("a.b", "the first"), tool("a b", "the second"), tool("c", "another")];
        Ok(ListToolsResult::with_all_items(tools))
    }
}

#[tokio::test]
async fn of_tools_that_become_one_action_the_first_is_taken() {
    let registry = Arc::new(Registry::new());
    let taking = Taking::begin(at(&serve(Alike).await), registry.clone());
    assert_eq!(open(&taking).await, 2);
    let entry = registry.entry("a_b").expect("is taken in");
    assert_eq!(entry.schema().description(), "the first");
}

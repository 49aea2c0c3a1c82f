//! Taking in: another MCP server's tools as actions, over both transports; the
//! server is this crate's own, with and without its actions' documents.

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/mcp.rs"]
mod mcp;
#[path = "support/taking.rs"]
mod taking;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use a11_grpc::action::{ActionSchema, Context, Port, Registry, handler};
use a11_grpc::mcp::{
    McpOptions, McpSource, Reach, Taking, declaration::Describe, taking::Standing,
};
use a11_grpc::wire::Code;
use mcp::TestServer;
use serde_json::{Value, json};
use taking::{call, open, outputs, soon};
use tokio::sync::Notify;

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

//! A list of some thousand tools: in pages that every client can take, followed by
//! clients of any make and by our own taking-in.

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/installed.rs"]
mod installed;
#[path = "support/mcp.rs"]
mod mcp;
#[path = "support/taking.rs"]
mod taking;

use std::{path::Path, sync::Arc};

use a11_grpc::action::{ActionSchema, Context, Registry, handler};
use a11_grpc::mcp::{McpOptions, McpSource, Reach, Taking};
use installed::installed;
use mcp::{Client, PATIENCE, TestServer, Way};
use rmcp::model::{ErrorCode, ListToolsResult, PaginatedRequestParams};
use rmcp::service::ServiceError;
use tokio::{process::Command, time::timeout};

const TOOLS: usize = 3_000;

fn name(number: usize) -> String {
    format!("tool_{number:05}")
}

fn add(registry: &Registry, name: &str) {
    // Of a common length: the list has several MiB.
    let schema = ActionSchema::builder(name).describe("Says it all. ".repeat(60)).build();
    registry.register(schema, handler(async |_: Context| Ok(()))).expect("registers");
}

fn registry() -> Arc<Registry> {
    let registry = Registry::new();
    (0..TOOLS).for_each(|number| add(&registry, &name(number)));
    Arc::new(registry)
}

async fn page(client: &Client, cursor: Option<String>) -> Result<ListToolsResult, ServiceError> {
    let page = PaginatedRequestParams::default().with_cursor(cursor);
    timeout(PATIENCE, client.list_tools(Some(page))).await.expect("in time")
}

fn names(page: &ListToolsResult) -> Vec<String> {
    page.tools.iter().map(|tool| tool.name.to_string()).collect()
}

#[tokio::test]
async fn every_tool_is_on_one_page_and_none_is_larger_than_clients_take() {
    let server = TestServer::start(McpOptions::new(registry())).await;
    for way in [Way::Http, Way::NewestHttp, Way::Lines, Way::NewestLines] {
        let client = server.client(way).await;
        let (mut listed, mut cursor, mut pages) = (vec![], None, 0);
        loop {
            let page = page(&client, cursor).await.expect("a page");
            let bytes = serde_json::to_vec(&page).expect("JSON").len();
            // What the official Python SDK takes of one event.
            assert!(bytes < 1 << 20, "{bytes}");
            listed.extend(names(&page));
            (cursor, pages) = (page.next_cursor, pages + 1);
            if cursor.is_none() {
                break;
            }
        }
        assert!(pages > 1, "{pages}");
        assert!(listed.iter().map(String::as_str).eq((0..TOOLS).map(name).collect::<Vec<_>>()));
    }
}

#[tokio::test]
async fn a_list_that_changes_between_pages_goes_on_where_it_was() {
    let registry = registry();
    let server = TestServer::start(McpOptions::new(registry.clone())).await;
    let client = server.client(Way::Http).await;
    let first = page(&client, None).await.expect("a page");
    let last = names(&first).pop().expect("tools");
    registry.remove(&last);
    registry.remove(&name(0));
    add(&registry, "a_new_first");
    let second = page(&client, first.next_cursor).await.expect("a page");
    assert_eq!(names(&second)[0], name(first.tools.len()));
}

#[tokio::test]
async fn a_cursor_of_somewhere_else_is_refused() {
    let server = TestServer::start(McpOptions::new(registry())).await;
    let client = server.client(Way::Http).await;
    for cursor in ["", "no cursor", "=="] {
        let refused = page(&client, Some(cursor.to_owned())).await;
        let Err(ServiceError::McpError(error)) = refused else { panic!("{refused:?}") };
        assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{cursor:?}");
    }
    let past = page(&client, Some("zzz".to_owned())).await.expect("a page");
    assert_eq!((past.tools.len(), past.next_cursor), (0, None));
}

#[tokio::test]
async fn all_pages_are_taken_in() {
    let server = TestServer::start(McpOptions::new(registry())).await;
    let reach = Reach::Url { url: server.url.clone(), headers: vec![] };
    let source = McpSource { name: "far".to_owned(), prefix: String::new(), reach };
    let taken = Arc::new(Registry::new());
    let taking = Taking::begin(source, taken.clone());
    assert_eq!(taking::open(&taking).await, TOOLS);
    assert!(taken.entry(&name(TOOLS - 1)).is_some());
}

#[tokio::test]
async fn the_official_clients_follow_the_pages() {
    let server = TestServer::start(McpOptions::new(registry())).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop");
    let python = installed("A11_PYTHON").map(|it| (it.into_os_string(), "paged_tools.py"));
    let node = installed("A11_INTEROP_MODULES").map(|_| ("node".into(), "paged_tools.mjs"));
    for (runtime, script) in [python, node].into_iter().flatten() {
        let mut command = Command::new(runtime);
        command.arg(folder.join(script)).arg(&server.url).kill_on_drop(true);
        let output = timeout(3 * PATIENCE, command.output()).await.expect("in time").expect("runs");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {complaint}");
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert_eq!(said, TOOLS.to_string(), "{script}");
    }
}

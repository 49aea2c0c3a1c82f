//! Actions that an attached program hosts, as MCP clients have them: listed while it
//! is there, called with streams and narration, and cancelled.

#[path = "support/mcp.rs"]
mod mcp;
#[path = "session/service.rs"]
#[allow(dead_code, unreachable_pub)]
mod service;

use std::sync::Arc;

use a11_grpc::action::Registry;
use a11_grpc::client::Peer;
use mcp::{Client, PATIENCE, TestServer, WAYS, Way, call, options};
use rmcp::{
    model::{CallToolRequestParams, ClientRequest, Request, SubscriptionFilter},
    service::PeerRequestOptions,
};
use serde_json::{Map, json};
use service::{Service, host_echo, host_endless, host_failure};
use tokio::time::timeout;

async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it takes too long")
}

async fn names(client: &Client) -> Vec<String> {
    let tools = soon(client.list_all_tools()).await.expect("tools");
    tools.into_iter().map(|tool| tool.name.into_owned()).collect()
}

#[tokio::test]
async fn a_peers_actions_are_tools_with_streams_narration_and_cancellation() {
    let service = Service::start().await;
    let hosted = Arc::new(Registry::new());
    host_echo(&hosted);
    host_failure(&hosted);
    let mut happened = host_endless(&hosted);
    let peer = Peer::host(hosted).connect(service.channel().await).await.expect("attaches");
    let server = TestServer::start(options(service.registry.clone())).await;
    for way in WAYS {
        let client = server.client(way).await;
        assert_eq!(names(&client).await, ["echo", "endless", "fail"], "{way:?}");
        let values = json!({"values": ["a", "b", "c"]});
        let (result, told) = call(&client, "echo", &values, Map::new()).await.expect("a result");
        assert_eq!(result["structuredContent"], json!({"echoes": ["a", "b", "c"]}), "{way:?}");
        assert_eq!(told, ["begun"], "{way:?}");
        let (failed, _) = call(&client, "fail", &json!({}), Map::new()).await.expect("a result");
        assert_eq!(failed["content"][0]["text"], "NOT_FOUND: no such row", "{way:?}");

        let request = Request::new(CallToolRequestParams::new("endless"));
        let request = ClientRequest::CallToolRequest(request);
        let sent = client.send_cancellable_request(request, PeerRequestOptions::no_options());
        let sent = sent.await.expect("sent");
        assert_eq!(soon(happened.recv()).await, Some("begun"), "{way:?}");
        sent.cancel(None).await.expect("cancelled");
        assert_eq!(soon(happened.recv()).await, Some("dropped"), "{way:?}");
    }
    drop(peer);
}

#[tokio::test]
async fn clients_are_told_when_a_peer_comes_and_goes() {
    for way in WAYS {
        let service = Service::with_grace(std::time::Duration::ZERO).await;
        let server = TestServer::start(options(service.registry.clone())).await;
        let client = server.client(way).await;
        assert_eq!(names(&client).await, [""; 0], "{way:?}");
        let mut changes = client.service().list_changes.subscribe();
        let mut subscription = None;
        if matches!(way, Way::NewestHttp | Way::NewestLines) {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            subscription = Some(client.listen(filter).await.expect("subscribes"));
        }
        let mut until = async |expected: &[&str]| {
            while names(&client).await != expected {
                match &mut subscription {
                    Some(subscription) => {
                        soon(subscription.next()).await.expect("told").expect("open");
                    }
                    None => soon(changes.changed()).await.expect("told"),
                }
            }
        };
        let hosted = Arc::new(Registry::new());
        host_echo(&hosted);
        let mut happened = host_endless(&hosted);
        let peer = Peer::host(hosted).connect(service.channel().await).await.expect("attaches");
        until(&["echo", "endless"]).await;
        let leaves = async {
            assert_eq!(soon(happened.recv()).await, Some("begun"));
            drop(peer);
        };
        let none = json!({});
        let (called, ()) = tokio::join!(call(&client, "endless", &none, Map::new()), leaves);
        let (failed, _) = called.expect("a result");
        let said = failed["content"][0]["text"].as_str().expect("a text");
        assert!(said.starts_with("UNAVAILABLE: "), "{way:?}: {failed}");
        until(&[]).await;
        let gone = call(&client, "echo", &json!({}), Map::new()).await.expect_err("it is gone");
        assert!(gone.to_string().contains("there is no tool"), "{way:?}: {gone}");
    }
}

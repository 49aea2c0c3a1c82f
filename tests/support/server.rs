//! A real server on a free port, for tests over a real connection.

#![allow(missing_docs, dead_code, unreachable_pub)]

use std::sync::Arc;

use a11_grpc::action::{Handlers, Registry};
use a11_grpc::service::{ActionApi, AsPromised};
use a11_grpc::wire::pb::{
    action_service_client::ActionServiceClient, action_service_server::ActionServiceServer,
};
use tokio::net::TcpListener;
use tonic::codec::CompressionEncoding;
use tonic::transport::{Channel, Server, server::TcpIncoming};

/// A running server; it stops with the runtime of the test.
pub struct TestServer {
    pub url: String,
    pub handlers: Arc<Handlers>,
}

/// How large a message the server and its clients take.
pub const MESSAGE_LIMIT: usize = 64 << 20;

impl TestServer {
    /// Serves the actions of a registry.
    ///
    /// # Panics
    /// Where there is no free port.
    pub async fn start(registry: Arc<Registry>) -> Self {
        let api = ActionApi::new(registry);
        let handlers = api.handlers().clone();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let service = ActionServiceServer::new(api)
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT)
            .accept_compressed(CompressionEncoding::Gzip);
        tokio::spawn(
            Server::builder()
                .add_service(AsPromised(service))
                .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true))),
        );
        Self { url, handlers }
    }

    /// A client on a connection of its own.
    ///
    /// # Panics
    /// Where the server is not there.
    pub async fn client(&self) -> ActionServiceClient<Channel> {
        ActionServiceClient::connect(self.url.clone())
            .await
            .expect("connects")
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT)
    }

    /// Waits until no handler runs any more.
    ///
    /// # Panics
    /// Where one still does after a time that no cancelled handler needs.
    pub async fn idle(&self) {
        until("no handler runs", || self.handlers.running() == 0).await;
    }

    /// Waits until so many handlers run.
    ///
    /// # Panics
    /// Where they do not within a generous time.
    pub async fn busy(&self, handlers: usize) {
        until("the handlers run", || self.handlers.running() == handlers).await;
    }
}

/// Waits for a condition, letting everything else run meanwhile.
///
/// # Panics
/// Where it does not come true within ten seconds.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(10), wait).await;
    assert!(waited.is_ok(), "waited in vain: {what}");
}

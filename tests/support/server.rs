//! A real server on a free port, for tests over a real connection.

#![allow(missing_docs, dead_code, unreachable_pub)]

use std::sync::Arc;

use a11_grpc::action::{Handlers, Registry};
use a11_grpc::service::ActionApi;
use a11_grpc::wire::pb::{
    action_service_client::ActionServiceClient, action_service_server::ActionServiceServer,
};
use tokio::net::TcpListener;
use tonic::transport::{Channel, Server, server::TcpIncoming};

/// A running server; it stops with the runtime of the test.
pub struct TestServer {
    pub url: String,
    pub handlers: Arc<Handlers>,
}

const MESSAGE_LIMIT: usize = 64 << 20;

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
            .max_encoding_message_size(MESSAGE_LIMIT);
        tokio::spawn(
            Server::builder()
                .add_service(service)
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
}

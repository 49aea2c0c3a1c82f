//! The same bytes over a tonic stream with nothing in between: each message is
//! sent back as it came.

use std::pin::Pin;

use a11_grpc::client::connect;
use a11_grpc::wire::pb::{
    FragmentsFrame, Frame, OpenSessionRequest, OpenSessionResponse,
    frame::Body,
    peer_service_client::PeerServiceClient,
    peer_service_server::{PeerService, PeerServiceServer},
};
use a11_grpc::wire::{Chunk, NodeFragment};
use futures::{Stream, StreamExt as _};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Channel, Server, server::TcpIncoming},
};

const MOST: usize = usize::MAX;

struct Bare;

#[tonic::async_trait]
impl PeerService for Bare {
    type OpenSessionStream =
        Pin<Box<dyn Stream<Item = Result<OpenSessionResponse, Status>> + Send>>;

    async fn open_session(
        &self,
        request: Request<Streaming<OpenSessionRequest>>,
    ) -> Result<Response<Self::OpenSessionStream>, Status> {
        let echoes = request.into_inner().map(|message| {
            message.map(|OpenSessionRequest { frame }| OpenSessionResponse { frame })
        });
        Ok(Response::new(Box::pin(echoes)))
    }
}

pub(crate) async fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let service = PeerServiceServer::new(Bare).max_decoding_message_size(MOST);
    let server = Server::builder()
        .http2_adaptive_window(Some(true))
        .add_service(service)
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
    tokio::spawn(server);
    address
}

fn message(size: usize) -> OpenSessionRequest {
    let chunk = Chunk::new("application/octet-stream", vec![b'x'; size]);
    let fragments = vec![NodeFragment::more("values", chunk)];
    let body = Some(Body::Fragments(FragmentsFrame { call: 1, fragments }));
    OpenSessionRequest { frame: Some(Frame { number: 1, ack: 0, body }) }
}

/// A stream on a connection of its own.
pub(crate) struct Echo {
    sender: mpsc::Sender<OpenSessionRequest>,
    echoes: Streaming<OpenSessionResponse>,
}

impl Echo {
    pub(crate) async fn open(address: &str) -> Self {
        let (sender, requests) = mpsc::channel(64);
        let mut client = Caller::open(address).await.0;
        let answer = client.open_session(ReceiverStream::new(requests)).await.expect("opens");
        Self { sender, echoes: answer.into_inner() }
    }

    /// Sends messages, and waits for as many.
    pub(crate) async fn round(&mut self, size: usize, count: usize) {
        let message = message(size);
        let write = async {
            for _ in 0..count {
                self.sender.send(message.clone()).await.expect("is sent");
            }
        };
        let read = async {
            for _ in 0..count {
                self.echoes.message().await.expect("goes on").expect("more");
            }
        };
        tokio::join!(write, read);
    }
}

/// A program that opens a stream for each call.
#[derive(Clone)]
pub(crate) struct Caller(PeerServiceClient<Channel>);

impl Caller {
    pub(crate) async fn open(address: &str) -> Self {
        let channel = connect(address).await.expect("connects");
        Self(PeerServiceClient::new(channel).max_decoding_message_size(MOST))
    }

    pub(crate) async fn call(&self) {
        let mut client = self.0.clone();
        let requests = futures::stream::iter([message(16)]);
        let mut echoes = client.open_session(requests).await.expect("opens").into_inner();
        assert!(echoes.message().await.expect("goes on").is_some());
        assert!(echoes.message().await.expect("ends").is_none());
    }
}

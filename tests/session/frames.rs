//! A peer whose frames are written by hand, right or wrong.

use a11_grpc::wire::pb::peer_service_client::PeerServiceClient;
use a11_grpc::wire::pb::{self, Frame, frame::Body};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::service::Service;

pub(crate) struct Frames {
    sink: mpsc::Sender<pb::OpenSessionRequest>,
    responses: Streaming<pb::OpenSessionResponse>,
    sent: u64,
}

impl Frames {
    /// Opens a session that hosts these actions.
    pub(crate) async fn open(service: &Service, actions: Vec<pb::ActionSchema>) -> Self {
        Self::open_as(service, "", actions).await
    }

    /// The same of a peer with a name.
    pub(crate) async fn open_as(
        service: &Service,
        peer: &str,
        actions: Vec<pb::ActionSchema>,
    ) -> Self {
        let (sink, source) = mpsc::channel(16);
        let open = pb::OpenFrame { peer: peer.to_owned(), actions, ..Default::default() };
        let open = Body::Open(open);
        sink.send(request(0, open)).await.expect("is sent");
        let mut client = PeerServiceClient::new(service.channel().await);
        let responses = client.open_session(ReceiverStream::new(source)).await;
        let responses = responses.expect("is answered").into_inner();
        let mut frames = Self { sink, responses, sent: 0 };
        let opened = frames.next().await;
        assert!(matches!(opened, Body::Opened(_)), "{opened:?}");
        frames
    }

    pub(crate) async fn send(&mut self, body: Body) {
        self.sent += 1;
        self.sink.send(request(self.sent, body)).await.expect("is sent");
    }

    /// The next frame that is more than an acknowledgement.
    pub(crate) async fn next(&mut self) -> Body {
        loop {
            let response = self.responses.message().await.expect("goes on").expect("more");
            match response.frame.and_then(|frame| frame.body).expect("a body") {
                Body::AckOnly(_) => {}
                body => return body,
            }
        }
    }

    /// How the call ends that is under way.
    pub(crate) async fn status(&mut self) -> a11_grpc::wire::Status {
        loop {
            match self.next().await {
                Body::Status(frame) => return frame.status.unwrap_or_default().into(),
                Body::End(frame) => panic!("the session ended: {frame:?}"),
                _ => {}
            }
        }
    }
}

fn request(number: u64, body: Body) -> pb::OpenSessionRequest {
    pb::OpenSessionRequest { frame: Some(Frame { number, ack: 0, body: Some(body) }) }
}

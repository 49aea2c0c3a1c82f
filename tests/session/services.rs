//! A service whose frames are written by hand, right or wrong.

use std::pin::Pin;

use a11_grpc::client::pipe;
use a11_grpc::wire::pb::peer_service_server::{PeerService, PeerServiceServer};
use a11_grpc::wire::pb::{self, Frame, frame::Body};
use futures::{Stream, StreamExt as _, stream};
use tokio::sync::mpsc;
use tonic::{
    Request, Response, Streaming,
    transport::{Channel, Server},
};

/// What follows `opened`, for the opener of that number.
type Script = fn(usize) -> stream::BoxStream<'static, Frame>;

struct Service {
    script: Script,
    opens: mpsc::Sender<pb::OpenFrame>,
    count: std::sync::atomic::AtomicUsize,
}

/// The way to a service that opens every session and then sends what the script says;
/// and what it is asked to open.
pub(crate) fn start(script: Script) -> (Channel, mpsc::Receiver<pb::OpenFrame>) {
    let (opens, opened) = mpsc::channel(1024);
    let (channel, pipe) = pipe();
    let service = Service { script, opens, count: Default::default() };
    let server = Server::builder()
        .add_service(PeerServiceServer::new(service))
        .serve_with_incoming(stream::iter([Ok::<_, std::io::Error>(pipe)]));
    tokio::spawn(server);
    (channel, opened)
}

#[tonic::async_trait]
impl PeerService for Service {
    type OpenSessionStream =
        Pin<Box<dyn Stream<Item = Result<pb::OpenSessionResponse, tonic::Status>> + Send>>;

    async fn open_session(
        &self,
        request: Request<Streaming<pb::OpenSessionRequest>>,
    ) -> Result<Response<Self::OpenSessionStream>, tonic::Status> {
        let mut requests = request.into_inner();
        let first = requests.message().await?.and_then(|request| request.frame);
        let Some(Body::Open(open)) = first.and_then(|frame| frame.body) else {
            panic!("the first frame is not `open`")
        };
        // Full where nobody asks any more.
        let _ = self.opens.try_send(open);
        let number = self.count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let opened = pb::OpenedFrame {
            session: format!("session-{number}"),
            resume_token: format!("token-{number}").into(),
            ..Default::default()
        };
        let opened = Frame { number: 0, ack: 0, body: Some(Body::Opened(opened)) };
        let frames = stream::iter([opened]).chain((self.script)(number));
        // What comes is held open for as long as the answer.
        let answers = frames.map(move |frame| {
            let _requests = &requests;
            Ok(pb::OpenSessionResponse { frame: Some(frame) })
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

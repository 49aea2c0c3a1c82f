//! The opening exchange from the opener's side, over a gRPC channel.

use futures::{Stream, StreamExt as _, stream::BoxStream};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::session::OPEN_TIMEOUT;
use crate::session::core::limits::DEFAULT_MAX_FRAME_BYTES;
use crate::session::driver::{FrameSink, WAITING_FRAMES};
use crate::wire::pb::peer_service_client::PeerServiceClient;
use crate::wire::pb::{self, Frame, frame::Body};
use crate::wire::{Code, Reason, Status, unreadable::no_frame};

/// The largest message: a frame, and what is around it.
const MAX_MESSAGE_BYTES: usize = DEFAULT_MAX_FRAME_BYTES as usize + 64;

/// A connection whose opening exchange is over.
pub(super) struct Opened {
    pub(super) opened: pb::OpenedFrame,
    pub(super) frames: BoxStream<'static, Result<Frame, Status>>,
    pub(super) sink: FrameSink,
}

/// Opens a session, or resumes one.
///
/// # Errors
/// What the other side refuses with, or UNAVAILABLE where it cannot be reached.
pub(super) async fn open(channel: Channel, open: pb::OpenFrame) -> Result<Opened, Status> {
    let opening = async {
        let (sink, source) = mpsc::channel(WAITING_FRAMES);
        let frame = Frame { number: 0, ack: 0, body: Some(Body::Open(open)) };
        // An empty channel whose receiver is here takes it.
        let _ = sink.try_send(frame);
        let requests =
            ReceiverStream::new(source).map(|frame| pb::OpenSessionRequest { frame: Some(frame) });
        let mut client = PeerServiceClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            // The session keeps to what the service takes.
            .max_encoding_message_size(usize::MAX);
        let responses = client.open_session(requests).await?.into_inner();
        let mut frames = frames(responses).boxed();
        let first = frames.next().await.transpose()?;
        match first.and_then(|frame| frame.body) {
            Some(Body::Opened(opened)) => Ok(Opened { opened, frames, sink }),
            Some(Body::End(pb::EndFrame { status: Some(status) })) => Err(status.into()),
            _ => Err(Status::of(Reason::InvalidFrame, "the first frame was not `opened`")),
        }
    };
    timeout(OPEN_TIMEOUT, opening).await.unwrap_or_else(|_| {
        let message = "the service did not open a session in time";
        Err(Status::without_reason(Code::Unavailable, message))
    })
}

fn frames(
    responses: tonic::Streaming<pb::OpenSessionResponse>,
) -> impl Stream<Item = Result<Frame, Status>> + Send {
    responses.map(|response| match response {
        Ok(pb::OpenSessionResponse { frame: Some(frame) }) => Ok(frame),
        Ok(pb::OpenSessionResponse { frame: None }) => {
            Err(Status::of(Reason::InvalidFrame, "a message without a frame"))
        }
        Err(status) => Err(no_frame(status)),
    })
}

//! `PeerService`: a session over a gRPC stream.

use std::{pin::Pin, sync::Arc};

use futures::{Stream, StreamExt as _};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Streaming};

use super::refusals::as_promised;
use crate::listen::Notes;
use crate::session::{Directory, accept};
use crate::wire::pb::{
    self,
    frame::Body,
    peer_service_server::{PeerService, PeerServiceServer},
};
use crate::wire::{Reason, Status};

/// How many frames wait between a session and its stream. Few, because what
/// waits in the session still gathers.
const WAITING_FRAMES: usize = 4;

/// Serves the sessions of a directory. Cheap to clone.
#[derive(Clone)]
pub struct PeerApi {
    directory: Arc<Directory>,
}

impl PeerApi {
    /// A service whose sessions are kept in `directory`.
    pub fn new(directory: Arc<Directory>) -> Self {
        Self { directory }
    }

    /// The tonic service, which takes and sends frames as large as the sessions
    /// do.
    pub fn into_server(self) -> PeerServiceServer<Self> {
        /// What is around a frame in its message.
        const AROUND: usize = 64;
        let most = self.directory.config().limits.max_frame_bytes as usize + AROUND;
        PeerServiceServer::new(self)
            .max_decoding_message_size(most)
            .max_encoding_message_size(usize::MAX)
    }
}

type FrameStream =
    Pin<Box<dyn Stream<Item = Result<pb::OpenSessionResponse, tonic::Status>> + Send>>;

#[tonic::async_trait]
impl PeerService for PeerApi {
    type OpenSessionStream = FrameStream;

    async fn open_session(
        &self,
        request: Request<Streaming<pb::OpenSessionRequest>>,
    ) -> Result<Response<Self::OpenSessionStream>, tonic::Status> {
        let notes = Notes::of(request.extensions());
        let frames = request.into_inner().map(|request| match request {
            Ok(pb::OpenSessionRequest { frame: Some(frame) }) => Ok(frame),
            Ok(pb::OpenSessionRequest { frame: None }) => {
                Err(Status::of(Reason::InvalidFrame, "a message without a frame"))
            }
            Err(status) => Err(no_frame(status)),
        });
        let (sink, source) = mpsc::channel(WAITING_FRAMES);
        // Apart from the stream, because the session outlives its connection.
        self.directory.tasks().spawn(accept(self.directory.clone(), frames, sink));
        let responses = ReceiverStream::new(source).map(move |frame| {
            // A session ends with its own status, and its stream well.
            if let Some(Body::End(end)) = &frame.body {
                notes.ended(Status::from(end.status.clone().unwrap_or_default()).code);
            }
            Ok(pb::OpenSessionResponse { frame: Some(frame) })
        });
        Ok(Response::new(Box::pin(responses)))
    }
}

/// What became of a message that could not be read: too large or malformed, or
/// never here in full.
fn no_frame(status: tonic::Status) -> Status {
    // The other codes are the connection's, such as the reasons of a reset stream.
    let code = status.code();
    let status = as_promised(status);
    match status.code() {
        promised if promised != code => Status::of(Reason::InvalidFrame, status.message()),
        _ => status.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[test]
    fn only_bytes_that_are_no_frame_end_the_session() {
        let check = |status: tonic::Status, expected: bool| {
            let is_invalid = no_frame(status.clone()).reason == Reason::InvalidFrame;
            assert_eq!(is_invalid, expected, "{status:?}");
        };
        let too_large = "Error, decoded message length too large: found 9 bytes, the limit is: 8";
        check(tonic::Status::out_of_range(too_large), true);
        check(tonic::Status::internal("failed to decode Protobuf message: EOF"), true);
        // What the reasons of a reset stream become; resource exhausted is
        // ENHANCE_YOUR_CALM.
        for code in [
            Code::Cancelled,
            Code::Internal,
            Code::PermissionDenied,
            Code::ResourceExhausted,
            Code::Unavailable,
            Code::Unknown,
        ] {
            check(tonic::Status::new(code, "h2 protocol error: error reading a body"), false);
        }
    }
}

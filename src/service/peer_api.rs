//! `PeerService`: a session over a gRPC stream.

use std::{pin::Pin, sync::Arc};

use futures::{Stream, StreamExt as _};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Streaming};

use crate::listen::Notes;
use crate::session::{Directory, accept, driver::WAITING_FRAMES};
use crate::wire::pb::{
    self,
    frame::Body,
    peer_service_server::{PeerService, PeerServiceServer},
};
use crate::wire::{Reason, Status, unreadable::no_frame};

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

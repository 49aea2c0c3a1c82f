//! A session over a WebSocket: each binary message is one encoded frame.

use std::sync::Arc;

use futures::{SinkExt as _, StreamExt as _};
use prost::{Message as _, Name as _};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        self, Message,
        error::ProtocolError,
        protocol::{Role, WebSocketConfig},
    },
};

use crate::session::{Directory, accept, core::limits::BROKEN_AFTER, driver::WAITING_FRAMES};
use crate::wire::pb::Frame;
use crate::wire::{Reason, Status, weight};

/// Serves a connection whose WebSocket handshake is over, until it ends; then
/// waits with its session to be resumed. Run it as one of the directory's tasks.
pub(super) async fn serve<S>(directory: Arc<Directory>, socket: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let most = directory.config().limits.max_frame_bytes as usize;
    let config = WebSocketConfig::default().max_message_size(Some(most)).max_frame_size(Some(most));
    let socket = WebSocketStream::from_raw_socket(socket, Role::Server, Some(config)).await;
    let (mut outgoing, incoming) = socket.split();
    let (sink, mut source) = mpsc::channel::<Frame>(WAITING_FRAMES);
    // Apart from the session, which reads on while the socket takes nothing. A
    // socket that takes nothing for as long as this is broken.
    directory.tasks().spawn(async move {
        while let Some(frame) = source.recv().await {
            let message = Message::Binary(frame.encode_to_vec().into());
            if !matches!(timeout(BROKEN_AFTER, outgoing.send(message)).await, Ok(Ok(()))) {
                return;
            }
        }
        let _ = timeout(BROKEN_AFTER, outgoing.close()).await;
    });
    let frames = incoming.filter_map(|message| std::future::ready(read(message))).boxed();
    accept(directory, frames, sink).await;
}

/// The frame of a message; `None` for what the protocol itself answers.
fn read(message: Result<Message, tungstenite::Error>) -> Option<Result<Frame, Status>> {
    let invalid = |what: String| Some(Err(Status::of(Reason::InvalidFrame, what)));
    match message {
        Ok(Message::Binary(data)) if let Err(error) = weight::check(&data, &Frame::full_name()) => {
            invalid(error.to_string())
        }
        Ok(Message::Binary(data)) => match Frame::decode(data) {
            Ok(frame) => Some(Ok(frame)),
            Err(error) => invalid(format!("a message is no frame: {error}")),
        },
        Ok(Message::Text(_)) => invalid("a text message; frames are binary".to_owned()),
        Ok(Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_)) => None,
        Err(error) if is_invalid(&error) => invalid(format!("a message: {error}")),
        Err(error) => Some(Err(Status::of(Reason::PeerLost, format!("the WebSocket: {error}")))),
    }
}

/// Whether what came is against the rules of a WebSocket, rather than not there.
fn is_invalid(error: &tungstenite::Error) -> bool {
    use tungstenite::Error;
    match error {
        Error::Capacity(_) | Error::Utf8(_) | Error::AttackAttempt => true,
        Error::Protocol(error) => !matches!(
            error,
            ProtocolError::ResetWithoutClosingHandshake
                | ProtocolError::SendAfterClosing
                | ProtocolError::ReceivedAfterClosing
        ),
        _ => false,
    }
}

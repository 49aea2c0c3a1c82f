//! Accepting a connection: the opening exchange, then the session over it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt as _};
use tokio::time::timeout;

use super::{
    core::{Connection, duration_message},
    directory::Directory,
    driver::{self, FrameSink, Publications as _, Session},
    notices,
};
use crate::wire::pb::{EndFrame, Frame, OpenFrame, OpenedFrame, frame::Body};
use crate::wire::{Reason, Status};

/// How long an opener may take to say what it wants, and the other side to accept.
pub const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections are told apart within the process.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// A connection number that was not used before.
pub fn next_connection() -> Connection {
    Connection(CONNECTIONS.fetch_add(1, Ordering::Relaxed))
}

/// Serves a connection that was made to this service, until it is over; and its
/// session, while it waits to be resumed. Run it as one of the directory's
/// tasks.
pub async fn accept(
    directory: Arc<Directory>,
    mut frames: impl Stream<Item = Result<Frame, Status>> + Unpin,
    sink: FrameSink,
) {
    let opening = async {
        match timeout(OPEN_TIMEOUT, frames.next()).await {
            Ok(Some(Ok(Frame { body: Some(Body::Open(open)), .. }))) => Ok(open),
            Ok(Some(Ok(_))) => Err(invalid("the first frame must be `open`")),
            Ok(Some(Err(status))) => Err(status),
            Ok(None) => Err(invalid("the stream ended before `open`")),
            Err(_) => Err(invalid(format!("no `open` within {} s", OPEN_TIMEOUT.as_secs()))),
        }
    };
    let connection = next_connection();
    let opened = opening.await.and_then(|open| open_session(&directory, connection, open));
    let (session, opened) = match opened {
        Ok(opened) => opened,
        Err(status) => {
            let body = Body::End(EndFrame { status: Some(status.into()) });
            // The sink is empty: only an opener that left does not take it.
            let _ = sink.try_send(Frame { number: 0, ack: 0, body: Some(body) });
            return;
        }
    };
    let frame = Frame { number: 0, ack: 0, body: Some(Body::Opened(opened)) };
    if sink.try_send(frame).is_ok() {
        driver::run(&session, connection, frames, sink, directory.stop()).await;
    } else {
        session.detach(connection);
    }
    if !session.is_over() && !session.is_connected() {
        directory.disconnected(&session);
    }
    session.keep_until_resumed().await;
}

fn open_session(
    directory: &Directory,
    connection: Connection,
    open: OpenFrame,
) -> Result<(Session, OpenedFrame), Status> {
    let OpenFrame { peer, actions, limits, resume_token, received } = open;
    let now = Instant::now();
    if !resume_token.is_empty() {
        let session = directory.resume(&resume_token)?;
        let has = session.attach(connection, received, now)?;
        notices::resumed(&session);
        let opened = OpenedFrame {
            session: session.id().to_owned(),
            resume_token,
            limits: None,
            grace: grace(directory),
            refused: vec![],
            received: has,
        };
        return Ok((session, opened));
    }
    let (session, resume_token) = directory.open(peer, limits)?;
    session.attach(connection, 0, now)?;
    notices::attached(&session, actions.len());
    let refused = directory.publish(&session, actions);
    let opened = OpenedFrame {
        session: session.id().to_owned(),
        resume_token,
        limits: Some(directory.config().limits.into()),
        grace: grace(directory),
        refused,
        received: 0,
    };
    Ok((session, opened))
}

fn grace(directory: &Directory) -> Option<pbjson_types::Duration> {
    let grace = directory.config().grace;
    Some(duration_message(grace))
}

fn invalid(message: impl Into<String>) -> Status {
    Status::of(Reason::InvalidFrame, message)
}

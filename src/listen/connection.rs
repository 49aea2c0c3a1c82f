//! One accepted connection: a socket that counts against the limit and can be
//! cut from outside.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{Stream, stream};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// How long accepting pauses after it failed. Failures are of the machine (no
/// more file descriptors) and would repeat at once.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(50);

/// A socket. Once it is cut, reading and writing fail, and with that all that runs
/// on it ends; dropping it makes room for another.
pub(crate) struct Connection {
    stream: TcpStream,
    cut: CancellationToken,
    /// Wakes the task that reads, which is the one that writes too.
    is_cut: Pin<Box<WaitForCancellationFutureOwned>>,
    _room: OwnedSemaphorePermit,
}

/// Accepts connections, at most `most` at once, until it is dropped.
pub(crate) fn accept(
    listener: TcpListener,
    most: usize,
    cut: CancellationToken,
) -> impl Stream<Item = Connection> {
    let room = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
    stream::unfold((listener, room, cut), |(listener, room, cut)| async move {
        let permit = room.clone().acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    // Small frames are answers somebody waits for.
                    let _ = stream.set_nodelay(true);
                    let is_cut = Box::pin(cut.clone().cancelled_owned());
                    let connection = Connection { stream, cut: cut.clone(), is_cut, _room: permit };
                    return Some((connection, (listener, room, cut)));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
                }
            }
        }
    })
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        use futures::FutureExt as _;
        if self.is_cut.poll_unpin(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.cut.is_cancelled() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.cut.is_cancelled() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Whether an address can be reached from other machines.
pub(crate) fn is_exposed(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

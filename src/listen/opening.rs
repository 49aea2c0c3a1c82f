//! A connection that has to begin: reading it fails where its first bytes, by
//! which the version of HTTP is told, are long in coming.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// The length of HTTP/2's preface; no request of HTTP/1.1 is shorter.
const BEGINNING_BYTES: usize = 24;

/// See the module.
pub(super) struct Opening<IO> {
    io: IO,
    /// Until the beginning is there.
    awaited: Option<Awaited>,
}

struct Awaited {
    bytes: usize,
    time_up: Pin<Box<Sleep>>,
}

impl<IO> Opening<IO> {
    /// Gives a connection so much time to begin.
    pub(super) fn new(io: IO, time: Duration) -> Self {
        let awaited = Awaited { bytes: BEGINNING_BYTES, time_up: Box::pin(sleep(time)) };
        Self { io, awaited: Some(awaited) }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Opening<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { io, awaited } = &mut *self;
        let Some(opening) = awaited else { return Pin::new(io).poll_read(cx, buffer) };
        if opening.time_up.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(io).poll_read(cx, buffer))?;
        opening.bytes = opening.bytes.saturating_sub(buffer.filled().len() - before);
        if opening.bytes == 0 {
            *awaited = None;
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Opening<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

//! The rest of a request whose call is over: read and thrown away, within bounds.
//!
//! h2 counts the small DATA frames of a connection that nobody has read yet, and
//! ends a connection that has too many. Those that come after their request was
//! dropped it never takes off the count (0.4.20). So a request is dropped once its
//! client has stopped writing it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::{runtime::Handle, sync::Semaphore, task::coop, time};
use tokio_util::sync::CancellationToken;

/// How long nothing comes before a client is taken to have stopped.
const QUIET: Duration = Duration::from_secs(1);
/// How long the rest of one request is read, and how much of it, in frames and in
/// bytes.
const LONGEST: Duration = Duration::from_secs(10);
const MOST_FRAMES: usize = 1 << 18;
const MOST_BYTES: usize = 64 << 20;
/// Of how many requests of one connection at once. Each holds one of its streams.
const MOST_AT_ONCE: usize = 256;

/// Reads the rests of the requests of one connection. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Unread {
    room: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Unread {
    /// Reads until `stop` is cancelled.
    pub(super) fn new(stop: CancellationToken) -> Self {
        Self { room: Arc::new(Semaphore::new(MOST_AT_ONCE)), stop }
    }

    /// A request whose rest is read where it is dropped early. Those of HTTP/1.1
    /// are left to hyper, which has no such count.
    pub(super) fn watch<B>(&self, request: Request<B>) -> Request<Watched<B>>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
    {
        let unread = (request.version() == Version::HTTP_2).then(|| self.clone());
        request.map(|body| Watched { body: Some(body), unread })
    }

    fn read<B>(self, body: B)
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
    {
        let Ok(place) = self.room.try_acquire_owned() else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            let _place = place;
            let reading = time::timeout(LONGEST, discard(body));
            self.stop.run_until_cancelled(reading).await;
        });
    }
}

/// The body of a request.
#[derive(Debug)]
pub(crate) struct Watched<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
{
    /// Until it has ended.
    body: Option<B>,
    unread: Option<Unread>,
}

impl<B> Body for Watched<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(B::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), B::size_hint)
    }
}

impl<B> Drop for Watched<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
{
    fn drop(&mut self) {
        let (Some(body), Some(unread)) = (self.body.take(), self.unread.take()) else { return };
        if !body.is_end_stream() {
            unread.read(body);
        }
    }
}

/// Reads to the end, or to a bound.
async fn discard<B: Body<Data = Bytes> + Unpin>(mut body: B) {
    let mut bytes = 0;
    let mut quiet = std::pin::pin!(time::sleep(QUIET));
    for _ in 0..MOST_FRAMES {
        // Everything here is given up together.
        bytes += tokio::select! {
            biased;
            frame = body.frame() => match frame {
                Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
                Some(Err(_)) | None => return,
            },
            () = &mut quiet => return,
        };
        if bytes > MOST_BYTES {
            return;
        }
        quiet.as_mut().reset(time::Instant::now() + QUIET);
        coop::consume_budget().await;
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt as _, stream};
    use http_body_util::StreamBody;

    use super::*;

    /// How many frames of so many bytes were asked for of a request without end
    /// that was dropped at once.
    async fn asked_of(version: Version, bytes: usize, pause: Duration, unread: &Unread) -> usize {
        let (sender, mut read) = tokio::sync::watch::channel(0);
        let frames = stream::repeat_with(move || Bytes::from(vec![0; bytes])).then(move |data| {
            sender.send_modify(|read| *read += 1);
            async move {
                time::sleep(pause).await;
                Ok::<_, Infallible>(Frame::data(data))
            }
        });
        let request = Request::builder().version(version).body(StreamBody::new(frames.boxed()));
        drop(unread.watch(request.unwrap()));
        while read.changed().await.is_ok() {}
        *read.borrow()
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_of_a_request_is_read_within_bounds() {
        let check = async |version, bytes, pause, expected| {
            let unread = Unread::new(CancellationToken::new());
            let asked = asked_of(version, bytes, pause, &unread).await;
            assert_eq!(asked, expected, "{version:?}, {bytes} bytes each {pause:?}");
            assert_eq!(unread.room.available_permits(), MOST_AT_ONCE);
        };
        let ms = Duration::from_millis;
        check(Version::HTTP_2, 1, ms(0), MOST_FRAMES).await;
        check(Version::HTTP_2, 1 << 20, ms(0), 65).await;
        check(Version::HTTP_2, 1, ms(500), 21).await;
        check(Version::HTTP_2, 1, ms(1001), 1).await;
        check(Version::HTTP_11, 1, ms(0), 0).await;
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_so_many_are_read_at_once_and_none_once_it_stops() {
        let stop = CancellationToken::new();
        let unread = Unread::new(stop.clone());
        let second = Duration::from_millis(900);
        let all: Vec<_> = (0..MOST_AT_ONCE)
            .map(|_| {
                let unread = unread.clone();
                tokio::spawn(async move { asked_of(Version::HTTP_2, 1, second, &unread).await })
            })
            .collect();
        while unread.room.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(asked_of(Version::HTTP_2, 1, second, &unread).await, 0);
        stop.cancel();
        for reading in all {
            assert!(reading.await.unwrap() <= 1);
        }
    }
}

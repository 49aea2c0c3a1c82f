//! The requests of one connection that are not over: a connection without any for
//! long holds a place for nothing.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::Response;
use http_body::{Body, Frame, SizeHint};
use tokio::{sync::watch, time::timeout};

/// How many there are. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Requests(watch::Sender<usize>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct Request(watch::Sender<usize>);

impl Requests {
    /// One begins.
    pub(super) fn begin(&self) -> Request {
        self.0.send_modify(|count| *count += 1);
        Request(self.0.clone())
    }

    /// Waits until there has been none for so long.
    pub(super) async fn none_for(&self, time: Duration) {
        let mut count = self.0.subscribe();
        loop {
            // Never an error: the sender is here.
            let _ = count.wait_for(|count| *count == 0).await;
            if timeout(time, count.changed()).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Request {
    /// It is over once the answer is written.
    pub(super) fn until_answered<B>(self, answer: Response<B>) -> Response<Answer<B>> {
        answer.map(|body| Answer { body, _request: self })
    }
}

/// The body of an answer.
#[derive(Debug)]
pub(super) struct Answer<B> {
    body: B,
    _request: Request,
}

impl<B: Body + Unpin> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_time_without_requests_begins_with_the_end_of_the_last() {
        let requests = Requests::default();
        let second = Duration::from_secs(1);
        let mut idle = std::pin::pin!(requests.none_for(second));
        let mut is_idle_within = async |time| timeout(time, &mut idle).await.is_ok();
        assert!(!is_idle_within(second * 9 / 10).await);
        let (first, other) = (requests.begin(), requests.begin());
        assert!(!is_idle_within(second * 10).await);
        drop(first);
        assert!(!is_idle_within(second * 10).await);
        drop(other);
        assert!(!is_idle_within(second * 9 / 10).await);
        // One that is over before anybody looks counts too.
        drop(requests.begin());
        assert!(!is_idle_within(second * 9 / 10).await);
        assert!(is_idle_within(second * 2 / 10).await);
    }
}

//! The body of an HTTP request as it is read: what it held, for a refusal that says
//! what is wrong; no end where it holds more values than there may be, so that nobody
//! makes them; and the rest of one that is too large, so that its caller, who is still
//! writing, comes to read the answer.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::{runtime::Handle, time::timeout};

use super::refusal::{Refusal, check_weight};

/// How much of the rest of a body that is too large is read, and for how long.
const DRAINED_BYTES: usize = 128 << 20;
const DRAINED_FOR: Duration = Duration::from_secs(10);

/// What has been read of a body.
#[derive(Clone, Default)]
pub(super) struct Seen(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    parts: Vec<Bytes>,
    bytes: usize,
    ended: bool,
    refusal: Option<Refusal>,
}

/// Why a body could not be read.
#[derive(Debug, Error)]
pub(super) enum BodyError<E> {
    /// It broke off.
    #[error("{0}")]
    Broken(E),
    /// See [`Seen::take_refusal`].
    #[error("it is refused")]
    Refused,
}

impl Seen {
    /// All of it, where it was read to its end.
    pub(super) fn whole(&self) -> Option<Vec<u8>> {
        let state = self.0.lock();
        state.ended.then(|| state.parts.concat())
    }

    /// Why it may not be read to its end, where it is for what it holds.
    pub(super) fn take_refusal(&self) -> Option<Refusal> {
        self.0.lock().refusal.take()
    }
}

/// A body that is read, at most `most` bytes of it.
pub(super) struct RequestBody<B: Body + Send + 'static> {
    inner: Option<Pin<Box<B>>>,
    most: usize,
    seen: Seen,
}

impl<B: Body + Send + 'static> RequestBody<B> {
    pub(super) fn new(inner: B, most: usize, seen: Seen) -> Self {
        Self { inner: Some(Box::pin(inner)), most, seen }
    }
}

impl<B: Body + Send + 'static> Body for RequestBody<B> {
    type Data = Bytes;
    type Error = BodyError<B::Error>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError<B::Error>>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        let frame = ready!(inner.as_mut().poll_frame(cx));
        let mut state = self.seen.0.lock();
        Poll::Ready(match frame {
            Some(Ok(frame)) => Some(Ok(frame.map_data(|mut data| {
                let data = data.copy_to_bytes(data.remaining());
                state.bytes = state.bytes.saturating_add(data.len());
                match state.bytes > self.most {
                    true => state.parts.clear(),
                    false => state.parts.push(data.clone()),
                }
                data
            }))),
            Some(Err(error)) => Some(Err(BodyError::Broken(error))),
            None => {
                state.ended = true;
                state.refusal = check_weight(&state.parts.concat()).err();
                state.refusal.is_some().then_some(Err(BodyError::Refused))
            }
        })
    }
}

impl<B: Body + Send + 'static> Drop for RequestBody<B> {
    fn drop(&mut self) {
        let is_too_large = {
            let state = self.seen.0.lock();
            state.bytes > self.most && !state.ended
        };
        let rest = self.inner.take().filter(|_| is_too_large);
        // Outside a runtime there is nobody to read on.
        if let (Some(rest), Ok(runtime)) = (rest, Handle::try_current()) {
            runtime.spawn(timeout(DRAINED_FOR, drain(rest)));
        }
    }
}

async fn drain<B: Body>(mut rest: Pin<Box<B>>) {
    let mut room = DRAINED_BYTES;
    loop {
        let next = poll_fn(|cx| {
            rest.as_mut().poll_frame(cx).map(|frame| {
                let frame = frame?.ok()?;
                Some(frame.data_ref().map_or(0, |data| data.remaining()))
            })
        });
        match next.await.and_then(|bytes| room.checked_sub(bytes)) {
            Some(left) => room = left,
            None => return,
        }
    }
}

//! One log line a gRPC call, at its end: which, with what code, after how long.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Instant,
};

use futures::{TryFutureExt as _, future::MapOk};
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use tower::{Layer, Service};

use crate::wire::{Code, status::code_name};

/// Logs the calls of the service inside: at info, those of health and reflection
/// at debug.
#[derive(Debug, Clone, Copy)]
pub(super) struct AccessLog;

impl<S> Layer<S> for AccessLog {
    type Service = Logging<S>;

    fn layer(&self, inner: S) -> Logging<S> {
        Logging(inner)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Logging<S>(S);

type Answer<B> = Box<dyn FnOnce(Response<B>) -> Response<Logged<B>> + Send>;

impl<S, A, B> Service<Request<A>> for Logging<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: Body,
{
    type Response = Response<Logged<B>>;
    type Error = S::Error;
    type Future = MapOk<S::Future, Answer<B>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let mut line = Line::begin(request.uri().path());
        self.0.call(request).map_ok(Box::new(move |response: Response<B>| {
            // A call that is refused at once has its status in the headers.
            line.note(response.headers());
            response.map(|body| Logged { body, line })
        }))
    }
}

/// The line of one call, written when the call is over: when this is dropped.
#[derive(Debug)]
pub(super) struct Line {
    rpc: String,
    began: Instant,
    code: Option<Code>,
}

impl Line {
    pub(super) fn begin(path: &str) -> Self {
        let rpc = path.trim_start_matches('/').chars().take(255).collect();
        Self { rpc, began: Instant::now(), code: None }
    }

    /// The call is over, with this code.
    pub(super) fn end(mut self, code: Code) {
        self.code = Some(code);
    }

    /// Takes the status out of headers or trailers, where it is there.
    fn note(&mut self, headers: &HeaderMap) {
        if let Some(code) = headers.get("grpc-status") {
            self.code = Some(Code::from_bytes(code.as_bytes()));
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let Self { rpc, began, code } = self;
        // Without a status the caller left, or its connection broke.
        let code = code.map_or("CANCELLED", code_name);
        let millis = began.elapsed().as_millis() as u64;
        if rpc.starts_with("a11.") {
            tracing::info!(rpc, code, millis, "call");
        } else {
            tracing::debug!(rpc, code, millis, "call");
        }
    }
}

/// A response body that notes the trailers on their way out.
#[derive(Debug)]
pub(super) struct Logged<B> {
    body: B,
    line: Line,
}

impl<B: Body + Unpin> Body for Logged<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(trailers) = frame.trailers_ref()
        {
            self.line.note(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

//! One log line a call, be it of gRPC or MCP, at its end: which, of what action and
//! for whom, with what code, after how long.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use futures::{TryFutureExt as _, future::MapOk};
use http::{Extensions, HeaderMap, Request, Response, header::USER_AGENT};
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tower::{Layer, Service};

use crate::wire::{Code, status::code_name};

/// Logs the calls of the service inside: at info, those of health and reflection
/// at debug.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AccessLog;

impl<S> Layer<S> for AccessLog {
    type Service = Logging<S>;

    fn layer(&self, inner: S) -> Logging<S> {
        Logging(inner)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Logging<S>(S);

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

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        let mut line = Line::begin(request.uri().path());
        let client = request.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok());
        line.client = client.map(short);
        request.extensions_mut().insert(line.noted.clone());
        self.0.call(request).map_ok(Box::new(move |response: Response<B>| {
            // A call that is refused at once has its status in the headers.
            line.note(response.headers());
            response.map(|body| Logged { body, line })
        }))
    }
}

/// The line of one call, written when the call is over: when this is dropped.
#[derive(Debug)]
pub(crate) struct Line {
    rpc: String,
    noted: Notes,
    client: Option<String>,
    began: Instant,
    code: Option<Code>,
}

/// The longest name of a line, in characters.
const MOST_TEXT: usize = 255;

impl Line {
    pub(crate) fn begin(path: &str) -> Self {
        let rpc = short(path.trim_start_matches('/'));
        let noted = Notes::default();
        Self { rpc, noted, client: None, began: Instant::now(), code: None }
    }

    /// Says which action is called, and by whom where that is known.
    pub(crate) fn of_action(&mut self, action: &str, client: Option<&str>) {
        self.noted.action(action);
        self.client = client.map(short);
    }

    /// The call is over, with this code.
    pub(crate) fn end(mut self, code: Code) {
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
        let Self { rpc, noted, client, began, code } = self;
        let Noted { action, ended, calls, failed } = std::mem::take(&mut *noted.0.lock());
        let (action, client) = (action.as_deref(), client.as_deref());
        // A stream that went well may have told of a call that did not. Without any
        // status the caller left, or its connection broke.
        let code = code.filter(|code| *code != Code::Ok).or(ended).or(*code);
        let code = code.map_or("CANCELLED", code_name);
        let millis = began.elapsed().as_millis() as u64;
        if rpc.starts_with("a11.") || action.is_some() {
            tracing::info!(rpc, action, calls, failed, client, code, millis, "call");
        } else {
            tracing::debug!(rpc, code, millis, "call");
        }
    }
}

/// What the service that answers a call tells of it, for its line. Found among the
/// extensions of a request; one that no line is written for has none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    action: Option<String>,
    ended: Option<Code>,
    calls: Option<usize>,
    failed: Option<usize>,
}

impl Notes {
    /// Those of a request.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Which action is called.
    pub(crate) fn action(&self, name: &str) {
        self.0.lock().action = Some(short(name));
    }

    /// How the call ended, whatever its transport says.
    pub(crate) fn ended(&self, code: Code) {
        self.0.lock().ended = Some(code);
    }

    /// How many calls a turn had, and how many of them failed.
    pub(crate) fn calls(&self, codes: impl Iterator<Item = Code>) {
        let (mut calls, mut failed) = (0, 0);
        for code in codes {
            calls += 1;
            failed += usize::from(code != Code::Ok);
        }
        let mut noted = self.0.lock();
        (noted.calls, noted.failed) = (Some(calls), Some(failed));
    }
}

/// A name that the caller chose, and may have chosen long.
fn short(text: &str) -> String {
    text.chars().take(MOST_TEXT).collect()
}

/// A response body that notes the trailers on their way out.
#[derive(Debug)]
pub(crate) struct Logged<B> {
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

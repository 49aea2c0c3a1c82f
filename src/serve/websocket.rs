//! The WebSocket path, before the gRPC services: a page's origin is checked, then
//! the connection becomes a session's. What HTTP/1.1 asks beside that and gRPC-Web
//! is told what is served here.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::{Either, Ready, ready};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header::CONTENT_TYPE};
use tonic::body::Body;
use tower::Service;

use super::origin::Origins;
use crate::listen::Line;
use crate::service::{WEBSOCKET_PATH, upgrade};
use crate::session::Directory;
use crate::wire::Code;

/// What somebody reads who asks with a browser or curl.
const WHAT_IS_HERE: &str = "This is a11-grpc: it speaks gRPC (HTTP/2), gRPC-Web, and sessions over \
                            a WebSocket, /a11.v1/session. `a11-grpc actions --server HOST:PORT` \
                            lists what it does; MCP is served with `serve --mcp`.\n";

/// Whether a request is neither gRPC nor gRPC-Web, nor asks for leave to be one.
fn is_plain<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE);
    let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    request.version() < Version::HTTP_2 && request.method() != Method::OPTIONS && !is_grpc
}

/// Sessions on [`WEBSOCKET_PATH`], and the service inside for all else.
#[derive(Clone)]
pub(super) struct WithWebSocket<S> {
    pub(super) directory: Arc<Directory>,
    pub(super) origins: Origins,
    pub(super) inner: S,
}

impl<S> WithWebSocket<S> {
    fn answer<B>(&self, request: Request<B>) -> Response<Body> {
        let line = Line::begin(request.uri().path());
        if !self.origins.admit(request.headers()) {
            line.end(Code::PermissionDenied);
            let mut refusal = Response::new(Body::empty());
            *refusal.status_mut() = StatusCode::FORBIDDEN;
            return refusal;
        }
        let (response, session) = upgrade(&self.directory, request);
        match session {
            Some(session) => {
                self.directory.tasks().spawn(async move {
                    session.await;
                    line.end(Code::Ok);
                });
            }
            None => line.end(Code::InvalidArgument),
        }
        response
    }
}

impl<S, B> Service<Request<B>> for WithWebSocket<S>
where
    S: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<Ready<Result<Response<Body>, Infallible>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if request.uri().path() == WEBSOCKET_PATH {
            return Either::Left(ready(Ok(self.answer(request))));
        }
        if is_plain(&request) {
            let mut refusal = Response::new(Body::new(WHAT_IS_HERE.to_owned()));
            *refusal.status_mut() = StatusCode::BAD_REQUEST;
            refusal.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
            return Either::Left(ready(Ok(refusal)));
        }
        Either::Right(self.inner.call(request))
    }
}

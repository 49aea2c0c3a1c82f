//! The WebSocket path, before the gRPC services: a page's origin is checked, then
//! the connection becomes a session's.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::{Either, Ready, ready};
use http::{Request, Response, StatusCode};
use tonic::body::Body;
use tower::Service;

use super::origin::Origins;
use crate::listen::Line;
use crate::service::{WEBSOCKET_PATH, upgrade};
use crate::session::Directory;
use crate::wire::Code;

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
        Either::Right(self.inner.call(request))
    }
}

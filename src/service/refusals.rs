//! What the transport refuses by itself, under the code that callers are promised.

use std::task::{Context, Poll};

use futures::{
    TryFutureExt as _,
    future::{Either, MapOk, Ready, ready},
};
use http::{HeaderMap, Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use tonic::{Code, server::NamedService};
use tower::Service;

use crate::wire::{
    Reason, Status,
    unreadable::{GRPC_WEB, Unreadable},
};

/// A gRPC service whose transport refuses under the promised code: a message past
/// the size limit is RESOURCE_EXHAUSTED; one that cannot be read, for its framing,
/// its compression or because it is no protobuf of its kind, is INVALID_ARGUMENT.
/// What is not gRPC at all is answered in HTTP: 405 for another method than POST,
/// 415 for another content type.
#[derive(Debug, Clone)]
pub struct AsPromised<S>(pub S);

impl<S: NamedService> NamedService for AsPromised<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B, R> Service<Request<B>> for AsPromised<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Either<
        Ready<Result<Response<R>, S::Error>>,
        MapOk<S::Future, fn(Response<R>) -> Response<R>>,
    >;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let refused = match *request.method() {
            Method::POST if is_grpc(request.headers()) => None,
            Method::POST => Some(StatusCode::UNSUPPORTED_MEDIA_TYPE),
            _ => Some(StatusCode::METHOD_NOT_ALLOWED),
        };
        if let Some(status) = refused {
            let mut response = Response::new(R::default());
            *response.status_mut() = status;
            return Either::Left(ready(Ok(response)));
        }
        Either::Right(self.0.call(request).map_ok(answer_as_promised))
    }
}

/// What came over gRPC-Web has gRPC's content type by now.
fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

fn answer_as_promised<R>(mut response: Response<R>) -> Response<R> {
    // Only what is refused before it begins has its status in the headers.
    let refused = tonic::Status::from_header_map(response.headers())
        .filter(|status| matches!(status.code(), Code::OutOfRange | Code::Internal));
    if let Some(status) = refused {
        // A text that stood in headers can stand there again.
        as_promised(status).add_header(response.headers_mut()).ok();
    }
    response
}

/// The status of a request that could not be read.
pub(super) fn as_promised(status: tonic::Status) -> tonic::Status {
    match Unreadable::of(&status) {
        Some(Unreadable::TooLarge) => tonic::Status::resource_exhausted(status.message()),
        Some(Unreadable::Malformed) => {
            let message = status.message().trim_start_matches(GRPC_WEB);
            Status::of(Reason::InvalidRequest, message).into()
        }
        Some(Unreadable::TooHeavy) | None => status,
    }
}

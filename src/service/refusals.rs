//! What the transport refuses by itself, under the code that callers are promised.

use std::task::{Context, Poll};

use futures::{TryFutureExt as _, future::MapOk};
use http::{Request, Response};
use tonic::{Code, server::NamedService};
use tower::Service;

use crate::wire::{Reason, Status};

/// A gRPC service whose transport refuses under the promised code: a message past
/// the size limit is RESOURCE_EXHAUSTED, one that is no protobuf of its kind is
/// INVALID_ARGUMENT.
#[derive(Debug, Clone)]
pub struct AsPromised<S>(pub S);

impl<S: NamedService> NamedService for AsPromised<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B, R> Service<Request<B>> for AsPromised<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = MapOk<S::Future, fn(Response<R>) -> Response<R>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.0.call(request).map_ok(answer_as_promised)
    }
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

/// The status of a request that could not be read. Tonic tells what is wrong by
/// its text alone.
pub(super) fn as_promised(status: tonic::Status) -> tonic::Status {
    const TOO_LARGE: &str = "Error, decoded message length too large";
    const MALFORMED: &str = "failed to decode Protobuf message";
    match status.code() {
        Code::OutOfRange if status.message().starts_with(TOO_LARGE) => {
            tonic::Status::resource_exhausted(status.message())
        }
        Code::Internal if status.message().starts_with(MALFORMED) => {
            Status::of(Reason::InvalidRequest, status.message()).into()
        }
        _ => status,
    }
}

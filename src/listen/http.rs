//! HTTP over accepted connections: HTTP/2 for gRPC, HTTP/1.1 for gRPC-Web, and
//! upgrades to WebSocket, which tonic's own server does not give.

use std::{convert::Infallible, error::Error, future::Future, pin::pin, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryFutureExt as _};
use http::{Request, Response};
use http_body::Body;
use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::{Service, ServiceExt as _};

use super::{
    CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES,
    connection::Connection,
    opening::Opening,
    requests::Requests,
    tls::Identity,
    unread::{Unread, Watched},
};

/// How often a quiet connection is asked whether it still stands, and how long
/// the answer may take.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// The most bytes of a request's headers.
const MAX_HEADER_BYTES: u32 = 64 * 1024;

type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a request.
pub(crate) type Incoming = Watched<hyper::body::Incoming>;

/// What one connection may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// How long its handshake of TLS, then its first bytes, and the headers of
    /// each request of HTTP/1.1.
    pub(crate) opening: Duration,
    /// How many requests it makes at once.
    pub(crate) streams: u32,
    /// How long it stands without a request; one of HTTP/1.1 for no longer than
    /// `opening`.
    pub(crate) idle: Duration,
}

/// What answers the requests of all connections.
pub(crate) trait Answers:
    Service<
        Request<Incoming>,
        Response = Response<<Self as Answers>::Body>,
        Error = Infallible,
        Future: Send,
    > + Clone
    + Send
    + Sync
    + 'static
{
    /// The body of an answer.
    type Body: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static;
}

impl<S, B> Answers for S
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    type Body = B;
}

/// How connections are served. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Http {
    builder: auto::Builder<TokioExecutor>,
    identity: Option<Identity>,
    opening: Duration,
    idle: Duration,
}

impl Http {
    pub(crate) fn new(bounds: &Bounds, identity: Option<Identity>) -> Self {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.opening)
            .max_buf_size(MAX_HEADER_BYTES as usize);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(bounds.streams)
            .max_header_list_size(MAX_HEADER_BYTES)
            .keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        Self { builder, identity, opening: bounds.opening, idle: bounds.idle }
    }

    /// Serves what comes until `stop` resolves, and takes no more connections then.
    /// Once `drain` resolves too, those that stand take no more requests, and it
    /// waits until the requests on them are answered. A connection that was
    /// upgraded is not waited for.
    pub(crate) async fn serve(
        self,
        service: impl Answers,
        incoming: impl Stream<Item = Connection>,
        stop: impl Future<Output = ()>,
        drain: impl Future<Output = ()>,
    ) {
        let connections = TaskTracker::new();
        let draining = CancellationToken::new();
        {
            // Scoped: dropping it closes the listening socket.
            let mut incoming = pin!(incoming);
            let mut stop = pin!(stop);
            loop {
                let accepted = tokio::select! {
                    () = &mut stop => break,
                    accepted = incoming.next() => accepted,
                };
                let Some(connection) = accepted else { break };
                let (http, service) = (self.clone(), service.clone());
                connections.spawn(http.connection(connection, service, draining.clone()));
            }
        }
        drain.await;
        draining.cancel();
        connections.close();
        connections.wait().await;
    }

    /// Serves one connection, in the clear, until its other side ends it.
    pub(crate) async fn serve_one(
        self,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        service: impl Answers,
    ) {
        self.requests(io, service, CancellationToken::new()).await;
    }

    async fn connection(
        self,
        connection: Connection,
        service: impl Answers,
        draining: CancellationToken,
    ) {
        let Some(identity) = self.identity.clone() else {
            return self.requests(connection, service, draining).await;
        };
        let handshake = tokio::time::timeout(self.opening, identity.accept(connection));
        match draining.run_until_cancelled(handshake).await {
            Some(Ok(Ok(encrypted))) => {
                self.requests(encrypted, service, draining).await;
            }
            Some(Ok(Err(error))) => tracing::debug!(%error, "a TLS handshake failed"),
            Some(Err(_)) => tracing::debug!("a TLS handshake took too long"),
            None => {}
        }
    }

    async fn requests(
        self,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        service: impl Answers,
        draining: CancellationToken,
    ) {
        let (unread, requests) = (Unread::new(draining.clone()), Requests::default());
        let counted = requests.clone();
        let service = service_fn(move |request| {
            let one = counted.begin();
            let answer = service.clone().oneshot(unread.watch(request));
            answer.map_ok(|answer| one.until_answered(answer))
        });
        let io = TokioIo::new(Opening::new(io, self.opening));
        let mut connection = pin!(self.builder.serve_connection_with_upgrades(io, service));
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = async {
                tokio::select! {
                    () = draining.cancelled() => {}
                    () = requests.none_for(self.idle) => {}
                }
            } => {
                // It tells the client, and answers what came meanwhile.
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error, "a connection ended badly");
        }
    }
}

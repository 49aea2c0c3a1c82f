//! HTTP over accepted connections: HTTP/2 for gRPC, HTTP/1.1 for gRPC-Web, and
//! upgrades to WebSocket, which tonic's own server does not give.

use std::{convert::Infallible, error::Error, future::Future, pin::pin, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{Request, Response};
use http_body::Body;
use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown, graceful::Watcher},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt as _};

use super::{
    CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES,
    connection::Connection,
    opening::Opening,
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
}

/// How connections are served. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Http {
    builder: auto::Builder<TokioExecutor>,
    identity: Option<Identity>,
    opening: Duration,
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
        Self { builder, identity, opening: bounds.opening }
    }

    /// Serves what comes until `stop` resolves, and takes no more connections then.
    /// Once `drain` resolves too, those that stand take no more requests, and it
    /// waits until the requests on them are answered. A connection that was
    /// upgraded is not waited for.
    pub(crate) async fn serve<S, R>(
        self,
        service: S,
        incoming: impl Stream<Item = Connection>,
        stop: impl Future<Output = ()>,
        drain: impl Future<Output = ()>,
    ) where
        S: Service<Request<Incoming>, Response = Response<R>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let graceful = GracefulShutdown::new();
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
                let (draining, watcher) = (draining.clone(), graceful.watcher());
                tokio::spawn(http.connection(connection, service, draining, watcher));
            }
        }
        drain.await;
        draining.cancel();
        graceful.shutdown().await;
    }

    /// Serves one connection, in the clear, until its other side ends it.
    pub(crate) async fn serve_one<S, R>(
        self,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        service: S,
    ) where
        S: Service<Request<Incoming>, Response = Response<R>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let never = GracefulShutdown::new();
        self.requests(io, service, CancellationToken::new(), never.watcher()).await;
    }

    async fn connection<S, R>(
        self,
        connection: Connection,
        service: S,
        draining: CancellationToken,
        watcher: Watcher,
    ) where
        S: Service<Request<Incoming>, Response = Response<R>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let Some(identity) = self.identity.clone() else {
            return self.requests(connection, service, draining, watcher).await;
        };
        let handshake = tokio::time::timeout(self.opening, identity.accept(connection));
        match draining.run_until_cancelled(handshake).await {
            Some(Ok(Ok(encrypted))) => {
                self.requests(encrypted, service, draining, watcher).await;
            }
            Some(Ok(Err(error))) => tracing::debug!(%error, "a TLS handshake failed"),
            Some(Err(_)) => tracing::debug!("a TLS handshake took too long"),
            None => {}
        }
    }

    async fn requests<S, R>(
        self,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        service: S,
        draining: CancellationToken,
        watcher: Watcher,
    ) where
        S: Service<Request<Incoming>, Response = Response<R>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let unread = Unread::new(draining);
        let service = service_fn(move |request| service.clone().oneshot(unread.watch(request)));
        let io = TokioIo::new(Opening::new(io, self.opening));
        let connection = self.builder.serve_connection_with_upgrades(io, service);
        if let Err(error) = watcher.watch(connection.into_owned()).await {
            tracing::debug!(error, "a connection ended badly");
        }
    }
}

//! HTTP over accepted connections: HTTP/2 for gRPC, HTTP/1.1 for gRPC-Web, and
//! upgrades to WebSocket, which tonic's own server does not give.

use std::{convert::Infallible, future::Future, io, pin::pin, time::Duration};

use futures::{Stream, StreamExt as _};
use http::{Request, Response};
use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown, graceful::Watcher},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tower::{Service, ServiceExt as _};

use super::{
    CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES, connection::Connection, opening::Opening,
    unread::{Unread, Watched},
};

/// How often a quiet connection is asked whether it still stands, and how long
/// the answer may take.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// The most bytes of a request's headers.
const MAX_HEADER_BYTES: u32 = 64 * 1024;

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
    tls: Option<TlsAcceptor>,
    opening: Duration,
}

impl Http {
    pub(crate) fn new(bounds: &Bounds, tls: Option<TlsAcceptor>) -> Self {
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
        Self { builder, tls, opening: bounds.opening }
    }

    /// Serves what comes until `drain` resolves; then takes no more connections,
    /// and waits until the requests on those that stand are answered. A
    /// connection that was upgraded is not waited for.
    pub(crate) async fn serve<S>(
        self,
        service: S,
        incoming: impl Stream<Item = io::Result<Connection>>,
        drain: impl Future<Output = ()>,
    ) where
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send,
    {
        let graceful = GracefulShutdown::new();
        let draining = CancellationToken::new();
        {
            // Scoped: dropping it closes the listening socket.
            let mut incoming = pin!(incoming);
            let mut drain = pin!(drain);
            loop {
                let accepted = tokio::select! {
                    () = &mut drain => break,
                    accepted = incoming.next() => accepted,
                };
                match accepted {
                    Some(Ok(connection)) => {
                        let (http, service) = (self.clone(), service.clone());
                        let (draining, watcher) = (draining.clone(), graceful.watcher());
                        tokio::spawn(http.connection(connection, service, draining, watcher));
                    }
                    Some(Err(_)) => {}
                    None => break,
                }
            }
        }
        draining.cancel();
        graceful.shutdown().await;
    }

    async fn connection<S>(
        self,
        connection: Connection,
        service: S,
        draining: CancellationToken,
        watcher: Watcher,
    ) where
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send,
    {
        let Some(tls) = self.tls.clone() else {
            return self.requests(connection, service, draining, watcher).await;
        };
        let handshake = tokio::time::timeout(self.opening, tls.accept(connection));
        match draining.run_until_cancelled(handshake).await {
            Some(Ok(Ok(encrypted))) => {
                self.requests(encrypted, service, draining, watcher).await;
            }
            Some(Ok(Err(error))) => tracing::debug!(%error, "a TLS handshake failed"),
            Some(Err(_)) => tracing::debug!("a TLS handshake took too long"),
            None => {}
        }
    }

    async fn requests<S>(
        self,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        service: S,
        draining: CancellationToken,
        watcher: Watcher,
    ) where
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send,
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

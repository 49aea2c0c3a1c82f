//! HTTP over accepted connections: HTTP/2 for gRPC, HTTP/1.1 for gRPC-Web, and
//! upgrades to WebSocket, which tonic's own server does not give.

use std::{convert::Infallible, future::Future, io, pin::pin, time::Duration};

use futures::{Stream, StreamExt as _};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown, graceful::Watcher},
    service::TowerToHyperService,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tower::Service;

use super::{connection::Connection, limits::Limits, opening::Opening};
use crate::client::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES};

/// How often a quiet connection is asked whether it still stands, and how long
/// the answer may take.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// The most bytes of a request's headers.
const MAX_HEADER_BYTES: u32 = 64 * 1024;

/// How connections are served. Cheap to clone.
#[derive(Clone)]
pub(super) struct Http {
    builder: auto::Builder<TokioExecutor>,
    tls: Option<TlsAcceptor>,
    opening: Duration,
}

impl Http {
    pub(super) fn new(limits: &Limits, tls: Option<TlsAcceptor>) -> Self {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.opening)
            .max_buf_size(MAX_HEADER_BYTES as usize);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams_per_connection)
            .max_header_list_size(MAX_HEADER_BYTES)
            .keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        Self { builder, tls, opening: limits.opening }
    }

    /// Serves what comes until `drain` resolves; then takes no more connections,
    /// and waits until the requests on those that stand are answered. A
    /// connection that was upgraded is not waited for.
    pub(super) async fn serve<S>(
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
        let service = TowerToHyperService::new(service);
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
        service: TowerToHyperService<S>,
        draining: CancellationToken,
        watcher: Watcher,
    ) where
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send,
    {
        let Some(tls) = self.tls.clone() else {
            return self.requests(connection, service, watcher).await;
        };
        let handshake = tokio::time::timeout(self.opening, tls.accept(connection));
        match draining.run_until_cancelled(handshake).await {
            Some(Ok(Ok(encrypted))) => self.requests(encrypted, service, watcher).await,
            Some(Ok(Err(error))) => tracing::debug!(%error, "a TLS handshake failed"),
            Some(Err(_)) => tracing::debug!("a TLS handshake took too long"),
            None => {}
        }
    }

    async fn requests<S>(
        self,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        service: TowerToHyperService<S>,
        watcher: Watcher,
    ) where
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send,
    {
        let io = TokioIo::new(Opening::new(io, self.opening));
        let connection = self.builder.serve_connection_with_upgrades(io, service);
        if let Err(error) = watcher.watch(connection.into_owned()).await {
            tracing::debug!(error, "a connection ended badly");
        }
    }
}

//! A server: bound, then run until it is told to stop and its calls have ended.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use thiserror::Error;
use tokio::{net::TcpListener, sync::oneshot};
use tokio_util::sync::CancellationToken;
use tonic::{
    service::InterceptorLayer,
    transport::{Identity, ServerTlsConfig},
};
use tonic_health::ServingStatus;
use tonic_web::GrpcWebLayer;

use super::{
    access_log::AccessLog,
    connection::{self, accept},
    limits::Limits,
    origin::{Origin, Origins},
    routes::{Served, routes},
};
use crate::action::Registry;
use crate::client::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES};
use crate::interaction::store::Store;
use crate::runner::Recorder;

/// How often a quiet connection is asked whether it still stands, and how long
/// the answer may take.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// The most bytes of a request's headers.
const MAX_HEADER_BYTES: u32 = 64 * 1024;

/// How often a server that stops looks whether its handlers have ended.
const IDLE_CHECK: Duration = Duration::from_millis(20);

/// How long connections have to end once they were cut.
const CUT_GRACE: Duration = Duration::from_secs(1);

/// What to serve, where, and how much of it at once.
pub struct Options {
    /// `HOST:PORT` to listen on; port 0 takes a free one.
    pub listen: String,
    /// The actions.
    pub registry: Arc<Registry>,
    /// The bounds.
    pub limits: Limits,
    /// Certificate and key; `None` serves in the clear.
    pub tls: Option<Tls>,
    /// Web origins that may call, beside pages from loopback.
    pub allowed_origins: Vec<Origin>,
    /// Where conversations are kept; `None` keeps none.
    pub store: Option<Arc<dyn Store>>,
}

impl Options {
    /// Serves a registry at an address, all else by default.
    pub fn new(listen: impl Into<String>, registry: Arc<Registry>) -> Self {
        Self {
            listen: listen.into(),
            registry,
            limits: Limits::default(),
            tls: None,
            allowed_origins: vec![],
            store: None,
        }
    }
}

/// What a server proves itself with.
#[derive(Debug)]
pub struct Tls {
    /// The certificate and those between it and the root, PEM.
    pub certificate: Vec<u8>,
    /// Its private key, PEM.
    pub key: Vec<u8>,
}

/// Why a server did not come up.
#[derive(Debug, Error)]
pub enum BindError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// As given.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// Certificate or key is unusable.
    #[error("the TLS certificate or key is unusable: {0}")]
    Tls(tonic::transport::Error),
    /// The services cannot be put together.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// Why a server stopped by itself.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The transport failed.
    #[error("serving failed: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// The schema cannot be reflected.
    #[error("the schema cannot be reflected: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// How a server came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every accepted call had finished.
    Drained,
    /// Time was up, and calls that still ran were cancelled.
    Cut,
}

/// A server that has its address and waits to be run.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    served: Served,
    transport: tonic::transport::Server,
    origins: Origins,
    limits: Limits,
    recorder: Option<Recorder>,
}

impl Server {
    /// Binds the address and puts the services together. Connections queue from
    /// here on, and are served once the server is [run](Self::run).
    ///
    /// # Errors
    /// Where the address is taken or is none, or the TLS files are unusable.
    pub async fn bind(options: Options) -> Result<Self, BindError> {
        let Options { listen, registry, limits, tls, allowed_origins, store } = options;
        let mut transport = tonic::transport::Server::builder()
            // gRPC-Web speaks HTTP/1.1 where there is no TLS.
            .accept_http1(true)
            .max_concurrent_streams(limits.streams_per_connection)
            .http2_max_header_list_size(MAX_HEADER_BYTES)
            .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        if let Some(Tls { certificate, key }) = tls {
            let identity = Identity::from_pem(certificate, key);
            transport = transport
                .tls_config(ServerTlsConfig::new().identity(identity))
                .map_err(BindError::Tls)?;
        }
        let recorder = store.map(Recorder::new);
        let served = routes(registry, recorder.clone(), &limits).await;
        let served = served.map_err(ServeError::from)?;
        let refused = |source| BindError::Listen { address: listen.clone(), source };
        let listener = TcpListener::bind(&listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let origins = Origins::new(allowed_origins);
        Ok(Self { listener, address, served, transport, origins, limits, recorder })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether other machines can reach the address.
    pub fn is_exposed(&self) -> bool {
        connection::is_exposed(self.address)
    }

    /// Serves until `stop` resolves; then health turns NOT_SERVING, nothing more
    /// is accepted, and accepted calls go on for as long as the limits say.
    /// What still runs after that is cancelled.
    ///
    /// # Errors
    /// Where serving itself fails.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<Ending, ServeError> {
        let Self { listener, address: _, served, transport, origins, limits, recorder } = self;
        let Served { routes, health, directory, handlers } = served;
        let cut = CancellationToken::new();
        let incoming = accept(listener, limits.connections, cut.clone());
        let (drain, drained) = oneshot::channel::<()>();
        let check = {
            let origins = origins.clone();
            move |request| origins.check(request)
        };
        let serve = transport
            .layer(origins.cors())
            .layer(GrpcWebLayer::new())
            .layer(AccessLog)
            .layer(InterceptorLayer::new(check))
            .serve_with_incoming_shutdown(routes, incoming, async {
                let _ = drained.await;
            });
        tokio::pin!(serve);

        tokio::select! {
            ended = &mut serve => return ended.map(|()| Ending::Drained).map_err(Into::into),
            () = stop => {}
        }
        health.set(ServingStatus::NotServing).await;
        let _ = drain.send(());
        health.close().await;
        // A session is a call that never ends by itself: it is ended once nothing
        // runs here any more that it could be for.
        let drained = async {
            let end_sessions = async {
                while handlers.running() > 0 {
                    tokio::time::sleep(IDLE_CHECK).await;
                }
                directory.shut_down().await;
            };
            tokio::pin!(end_sessions);
            tokio::select! {
                ended = &mut serve => ended,
                () = &mut end_sessions => serve.as_mut().await,
            }
        };
        let ended = match tokio::time::timeout(limits.shutdown, drained).await {
            Ok(ended) => ended.map(|()| Ending::Drained).map_err(Into::into),
            Err(_) => {
                cut.cancel();
                let _ = tokio::time::timeout(CUT_GRACE, serve).await;
                Ok(Ending::Cut)
            }
        };
        // Rounds whose callers were cut write down that they were.
        if let Some(recorder) = recorder {
            recorder.tasks().close();
            let _ = tokio::time::timeout(CUT_GRACE, recorder.tasks().wait()).await;
        }
        ended
    }
}

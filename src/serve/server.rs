//! A server: bound, then run until it is told to stop and its calls have ended.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use futures::future::maybe_done;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::service::InterceptorLayer;
use tonic_health::ServingStatus;
use tonic_web::GrpcWebLayer;
use tower::ServiceBuilder;

use super::{
    limits::Limits,
    origin::{Origin, Origins},
    routes::{Served, routes},
    web_text,
    websocket::WithWebSocket,
};
use crate::action::Registry;
use crate::interaction::store::Store;
use crate::listen::{self, AccessLog, Bounds, Http, Tls, TlsError};
use crate::runner::Recorder;

/// How often a server that stops looks whether its handlers have ended.
const IDLE_CHECK: Duration = Duration::from_millis(20);

/// How long peers have to take in that their sessions end, and then connections to
/// end once they were cut.
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
    Tls(#[from] TlsError),
    /// The services cannot be put together.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// Why the services cannot be put together.
#[derive(Debug, Error)]
pub enum ServeError {
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
    http: Http,
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
        let identity = tls.as_ref().map(Tls::identity).transpose()?;
        let bounds = Bounds {
            opening: limits.opening,
            streams: limits.streams_per_connection,
            idle: limits.idle,
        };
        let http = Http::new(&bounds, identity);
        let recorder = store.map(Recorder::new);
        let served = routes(registry, recorder.clone(), &limits).await;
        let served = served.map_err(ServeError::from)?;
        let refused = |source| BindError::Listen { address: listen.clone(), source };
        let listener = TcpListener::bind(&listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let origins = Origins::new(allowed_origins);
        Ok(Self { listener, address, served, http, origins, limits, recorder })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether other machines can reach the address.
    pub fn is_exposed(&self) -> bool {
        listen::is_exposed(self.address)
    }

    /// Serves until `stop` resolves; then health turns NOT_SERVING, nothing more
    /// is accepted, and accepted calls go on for as long as the limits say.
    /// What still runs after that is cancelled, attached peers being told so.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Ending {
        let Self { listener, address: _, served, http, origins, limits, recorder } = self;
        let Served { routes, health, directory, handlers } = served;
        let cut = CancellationToken::new();
        let incoming = listen::accept(listener, limits.connections, cut.clone());
        let stopping = CancellationToken::new();
        let check = {
            let origins = origins.clone();
            move |request| origins.check(request)
        };
        let services = ServiceBuilder::new()
            .layer(origins.cors())
            .map_request(web_text::as_binary)
            .layer(GrpcWebLayer::new())
            .layer(AccessLog)
            .layer(InterceptorLayer::new(check))
            .service(routes);
        let service = WithWebSocket { directory: directory.clone(), origins, inner: services };
        // Asked again after it is done where sessions outlast it.
        let (stopped, drain) = (stopping.cancelled(), stopping.cancelled());
        let serve = maybe_done(http.serve(service, incoming, stopped, drain));
        tokio::pin!(serve);

        tokio::select! {
            () = &mut serve => {}
            () = stop => {}
        }
        health.set(ServingStatus::NotServing).await;
        stopping.cancel();
        health.close().await;
        // A session does not end by itself: it is ended once nothing runs here any
        // more that it could be for.
        let drained = async {
            let end_sessions = async {
                while handlers.running() > 0 || !directory.is_idle() {
                    tokio::time::sleep(IDLE_CHECK).await;
                }
                directory.shut_down().await;
            };
            tokio::join!(serve.as_mut(), end_sessions);
        };
        let ending = match tokio::time::timeout(limits.shutdown, drained).await {
            Ok(()) => Ending::Drained,
            Err(_) => {
                // While the connections stand: a peer that is not told takes the end of its
                // connection for a break, and waits to come back.
                let _ = tokio::time::timeout(CUT_GRACE, directory.shut_down()).await;
                cut.cancel();
                let ended = async { tokio::join!(serve, directory.shut_down()) };
                let _ = tokio::time::timeout(CUT_GRACE, ended).await;
                Ending::Cut
            }
        };
        // Rounds whose callers were cut write down that they were.
        if let Some(recorder) = recorder {
            recorder.tasks().close();
            let _ = tokio::time::timeout(CUT_GRACE, recorder.tasks().wait()).await;
        }
        ending
    }
}

//! A listener for Streamable HTTP alone, with the path [`PATH`].

use std::{convert::Infallible, future::Future, time::Duration};

use futures::future::maybe_done;
use http::{Request, StatusCode};
use tokio::{net::TcpListener, time::timeout};
use tokio_util::sync::CancellationToken;
use tower::service_fn;

use super::{
    http::{FLUSH, HttpOptions, PATH, answer},
    server::McpServer,
};
use crate::listen::{Bounds, Http, Incoming, accept};

/// How long a connection may take to begin, and how many requests it makes at once.
const OPENING: Duration = Duration::from_secs(30);
const MAX_STREAMS: u32 = 200;

impl McpServer {
    /// Serves on a listener until `stop` resolves; then takes no more calls and
    /// lets those that run end for `grace`. The path is [`PATH`].
    pub async fn serve_http(
        &self,
        listener: TcpListener,
        options: &HttpOptions,
        stop: impl Future<Output = ()>,
        grace: Duration,
    ) {
        let service = self.http_service(options);
        let (cut, drain) = <(CancellationToken, CancellationToken)>::default();
        let incoming = accept(listener, options.max_connections, cut.clone());
        let bounds =
            Bounds { opening: OPENING, streams: MAX_STREAMS, idle: options.connection_idle };
        let http = Http::new(&bounds, options.identity.clone());
        let stopped = CancellationToken::new();
        // Those who wait for answers may say more on the connections they have.
        let (on_stop, on_drain) = (stopped.cancelled(), drain.cancelled());
        let answers = service.clone();
        let on_path = service_fn(move |request: Request<Incoming>| {
            let answers = answers.clone();
            async move {
                if request.uri().path().trim_end_matches('/') != PATH {
                    return Ok::<_, Infallible>(answer(StatusCode::NOT_FOUND, "The path is /mcp"));
                }
                Ok(answers.handle(request).await)
            }
        });
        let serve = maybe_done(http.serve(on_path, incoming, on_stop, on_drain));
        tokio::pin!(serve);
        tokio::select! {
            () = &mut serve => {}
            () = stop => {}
        }
        stopped.cancel();
        let drained = async {
            self.drain().await;
            // Answers are written; then streams that never end are ended.
            let _ = timeout(FLUSH, service.answered()).await;
        };
        // Served on, for the listener to be closed.
        tokio::select! {
            () = &mut serve => {}
            _ = timeout(grace, drained) => {}
        }
        service.close();
        drain.cancel();
        let _ = timeout(FLUSH, serve).await;
        cut.cancel();
    }
}

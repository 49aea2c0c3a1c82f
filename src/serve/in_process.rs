//! The same services without a socket, for the command line and for programs
//! that hold a registry themselves.

use std::{convert::Infallible, sync::Arc};

use futures::{StreamExt as _, stream};
use tonic::transport::Channel;

use super::{limits::Limits, routes::routes, server::ServeError};
use crate::action::Registry;
use crate::client::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES, pipe};
use crate::interaction::store::Store;
use crate::runner::Recorder;

/// A channel to the services of a registry, and of a store, in this process. They end, and with
/// them what they run, when the last clone of the channel is dropped.
///
/// # Errors
/// Where the services cannot be put together; not seen in practice.
pub async fn in_process(
    registry: Arc<Registry>,
    store: Option<Arc<dyn Store>>,
) -> Result<Channel, ServeError> {
    let limits = Limits { streams_per_connection: u32::MAX, ..Limits::default() };
    let routes = routes(registry, store.map(Recorder::new), &limits).await?.routes;
    let (channel, far) = pipe();
    // The one connection, and then none: the task ends once it is accepted, the
    // connection's own when the channel is dropped.
    let incoming = stream::iter([Ok::<_, Infallible>(far)]).chain(stream::empty());
    tokio::spawn(async move {
        let served = tonic::transport::Server::builder()
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .serve_with_incoming(routes, incoming)
            .await;
        if let Err(error) = served {
            tracing::error!(%error, "the service in this process ended");
        }
    });
    Ok(channel)
}

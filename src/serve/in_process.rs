//! The same services without a socket, for the command line and for programs
//! that hold a registry themselves.

use std::{sync::Arc, time::Duration};

use tonic::transport::Channel;

use super::{limits::Limits, routes::routes, server::ServeError};
use crate::action::Registry;
use crate::client::pipe;
use crate::interaction::store::Store;
use crate::listen::{Bounds, Http};
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
    let bounds = Bounds {
        opening: limits.opening,
        streams: limits.streams_per_connection,
        idle: Duration::MAX,
    };
    // Ends with the channel.
    tokio::spawn(Http::new(&bounds, None).serve_one(far, routes));
    Ok(channel)
}

//! A channel to a service in this process, over a pipe instead of a socket.

use std::io;

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::DuplexStream;
use tonic::transport::{Channel, Endpoint};

use super::connect::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES};

/// How many bytes are on their way in each direction at most.
const PIPE_BYTES: usize = 256 * 1024;

/// A channel, and the end of the pipe that a server is to serve as its one
/// connection. When the channel is dropped the pipe ends; a channel whose pipe
/// has ended does not come back.
pub fn pipe() -> (Channel, DuplexStream) {
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    let near = Mutex::new(Some(near));
    let connector = tower::service_fn(move |_| {
        let stream = near.lock().take();
        async move {
            stream.map(TokioIo::new).ok_or_else(|| {
                io::Error::new(io::ErrorKind::BrokenPipe, "the service in this process has ended")
            })
        }
    });
    // The address is never dialled; it only becomes the requests' authority.
    let channel = Endpoint::from_static("http://in-process")
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .connect_with_connector_lazy(connector);
    (channel, far)
}

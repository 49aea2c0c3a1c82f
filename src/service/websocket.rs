//! `GET /a11.v1/session`: the WebSocket handshake before a session.

use std::{future::Future, sync::Arc};

use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tonic::body::Body;

use super::websocket_session;
use crate::session::Directory;

/// Where sessions over WebSocket are opened.
pub const WEBSOCKET_PATH: &str = "/a11.v1/session";

/// The answer to a request to [`WEBSOCKET_PATH`]; and where it is no refusal, the
/// session, to be run as one of the directory's tasks: it begins once the answer
/// is sent. The server must serve connections with upgrades, and must have
/// checked the `Origin`: a browser asks nobody before it opens a WebSocket.
pub fn upgrade<B>(
    directory: &Arc<Directory>,
    request: Request<B>,
) -> (Response<Body>, Option<impl Future<Output = ()> + Send + 'static>) {
    let key = match key(request.method(), request.headers()) {
        Ok(key) => key,
        Err(status) => {
            let mut refusal = Response::new(Body::empty());
            *refusal.status_mut() = status;
            let headers = refusal.headers_mut();
            headers.insert(header::UPGRADE, header::HeaderValue::from_static("websocket"));
            let version = header::HeaderValue::from_static("13");
            headers.insert(header::SEC_WEBSOCKET_VERSION, version);
            return (refusal, None);
        }
    };
    let serving = directory.clone();
    let upgraded = hyper::upgrade::on(request);
    let session = async move {
        match upgraded.await {
            Ok(connection) => websocket_session::serve(serving, TokioIo::new(connection)).await,
            Err(error) => tracing::debug!(%error, "a connection did not become a WebSocket"),
        }
    };
    let response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_ACCEPT, derive_accept_key(key.as_bytes()));
    (response.body(Body::empty()).unwrap_or_default(), Some(session))
}

/// The key of a handshake (RFC 6455, 4.2.1).
fn key(method: &Method, headers: &HeaderMap) -> Result<String, StatusCode> {
    let says = |name, wanted: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.is_some_and(|it| it.split(',').any(|it| it.trim().eq_ignore_ascii_case(wanted)))
    };
    if method != Method::GET {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    if !says(header::CONNECTION, "upgrade") || !says(header::UPGRADE, "websocket") {
        return Err(StatusCode::UPGRADE_REQUIRED);
    }
    if !says(header::SEC_WEBSOCKET_VERSION, "13") {
        return Err(StatusCode::UPGRADE_REQUIRED);
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok());
    key.map(str::to_owned).ok_or(StatusCode::BAD_REQUEST)
}

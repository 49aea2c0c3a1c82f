//! The HTTP client that reaches MCP servers: the SDK's own, which ends the task
//! that makes it on a system without roots of its own, as small containers are.

use reqwest::{
    Client, StatusCode,
    redirect::{Action, Attempt, Policy},
};
use rustls::{ClientConfig, RootCertStore};

/// How many redirects are followed for one request.
const MAX_REDIRECTS: usize = 10;

/// A client that trusts the roots of the system, or of the file that
/// `SSL_CERT_FILE` names; where there are none, those of the web.
///
/// # Errors
/// Where there is no TLS at all.
pub(super) fn http_client() -> Result<Client, reqwest::Error> {
    // Another provider in the program is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    // Kept connections would stall on delayed acknowledgements, as the SDK found.
    let client =
        || Client::builder().pool_max_idle_per_host(0).redirect(Policy::custom(within_its_origin));
    client().build().or_else(|_| client().tls_backend_preconfigured(web_roots()).build())
}

fn web_roots() -> ClientConfig {
    let roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

/// Follows redirects that keep the message and stay where the session and the
/// headers are meant for.
fn within_its_origin(attempt: Attempt<'_>) -> Action {
    let keeps_body =
        matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let first = attempt.previous().first();
    let stays = first.is_some_and(|first| first.origin() == attempt.url().origin());
    match keeps_body && stays {
        true if attempt.previous().len() > MAX_REDIRECTS => attempt.error("too many redirects"),
        true => attempt.follow(),
        false => attempt.stop(),
    }
}

//! Connecting to a server by URL.

use std::{ffi::OsString, io, path::PathBuf, time::Duration};

use rustls::pki_types::{CertificateDer, pem, pem::PemObject as _};
use thiserror::Error;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

use super::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES};

/// How long connecting may take, name resolution and TLS included.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a quiet connection is asked whether it still stands.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// It is no address of a server.
    #[error(
        "{url:?} is not a server's address: {fault}; use HOST:PORT, http://HOST:PORT or https://HOST[:PORT]"
    )]
    Url {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        fault: UrlFault,
    },
    /// `SSL_CERT_FILE` names a file that holds no certificates.
    #[error("SSL_CERT_FILE={}: {fault}", path.display())]
    Roots {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: RootsFault,
    },
    /// Nobody answers there, or not as a server should.
    #[error("cannot reach the server at {url}: {cause}")]
    Unreachable {
        /// The server.
        url: String,
        /// Why, from the outermost cause to the innermost.
        cause: String,
    },
}

/// What is wrong with a server's address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UrlFault {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It cannot be read as a URL.
    #[error("{0}")]
    Malformed(#[from] url::ParseError),
    /// Another scheme than http and https.
    #[error("scheme {0:?} is not supported")]
    Scheme(String),
    /// More than a host and a port.
    #[error("it has a path, a query, or credentials")]
    Surplus,
    /// A bare host, which could mean any port.
    #[error("it has no port")]
    Port,
}

/// What is wrong with a file of certificates.
#[derive(Debug, Error)]
pub enum RootsFault {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is no PEM.
    #[error("no certificate can be read there: {0}")]
    Pem(#[from] pem::Error),
}

/// Connects to `http://HOST[:PORT]`, `https://HOST[:PORT]` or, without TLS,
/// `HOST:PORT`. A certificate is checked against the roots of the system, or of
/// the file that `SSL_CERT_FILE` names, and those of the web.
///
/// # Errors
/// Where the address is none, `SSL_CERT_FILE` names no certificates, or nobody
/// answers there within [`CONNECT_TIMEOUT`].
pub async fn connect(url: &str) -> Result<Channel, ConnectError> {
    let address =
        normalise(url).map_err(|fault| ConnectError::Url { url: url.to_owned(), fault })?;
    let unreachable = |cause| ConnectError::Unreachable { url: address.clone(), cause };
    let mut endpoint = Endpoint::from_shared(address.clone())
        .map_err(|error| unreachable(causes(&error)))?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    if address.starts_with("https:") {
        // The system's roots would be left out without a word.
        check_roots(std::env::var_os("SSL_CERT_FILE")).await?;
        let web = ClientTlsConfig::new().with_webpki_roots();
        endpoint = endpoint
            .clone()
            .tls_config(web.clone().with_native_roots())
            // A system without roots of its own, as small containers are.
            .or_else(|_| endpoint.tls_config(web))
            .map_err(|error| unreachable(causes(&error)))?;
    }
    match tokio::time::timeout(CONNECT_TIMEOUT, endpoint.connect()).await {
        Ok(connected) => connected.map_err(|error| unreachable(causes(&error))),
        Err(_) => Err(unreachable(format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()))),
    }
}

/// Sees to it that the file which names roots has some.
async fn check_roots(named: Option<OsString>) -> Result<(), ConnectError> {
    let Some(path) = named.filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return Ok(());
    };
    let read = async {
        let text = tokio::fs::read(&path).await?;
        let mut certificates = CertificateDer::pem_slice_iter(&text);
        certificates.next().unwrap_or(Err(pem::Error::NoItemsFound))?;
        Ok(())
    };
    read.await.map_err(|fault| ConnectError::Roots { path, fault })
}

/// The address as a URL of scheme, host and port.
fn normalise(address: &str) -> Result<String, UrlFault> {
    let address = address.trim();
    if address.is_empty() {
        return Err(UrlFault::Empty);
    }
    let bare = !address.contains("://");
    let url = match bare {
        true => url::Url::parse(&format!("http://{address}"))?,
        false => url::Url::parse(address)?,
    };
    if !matches!(url.scheme(), "http" | "https") {
        return Err(UrlFault::Scheme(url.scheme().to_owned()));
    }
    let surplus = url.path() != "/"
        || url.query().is_some()
        || url.fragment().is_some()
        || !url.username().is_empty()
        || url.password().is_some();
    if surplus {
        return Err(UrlFault::Surplus);
    }
    // The parser drops a port that is the scheme's own, so it is looked for in
    // the text: `localhost:80` is fine, `localhost` is not.
    let has_port = address.trim_end_matches('/').rsplit_once(':').is_some_and(|(_, port)| {
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    if bare && !has_port {
        return Err(UrlFault::Port);
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// An error and what lies under it, each once.
fn causes(error: &dyn std::error::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(error) = next {
        let text = error.to_string();
        if texts.last().is_none_or(|outer| !outer.contains(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    if texts.is_empty() { error.to_string() } else { texts.join(": ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_three_forms_and_nothing_else() {
        let check = |given: &str, expected: Result<&str, UrlFault>| {
            assert_eq!(normalise(given), expected.map(str::to_owned), "{given}");
        };
        check("127.0.0.1:50051", Ok("http://127.0.0.1:50051"));
        check("localhost:80", Ok("http://localhost"));
        check("[::1]:50051", Ok("http://[::1]:50051"));
        check(" http://tools.example:8080/ ", Ok("http://tools.example:8080"));
        check("https://tools.example", Ok("https://tools.example"));
        check("", Err(UrlFault::Empty));
        check("localhost", Err(UrlFault::Port));
        check("ftp://x:1", Err(UrlFault::Scheme("ftp".to_owned())));
        check("http://x:1/path", Err(UrlFault::Surplus));
        check("http://user:pw@x:1", Err(UrlFault::Surplus));
        check("http://x:99999", Err(UrlFault::Malformed(url::ParseError::InvalidPort)));
        check("http://", Err(UrlFault::Malformed(url::ParseError::EmptyHost)));
    }

    #[tokio::test]
    async fn an_unreachable_server_is_named_with_the_cause() {
        // Bound and dropped, so that nobody listens there.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = connect(&free.to_string()).await.unwrap_err().to_string();
        assert!(error.contains(&format!("http://{free}")), "{error}");
        assert!(error.contains("refused"), "{error}");
    }
}

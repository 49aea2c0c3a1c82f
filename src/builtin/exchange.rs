//! One HTTP exchange of `http_fetch`: hop by hop, each host resolved once, its
//! addresses checked, and connected to at those very addresses.

use std::{io, net::SocketAddr};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, Method, StatusCode, header};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use thiserror::Error;
use url::{Host, Url};

use super::{address::AddressClass, http_fetch::FetchOptions};
use crate::wire::{Code, Reason, Status};

/// How many redirects are followed.
const MAX_REDIRECTS: usize = 10;
/// How many headers an answer may have.
const MAX_HEADERS: usize = 128;
/// How many bytes of headers an answer may have over HTTP/2.
const MAX_HEADER_BYTES: u32 = 64 * 1024;
const USER_AGENT: &str = concat!("a11-grpc/", env!("CARGO_PKG_VERSION"));

/// What is asked of a server.
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
}

/// What the last server answered, whatever its status.
pub(super) struct Answer {
    pub(super) url: Url,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// Decompressed.
    pub(super) body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub(super) enum FetchError {
    #[error("{0:?} is not a URL: {1}")]
    Url(String, url::ParseError),
    #[error("{0:?} is not a scheme that is fetched; http and https are")]
    Scheme(String),
    #[error("a URL with a user name or a password in it is not fetched; use a header")]
    Userinfo,
    #[error("the URL has no host")]
    NoHost,
    #[error("{host} is at {address}, a {class} address, which is not fetched from")]
    Refused { host: String, address: SocketAddr, class: AddressClass },
    #[error("host {host:?} was not found: {error}")]
    Unresolved { host: String, error: io::Error },
    #[error("more than {MAX_REDIRECTS} redirects")]
    TooManyRedirects,
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    #[error("{host}: {cause}")]
    Transport { host: String, cause: String },
}

impl From<FetchError> for Status {
    fn from(error: FetchError) -> Self {
        let message = error.to_string();
        match error {
            FetchError::Url(..)
            | FetchError::Scheme(_)
            | FetchError::Userinfo
            | FetchError::NoHost => Self::of(Reason::InvalidInput, message),
            FetchError::Refused { .. } => Self::handler(Code::PermissionDenied, message),
            FetchError::Unresolved { .. } | FetchError::Transport { .. } => {
                Self::handler(Code::Unavailable, message)
            }
            FetchError::TooManyRedirects | FetchError::Tls(_) => {
                Self::handler(Code::FailedPrecondition, message)
            }
            FetchError::TooLarge(_) => Self::of(Reason::OutputTooLarge, message),
        }
    }
}

/// Reads a URL that may be fetched, as far as it alone can say.
pub(super) fn parse_url(text: &str) -> Result<Url, FetchError> {
    let url = Url::parse(text)
        .map_err(|error| FetchError::Url(text.chars().take(200).collect(), error))?;
    check_url(url)
}

fn check_url(url: Url) -> Result<Url, FetchError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(FetchError::Scheme(url.scheme().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(FetchError::Userinfo);
    }
    Ok(url)
}

/// Asks, follows redirects, and reads the body. `note` hears of each hop.
pub(super) async fn exchange(
    options: &FetchOptions,
    tls: &rustls::ClientConfig,
    mut request: Request,
    mut note: impl FnMut(String),
) -> Result<Answer, FetchError> {
    for _ in 0..=MAX_REDIRECTS {
        let host = request.url.host_str().unwrap_or_default().to_owned();
        let addresses = addresses(options, &request.url).await?;
        note(format!("{} {host} at {addresses:?}\n", request.method));
        let transport = |error: reqwest::Error| FetchError::Transport {
            host: host.clone(),
            cause: cause(error),
        };
        // A client a hop: what it can reach is what was checked for this hop.
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls.clone())
            .dns_resolver(Pinned(addresses))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .user_agent(USER_AGENT)
            .http1_max_headers(MAX_HEADERS)
            .http2_max_header_list_size(MAX_HEADER_BYTES)
            .build()
            .map_err(transport)?;
        let mut asked = client
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone());
        if let Some(body) = &request.body {
            asked = asked.body(body.clone());
        }
        let response = asked.send().await.map_err(transport)?;
        match redirect(&request, response.status(), response.headers())? {
            Some(next) => request = next,
            None => {
                let (status, headers) = (response.status(), response.headers().clone());
                let body = read_body(response, options.max_bytes, transport).await?;
                return Ok(Answer { url: request.url, status, headers, body });
            }
        }
    }
    Err(FetchError::TooManyRedirects)
}

/// The addresses of a URL's host that may be connected to, at least one.
async fn addresses(options: &FetchOptions, url: &Url) -> Result<Vec<SocketAddr>, FetchError> {
    let host = url.host().ok_or(FetchError::NoHost)?;
    let port = url.port_or_known_default().ok_or(FetchError::NoHost)?;
    // `url` has read all the ways to write an IPv4 address as a number by now.
    let found: Vec<SocketAddr> = match host {
        Host::Ipv4(address) => vec![(address, port).into()],
        Host::Ipv6(address) => vec![(address, port).into()],
        Host::Domain(name) => tokio::net::lookup_host((name, port))
            .await
            .map_err(|error| FetchError::Unresolved { host: name.to_owned(), error })?
            .collect(),
    };
    let host = host.to_string();
    let mut permitted = vec![];
    let mut refused = None;
    for address in found {
        match options.permits.check(&host, address) {
            Ok(()) => permitted.push(address),
            Err(class) => refused = refused.or(Some((address, class))),
        }
    }
    match (permitted.is_empty(), refused) {
        (false, _) => Ok(permitted),
        (true, Some((address, class))) => Err(FetchError::Refused { host, address, class }),
        (true, None) => {
            let error = io::Error::new(io::ErrorKind::NotFound, "it has no addresses");
            Err(FetchError::Unresolved { host, error })
        }
    }
}

/// Resolves every name to the addresses that were checked.
struct Pinned(Vec<SocketAddr>);

impl Resolve for Pinned {
    fn resolve(&self, _: Name) -> Resolving {
        let addresses = self.0.clone();
        Box::pin(async move { Ok(Box::new(addresses.into_iter()) as Addrs) })
    }
}

/// What to ask next; `None` where the answer is no redirect.
fn redirect(
    request: &Request,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<Option<Request>, FetchError> {
    let drops_body = match status.as_u16() {
        301 | 302 => request.method == Method::POST,
        303 => request.method != Method::HEAD,
        307 | 308 => false,
        _ => return Ok(None),
    };
    let Some(location) = headers.get(header::LOCATION) else { return Ok(None) };
    let location = String::from_utf8_lossy(location.as_bytes());
    let url = request
        .url
        .join(&location)
        .map_err(|error| FetchError::Url(location.chars().take(200).collect(), error))?;
    let url = check_url(url)?;
    let mut next = Request {
        method: request.method.clone(),
        headers: request.headers.clone(),
        body: request.body.clone(),
        url,
    };
    if drops_body {
        next.method = Method::GET;
        next.body = None;
        for name in [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::CONTENT_LANGUAGE] {
            next.headers.remove(name);
        }
    }
    if next.url.origin() != request.url.origin() {
        next.headers = next.headers.into_iter().fold(HeaderMap::new(), |mut kept, header| {
            if let (Some(name), value) = header
                && tells_no_secret(&name)
            {
                kept.append(name, value);
            }
            kept
        });
    }
    Ok(Some(next))
}

/// Headers that another origin may see: any other may be a key of some kind.
fn tells_no_secret(name: &HeaderName) -> bool {
    [header::ACCEPT, header::ACCEPT_LANGUAGE, header::CONTENT_TYPE, header::USER_AGENT]
        .contains(name)
}

/// Reads and decompresses the body, up to the limit.
async fn read_body(
    mut response: reqwest::Response,
    limit: usize,
    transport: impl Fn(reqwest::Error) -> FetchError,
) -> Result<Bytes, FetchError> {
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Err(FetchError::TooLarge(limit));
    }
    let mut body = BytesMut::new();
    while let Some(bytes) = response.chunk().await.map_err(&transport)? {
        if body.len() + bytes.len() > limit {
            return Err(FetchError::TooLarge(limit));
        }
        body.extend_from_slice(&bytes);
    }
    Ok(body.freeze())
}

/// All that an error says, without the URL.
fn cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(error) = source {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = error.source();
    }
    text
}

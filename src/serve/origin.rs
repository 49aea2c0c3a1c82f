//! Which web pages may call: a browser says where a page comes from, and a page
//! from elsewhere could otherwise run this machine's tools.

use std::{collections::BTreeSet, str::FromStr, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue, Method, header::ORIGIN, request::Parts};
use thiserror::Error;
use tonic::{Request, Status};
use tower_http::cors::{AllowOrigin, CorsLayer, ExposeHeaders};

/// A web origin, `SCHEME://HOST[:PORT]`, or `*` for all of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(String);

impl Origin {
    /// The origin as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that is no origin.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not a web origin; use SCHEME://HOST[:PORT], or * for all")]
pub struct OriginError(String);

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        if text == "*" {
            return Ok(Self(text.to_owned()));
        }
        let error = || OriginError(text.to_owned());
        let url = url::Url::parse(text).map_err(|_| error())?;
        let origin = url.origin();
        let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        if !origin.is_tuple() || !bare {
            return Err(error());
        }
        Ok(Self(origin.ascii_serialization()))
    }
}

/// The origins that may call. Pages served from this machine's loopback always
/// may; programs that are no browser send no origin and are not asked.
#[derive(Debug, Clone)]
pub(super) struct Origins(Arc<BTreeSet<Origin>>);

impl Origins {
    pub(super) fn new(allowed: impl IntoIterator<Item = Origin>) -> Self {
        Self(Arc::new(allowed.into_iter().collect()))
    }

    fn allow(&self, origin: &[u8]) -> bool {
        if self.0.contains(&Origin("*".to_owned())) {
            return true;
        }
        let Ok(Ok(url)) = std::str::from_utf8(origin).map(url::Url::parse) else { return false };
        let loopback = match url.host() {
            Some(url::Host::Domain(domain)) => domain == "localhost",
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        loopback || self.0.contains(&Origin(url.origin().ascii_serialization()))
    }

    /// Whether a request with these headers may be answered: every origin that
    /// they name may call.
    pub(super) fn admit(&self, headers: &HeaderMap) -> bool {
        headers.get_all(ORIGIN).iter().all(|origin| self.allow(origin.as_bytes()))
    }

    /// Refuses a request that a page of another origin makes.
    pub(super) fn check(&self, request: Request<()>) -> Result<Request<()>, Status> {
        if self.admit(request.metadata().as_ref()) {
            return Ok(request);
        }
        Err(Status::permission_denied("this web origin may not call; see --allow-origin"))
    }

    /// The answers that let a browser's page of an allowed origin call.
    pub(super) fn cors(&self) -> CorsLayer {
        const EXPOSED: [&str; 4] =
            ["grpc-status", "grpc-message", "grpc-status-details-bin", "grpc-encoding"];
        let origins = self.clone();
        CorsLayer::new()
            .allow_origin(AllowOrigin::predicate(move |origin: &HeaderValue, _: &Parts| {
                origins.allow(origin.as_bytes())
            }))
            .allow_methods([Method::POST])
            .allow_headers(tower_http::cors::AllowHeaders::mirror_request())
            .expose_headers(ExposeHeaders::list(EXPOSED.map(HeaderName::from_static)))
            .max_age(std::time::Duration::from_secs(3600))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_from_loopback_and_those_named_may_call() {
        let named = Origins::new(["https://app.example:443".parse().unwrap()]);
        let check = |origin: &str, expected| {
            assert_eq!(named.allow(origin.as_bytes()), expected, "{origin}");
        };
        check("http://localhost:3000", true);
        check("http://127.0.0.1", true);
        check("http://[::1]:8080", true);
        check("https://app.example", true);
        check("http://app.example", false);
        check("https://localhost.evil.example", false);
        check("null", false);
        check("", false);
        assert!(Origins::new(["*".parse().unwrap()]).allow(b"https://any.example"));
    }

    #[test]
    fn an_origin_is_scheme_host_and_port_alone() {
        let check = |text: &str, expected| assert_eq!(text.parse::<Origin>().is_ok(), expected);
        check("https://app.example", true);
        check("https://app.example/path", false);
        check("app.example", false);
        check("data:x", false);
    }
}

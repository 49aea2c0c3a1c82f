//! `http_fetch`: one HTTP request to the public internet. An HTTP error status is
//! an answer like any other; only the lack of an answer is a failure.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs, pki_types::CertificateDer};
use tokio::time::timeout;

use super::{
    exchange::{Answer, FetchError, Request, exchange, parse_url},
    permit::Permits,
};
use crate::action::{ActionSchema, Context, Port, RegisterError, Registry, SchemaError, handler};
use crate::wire::chunk::{Kind, OCTETS, essence};
use crate::wire::chunk_limits::MAX_MEDIA_TYPE_LEN;
use crate::wire::{Chunk, Reason, Status};

/// The action's name.
pub const NAME: &str = "http_fetch";
/// How large a body may be unless configured, in bytes.
pub const DEFAULT_MAX_BYTES: usize = 1024 * 1024;
/// How long all of it may take unless configured.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// How many headers a call may send.
const MAX_REQUEST_HEADERS: usize = 64;

/// How `http_fetch` works.
#[derive(Debug, Clone)]
pub struct FetchOptions {
    /// What may be reached beside public addresses; nothing by default.
    pub permits: Permits,
    /// How large a body may be after decompression, in bytes; 1 MiB by default.
    pub max_bytes: usize,
    /// How long a call may take with all its redirects; 30 s by default.
    pub timeout: Duration,
    /// Certificate authorities to trust beside the system's, which are Mozilla's
    /// where the system has none.
    pub extra_roots: Vec<CertificateDer<'static>>,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            permits: Permits::default(),
            max_bytes: DEFAULT_MAX_BYTES,
            timeout: DEFAULT_TIMEOUT,
            extra_roots: vec![],
        }
    }
}

/// Registers the action.
///
/// # Errors
/// Where its name is taken.
pub fn register(registry: &Registry, options: FetchOptions) -> Result<(), RegisterError> {
    let fetcher = Arc::new(Fetcher { options, tls: OnceLock::new() });
    let run = handler(move |context: Context| {
        let fetcher = fetcher.clone();
        async move { fetcher.run(&context).await }
    });
    registry.register(schema(), run)
}

fn schema() -> Result<ActionSchema, SchemaError> {
    let methods =
        r#"{"type":"string","enum":["GET","HEAD","POST","PUT","PATCH","DELETE"],"default":"GET"}"#;
    ActionSchema::builder(NAME)
        .describe(
            "Fetches a URL from the public internet over http or https, following redirects. \
             The HTTP status, also of an error, is in `status`.",
        )
        .input(Port::text("url").required().describe("The URL, http or https."))
        .input(Port::text("method").schema(methods).describe("The HTTP method."))
        .input(
            Port::json("headers")
                .schema(r#"{"type":"object","additionalProperties":{"type":"string"}}"#)
                .describe("Request headers. Only some are sent on to another origin."),
        )
        .input(Port::text("body").describe("The request's body."))
        .output(
            Port::json("status")
                .required()
                .schema(r#"{"type":"integer"}"#)
                .describe("The HTTP status, such as 200 or 404."),
        )
        .output(
            Port::json("headers")
                .required()
                .schema(r#"{"type":"object","additionalProperties":{"type":"string"}}"#)
                .describe("The response's headers, names in lower case."),
        )
        .output(Port::text("body").describe("The body, where it is text or JSON."))
        .output(Port::of("image", "image/*").describe("The body, where it is a picture."))
        .output(Port::of("content", OCTETS).describe("The body, where it is anything else."))
        .build()
}

struct Fetcher {
    options: FetchOptions,
    /// Made when first needed: reading the system's certificates takes a while.
    tls: OnceLock<Result<ClientConfig, rustls::Error>>,
}

impl Fetcher {
    async fn run(&self, context: &Context) -> Result<(), Status> {
        let url = parse_url(&context.read::<String>("url").await?)?;
        let method = match context.read_optional::<String>("method").await? {
            None => Method::GET,
            Some(name) => Method::from_bytes(name.as_bytes())
                .map_err(|error| unfit("method", &error.to_string()))?,
        };
        let headers = context.read_optional("headers").await?.unwrap_or_default();
        let request = Request {
            url,
            headers: request_headers(headers)?,
            body: context.read_chunk("body").await?.map(|chunk| chunk.data().clone()),
            method: method.clone(),
        };
        let tls = self.tls.get_or_init(|| tls_config(&self.options.extra_roots));
        let tls = tls.as_ref().map_err(|error| FetchError::from(error.clone()))?;
        let note = |text| context.log_internal(text);
        let answer = timeout(self.options.timeout, exchange(&self.options, tls, request, note));
        let answer = answer.await.map_err(|_| {
            let limit = self.options.timeout;
            Status::of(Reason::Deadline, format!("there was no whole answer within {limit:?}"))
        })??;
        context.log(narration(&method, &answer));
        write_answer(context, answer, &method).await
    }
}

/// A TLS configuration with its own crypto provider, so that none need be
/// installed for the whole program.
fn tls_config(extra: &[CertificateDer<'static>]) -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    for root in extra {
        roots.add(root.clone())?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn unfit(input: &str, fault: &str) -> Status {
    Status::of(Reason::InvalidInput, format!("input {input:?}: {fault}"))
}

/// The headers that a call sends, without those that say where the request goes
/// or how it travels.
fn request_headers(given: BTreeMap<String, String>) -> Result<HeaderMap, Status> {
    const TRANSPORT: [HeaderName; 10] = [
        header::HOST,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::ACCEPT_ENCODING,
        header::TE,
        header::TRAILER,
        header::UPGRADE,
        header::EXPECT,
        HeaderName::from_static("keep-alive"),
    ];
    if given.len() > MAX_REQUEST_HEADERS {
        return Err(unfit("headers", &format!("there are more than {MAX_REQUEST_HEADERS}")));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let parsed: HeaderName =
            name.parse().map_err(|_| unfit("headers", &format!("{name:?} is no header name")))?;
        if TRANSPORT.contains(&parsed) || parsed.as_str().starts_with("proxy-") {
            return Err(unfit("headers", &format!("{parsed} is not a caller's to set")));
        }
        let value = HeaderValue::from_str(&value)
            .map_err(|_| unfit("headers", &format!("{parsed} has no valid value")))?;
        headers.append(parsed, value);
    }
    Ok(headers)
}

/// `GET https://example.com/x → 200, 12.3 kB`: without the query, which may hold
/// keys.
fn narration(method: &Method, answer: &Answer) -> String {
    let Answer { url, status, body, .. } = answer;
    let size = match body.len() {
        bytes @ 0..1000 => format!("{bytes} bytes"),
        bytes @ 1000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        bytes => format!("{:.1} MB", bytes as f64 / 1e6),
    };
    let origin = url.origin().ascii_serialization();
    format!("{method} {origin}{} → {}, {size}\n", url.path(), status.as_u16())
}

async fn write_answer(context: &Context, answer: Answer, method: &Method) -> Result<(), Status> {
    let Answer { status, headers, body, .. } = answer;
    context.write("status", &status.as_u16()).await?;
    let mut shown: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in &headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        shown
            .entry(name.as_str())
            .and_modify(|all| *all = format!("{all}, {value}"))
            .or_insert_with(|| value.to_string());
    }
    context.write("headers", &shown).await?;
    if *method == Method::HEAD {
        return Ok(());
    }
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    match Body::of(media_type.unwrap_or_default(), body) {
        Body::Text(text) => context.write("body", &text).await,
        Body::Image(chunk) => context.write_chunk("image", chunk).await,
        Body::Other(chunk) if chunk.data().is_empty() => Ok(()),
        Body::Other(chunk) => context.write_chunk("content", chunk).await,
    }
}

/// A body, by the port it goes to.
#[derive(Debug, PartialEq)]
enum Body {
    Text(String),
    Image(Chunk),
    Other(Chunk),
}

impl Body {
    fn of(media_type: &str, body: Bytes) -> Self {
        let kind = essence(media_type);
        if media_type.is_empty() {
            return match std::str::from_utf8(&body) {
                Ok(text) => Self::Text(text.to_owned()),
                Err(_) => Self::Other(Chunk::new(OCTETS, body)),
            };
        }
        if is_textual(&kind) {
            // What has another charset is handed over as it came.
            return match decode(media_type, &body) {
                Some(text) => Self::Text(text),
                None => Self::Other(Chunk::new(OCTETS, body)),
            };
        }
        // What a server says can be of any length, a chunk's media type cannot.
        if kind.len() > MAX_MEDIA_TYPE_LEN {
            return Self::Other(Chunk::new(OCTETS, body));
        }
        match Kind::of(media_type) {
            Kind::Image => Self::Image(Chunk::new(kind, body)),
            _ => Self::Other(Chunk::new(kind, body)),
        }
    }
}

fn is_textual(kind: &str) -> bool {
    let textual = [
        "application/xml",
        "application/javascript",
        "application/ecmascript",
        "application/x-javascript",
        "application/x-www-form-urlencoded",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/x-ndjson",
        "application/jsonl",
        "application/graphql",
        "application/sql",
    ];
    matches!(Kind::of(kind), Kind::Text | Kind::Json)
        || textual.contains(&kind)
        || kind.ends_with("+xml") && !kind.starts_with("image/")
        || kind.ends_with("+yaml")
}

/// A text of a charset that takes no table: UTF-8, ASCII or Latin-1. Bytes that
/// are not UTF-8 there become U+FFFD.
fn decode(media_type: &str, body: &[u8]) -> Option<String> {
    let charset = media_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches('"').to_ascii_lowercase();
        name.trim().eq_ignore_ascii_case("charset").then_some(Cow::Owned(value))
    });
    match charset.unwrap_or(Cow::Borrowed("utf-8")).as_ref() {
        "utf-8" | "utf8" | "us-ascii" | "ascii" => {
            let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
            Some(String::from_utf8_lossy(body).into_owned())
        }
        "iso-8859-1" | "latin1" => Some(body.iter().copied().map(char::from).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_goes_to_the_port_of_its_kind() {
        let check = |media_type: &str, body: &'static [u8], expected: Body| {
            assert_eq!(Body::of(media_type, Bytes::from_static(body)), expected, "{media_type}");
        };
        let text = |text: &str| Body::Text(text.to_owned());
        check("text/html; charset=UTF-8", "é".as_bytes(), text("é"));
        check("text/plain;charset=\"iso-8859-1\"", b"\xe9", text("é"));
        check("text/plain", b"\xe9", text("\u{fffd}"));
        check("application/problem+json", b"{}", text("{}"));
        check("application/atom+xml", b"<a/>", text("<a/>"));
        check("", b"plain", text("plain"));
        let other = |kind: &str, body: &'static [u8]| Body::Other(Chunk::new(kind, body));
        check("", b"\xff", other(OCTETS, b"\xff"));
        check("text/plain; charset=shift_jis", b"\x83", other(OCTETS, b"\x83"));
        check("application/pdf", b"%PDF", other("application/pdf", b"%PDF"));
        check(&format!("a/{}", "b".repeat(254)), b"x", other(OCTETS, b"x"));
        check("Image/PNG; x=y", b"png", Body::Image(Chunk::new("image/png", "png")));
        check("image/svg+xml", b"<svg/>", Body::Image(Chunk::new("image/svg+xml", "<svg/>")));
    }
}

//! `http_fetch` against real servers on this machine: what may be reached, by
//! which name, on which hop, and how much of it.

mod builtin;

use std::{io::Write as _, net::SocketAddr, path::Path, sync::Arc};

use a11_grpc::{
    action::Registry,
    builtin::FetchOptions,
    config::{Config, register},
    wire::Code,
};
use builtin::call;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
};

/// A registry with `http_fetch` that may reach `permits` beside the internet.
fn registry_with(permits: &[String], change: impl FnOnce(&mut FetchOptions)) -> Arc<Registry> {
    let mut options = FetchOptions {
        permits: permits.iter().map(|permit| permit.parse().expect("a permit")).collect(),
        ..FetchOptions::default()
    };
    change(&mut options);
    let registry = Arc::new(Registry::new());
    let config = Config { http_fetch: Some(options), ..Config::default() };
    assert!(register(&registry, config).is_empty());
    registry
}

async fn fetch(registry: &Arc<Registry>, url: impl Into<String>) -> builtin::Outcome {
    call(registry, "http_fetch", json!({ "url": url.into() })).await
}

/// Serves each connection one answer, made of the request's head.
async fn serve<F>(answer: F) -> SocketAddr
where
    F: Fn(String) -> Vec<u8> + Clone + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_one(stream, answer.clone()));
        }
    });
    address
}

async fn serve_one<S, F>(mut stream: S, answer: F)
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Fn(String) -> Vec<u8>,
{
    let mut request = vec![];
    let head = loop {
        if let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    };
    let text = String::from_utf8_lossy(&request[..head]).to_ascii_lowercase();
    let length = text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    while request.len() < head + length {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let answer = answer(String::from_utf8_lossy(&request).into_owned());
    // The client may have left, which is its own affair.
    let _ = stream.write_all(&answer).await;
    let _ = stream.shutdown().await;
}

fn ok(media_type: &str, body: &[u8]) -> Vec<u8> {
    answer("200 OK", &format!("Content-Type: {media_type}\r\n"), body)
}

fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn redirect(to: impl std::fmt::Display) -> Vec<u8> {
    answer("302 Found", &format!("Location: {to}\r\n"), b"")
}

#[tokio::test]
async fn addresses_that_are_not_public_are_refused_however_they_are_written() {
    let server = serve(|_| ok("text/plain", b"secret")).await;
    let port = server.port();
    let registry = registry_with(&[], |_| ());
    let check = async |host: &str, class: &str| {
        let outcome = fetch(&registry, format!("http://{host}:{port}/")).await;
        assert_eq!(outcome.status.code, Code::PermissionDenied, "{host}: {}", outcome.status);
        assert!(outcome.status.message.contains(class), "{host}: {}", outcome.status);
    };
    check("127.0.0.1", "loopback").await;
    check("127.1", "loopback").await;
    check("2130706433", "loopback").await;
    check("0177.0.0.1", "loopback").await;
    check("0x7f000001", "loopback").await;
    check("0x7f.0.0.0x1", "loopback").await;
    check("127.0.0.1.", "loopback").await;
    check("%31%32%37.0.0.1", "loopback").await;
    check("１２７.0.0.1", "loopback").await;
    check("localhost", "loopback").await;
    check("LOCALHOST", "loopback").await;
    check("0.0.0.0", "unspecified").await;
    check("0", "unspecified").await;
    check("10.0.0.1", "private").await;
    check("172.16.0.1", "private").await;
    check("192.168.1.1", "private").await;
    check("169.254.169.254", "link-local").await;
    check("100.64.0.1", "carrier-grade NAT").await;
    check("224.0.0.1", "multicast").await;
    check("255.255.255.255", "broadcast").await;
    check("[::1]", "loopback").await;
    check("[::]", "unspecified").await;
    check("[::ffff:127.0.0.1]", "IPv4-in-IPv6").await;
    check("[::ffff:7f00:1]", "IPv4-in-IPv6").await;
    check("[::127.0.0.1]", "IPv4-in-IPv6").await;
    check("[64:ff9b::127.0.0.1]", "translated").await;
    check("[2002:7f00:1::]", "translated").await;
    check("[fe80::1]", "link-local").await;
    check("[fd00::1]", "unique local").await;
    check("[fec0::1]", "site-local").await;
    check("[ff02::1]", "multicast").await;
}

#[tokio::test]
async fn a_redirect_to_such_an_address_is_refused_on_every_hop() {
    let secret = serve(|_| ok("text/plain", b"secret")).await;
    let check = async |target: String| {
        let second = serve(move |_| redirect(&target)).await;
        let first = serve(move |_| redirect(format!("http://{second}/next"))).await;
        // Both hops are permitted, what they lead to is not.
        let registry = registry_with(&[first.to_string(), second.to_string()], |_| ());
        let outcome = fetch(&registry, format!("http://{first}/")).await;
        outcome.failed(Code::PermissionDenied, "address, which is not fetched from");
    };
    let port = secret.port();
    check(format!("http://127.0.0.1:{port}/")).await;
    check(format!("http://localhost:{port}/")).await;
    check(format!("http://2130706433:{port}/")).await;
    check(format!("http://[::ffff:127.0.0.1]:{port}/")).await;
    check(format!("//127.1:{port}/")).await;
    check("http://169.254.169.254/latest/meta-data/".to_owned()).await;
}

#[tokio::test]
async fn a_permit_is_for_its_host_and_port_alone() {
    let one = serve(|_| ok("text/plain", b"one")).await;
    let other = serve(|_| ok("text/plain", b"other")).await;
    let by_name = registry_with(&[format!("localhost:{}", one.port())], |_| ());
    let outcome = fetch(&by_name, format!("http://localhost:{}/", one.port())).await;
    assert_eq!(outcome.value("body"), "one");
    let denied = fetch(&by_name, format!("http://localhost:{}/", other.port())).await;
    denied.failed(Code::PermissionDenied, "loopback");
    fetch(&by_name, format!("http://{one}/")).await.failed(Code::PermissionDenied, "loopback");
    let by_network = registry_with(&["127.0.0.0/8".to_owned()], |_| ());
    assert_eq!(fetch(&by_network, format!("http://{other}/")).await.value("body"), "other");
}

#[tokio::test]
async fn only_http_urls_without_userinfo_are_fetched() {
    let registry = registry_with(&[], |_| ());
    let check = async |url: &str, expected: &str| {
        let outcome = fetch(&registry, url).await;
        outcome.failed(Code::InvalidArgument, expected);
        assert!(!outcome.status.message.contains("hunter2"));
    };
    check("file:///etc/passwd", "\"file\" is not a scheme").await;
    check("ftp://example.com/", "\"ftp\" is not a scheme").await;
    check("data:text/plain,x", "\"data\" is not a scheme").await;
    check("example.com", "is not a URL").await;
    check("http://", "is not a URL").await;
    check("http://user:hunter2@example.com/", "user name or a password").await;
    let to_file = serve(|_| redirect("file:///etc/passwd")).await;
    let registry = registry_with(&[to_file.to_string()], |_| ());
    let outcome = fetch(&registry, format!("http://{to_file}/")).await;
    outcome.failed(Code::InvalidArgument, "\"file\" is not a scheme");
}

#[tokio::test]
async fn an_answer_is_handed_over_whatever_its_status() {
    let server = serve(|request| {
        let said = request.lines().next().unwrap_or_default().to_owned();
        let body = request.rsplit("\r\n").next().unwrap_or_default().to_owned();
        let key = request.to_ascii_lowercase().contains("x-key: k");
        answer("418 Teapot", "X-Two: a\r\nX-Two: b\r\n", format!("{said} {body} {key}").as_bytes())
    })
    .await;
    let registry = registry_with(&[server.to_string()], |_| ());
    let arguments = json!({
        "url": format!("http://{server}/path?token=hunter2"), "method": "PUT", "body": "hello",
        "headers": {"X-Key": "k"},
    });
    let outcome = call(&registry, "http_fetch", arguments).await;
    assert_eq!(outcome.value("status"), 418);
    assert_eq!(outcome.value("headers")["x-two"], "a, b");
    assert_eq!(outcome.value("body"), "PUT /path?token=hunter2 HTTP/1.1 hello true");
    assert_eq!(outcome.log, format!("PUT http://{server}/path → 418, 43 bytes\n"));
}

#[tokio::test]
async fn pictures_and_other_bytes_have_their_own_ports() {
    let server = serve(|request| match request.contains("/picture") {
        true => ok("image/png", b"\x89PNG"),
        false => ok("application/pdf", b"%PDF-"),
    })
    .await;
    let registry = registry_with(&[server.to_string()], |_| ());
    let picture = fetch(&registry, format!("http://{server}/picture")).await;
    assert_eq!(picture.outputs["image"][0].media_type(), "image/png");
    assert_eq!(picture.outputs["image"][0].data().as_ref(), b"\x89PNG");
    assert!(!picture.outputs.contains_key("body") && !picture.outputs.contains_key("content"));
    let document = fetch(&registry, format!("http://{server}/document")).await;
    assert_eq!(document.outputs["content"][0].media_type(), "application/pdf");
}

#[tokio::test]
async fn headers_that_are_not_a_callers_are_refused() {
    let registry = registry_with(&[], |_| ());
    let check = async |headers: Value, expected: &str| {
        let arguments = json!({"url": "http://127.0.0.1/", "headers": headers});
        call(&registry, "http_fetch", arguments).await.failed(Code::InvalidArgument, expected);
    };
    check(json!({"Host": "internal"}), "host is not a caller's").await;
    check(json!({"Proxy-Authorization": "x"}), "proxy-authorization is not").await;
    check(json!({"a b": "x"}), "no header name").await;
    check(json!({"X": "a\r\nHost: b"}), "no valid value").await;
}

#[tokio::test]
async fn secrets_stay_with_the_origin_they_were_for() {
    let echo = |request: String| ok("text/plain", request.to_ascii_lowercase().as_bytes());
    let other = serve(echo).await;
    let first = serve(move |request| match request.contains("/far") {
        true => redirect(format!("http://{other}/")),
        false if request.contains("/near") => redirect("/end"),
        false => echo(request),
    })
    .await;
    let registry = registry_with(&["127.0.0.1".to_owned()], |_| ());
    let body = async |path: &str| {
        let headers = json!({"Authorization": "a", "Cookie": "c", "X-Api-Key": "k", "Accept": "t"});
        let arguments = json!({"url": format!("http://{first}{path}"), "headers": headers});
        call(&registry, "http_fetch", arguments).await.value("body").to_string()
    };
    let near = body("/near").await;
    assert!(["authorization: a", "cookie: c", "x-api-key: k"].iter().all(|h| near.contains(h)));
    let far = body("/far").await;
    assert!(far.contains("accept: t"), "{far}");
    assert!(!["authorization", "cookie", "x-api-key"].iter().any(|h| far.contains(h)), "{far}");
}

#[tokio::test]
async fn redirects_end_and_a_post_becomes_a_get() {
    let forever = serve(|_| redirect("/again")).await;
    let registry = registry_with(&[forever.to_string()], |_| ());
    let outcome = fetch(&registry, format!("http://{forever}/")).await;
    outcome.failed(Code::FailedPrecondition, "more than 10 redirects");
    let form = serve(|request| match request.starts_with("POST /start") {
        true => answer("303 See Other", "Location: /done\r\n", b""),
        false => ok("text/plain", request.lines().next().unwrap_or_default().as_bytes()),
    })
    .await;
    let registry = registry_with(&[form.to_string()], |_| ());
    let arguments = json!({"url": format!("http://{form}/start"), "method": "POST", "body": "x"});
    let outcome = call(&registry, "http_fetch", arguments).await;
    assert_eq!(outcome.value("body"), "GET /done HTTP/1.1");
}

#[tokio::test]
async fn a_body_has_a_limit_before_and_after_decompression() {
    let bomb = {
        let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::best());
        let zeros = vec![0; 1024 * 1024];
        for _ in 0..32 {
            encoder.write_all(&zeros).expect("compressed");
        }
        encoder.finish().expect("compressed")
    };
    assert!(bomb.len() < 64 * 1024);
    let server = serve(move |request| match request.contains("/bomb") {
        true => answer("200 OK", "Content-Encoding: gzip\r\n", &bomb),
        false if request.contains("/chunked") => {
            let chunk = format!("1000\r\n{}\r\n", "x".repeat(4096)).repeat(300);
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}0\r\n\r\n").into()
        }
        false if request.contains("/most") => ok("text/plain", &vec![b'x'; 1024 * 1024]),
        false => ok("text/plain", &vec![b'x'; 1024 * 1024 + 1]),
    })
    .await;
    let registry = registry_with(&[server.to_string()], |_| ());
    let check = async |path: &str| {
        let outcome = fetch(&registry, format!("http://{server}{path}")).await;
        outcome.failed(Code::ResourceExhausted, "larger than 1048576 bytes");
    };
    check("/large").await;
    check("/chunked").await;
    check("/bomb").await;
    let most = fetch(&registry, format!("http://{server}/most")).await;
    assert_eq!(most.value("body").as_str().map(str::len), Some(1024 * 1024));
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_waited_for_only_so_long() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = listener.local_addr().expect("an address");
    let registry = registry_with(&[server.to_string()], |options| {
        options.timeout = std::time::Duration::from_millis(100);
    });
    let outcome = fetch(&registry, format!("http://{server}/")).await;
    outcome.failed(Code::DeadlineExceeded, "no whole answer within 100ms");
    drop(listener);
    let patient = registry_with(&[server.to_string()], |_| ());
    let outcome = fetch(&patient, format!("http://{server}/")).await;
    outcome.failed(Code::Unavailable, "127.0.0.1");
}

#[tokio::test]
async fn a_name_that_is_not_found_is_unavailable() {
    let registry = registry_with(&[], |_| ());
    let outcome = fetch(&registry, "http://no-such-host.invalid/").await;
    outcome.failed(Code::Unavailable, "no-such-host.invalid");
}

#[tokio::test]
async fn tls_is_checked_against_the_roots() {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("made");
    let root = made.cert.der().clone();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![root.clone()], key.expect("a key"))
        .expect("a certificate");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                serve_one(stream, |_| ok("text/plain", b"over tls")).await;
            }
        }
    });
    let permits = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let trusting = registry_with(&permits, |options| options.extra_roots = vec![root]);
    let outcome = fetch(&trusting, format!("https://localhost:{port}/")).await;
    assert_eq!(outcome.value("body"), "over tls");
    // The certificate is for another name, or from nobody known.
    let outcome = fetch(&trusting, format!("https://127.0.0.1:{port}/")).await;
    outcome.failed(Code::Unavailable, "certificate");
    let wary = registry_with(&permits, |_| ());
    let outcome = fetch(&wary, format!("https://localhost:{port}/")).await;
    outcome.failed(Code::Unavailable, "certificate");
}

#[test]
fn options_come_from_the_config() {
    let text = "[builtin.http_fetch]\nallow_private = ['10.0.0.0/8', 'localhost:1']\n\
                max_bytes = 5\ntimeout = '2s'";
    let config = Config::parse(text, Path::new("x"), Path::new("/")).expect("a config");
    let options = config.http_fetch.expect("on");
    assert_eq!((options.max_bytes, options.timeout.as_secs()), (5, 2));
    assert!(options.permits.check("x", ([10, 1, 1, 1], 80).into()).is_ok());
    assert!(options.permits.check("x", ([127, 0, 0, 1], 80).into()).is_err());
}

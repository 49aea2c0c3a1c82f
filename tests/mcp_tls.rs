//! MCP over HTTP with the certificate of the service: clients of other makers
//! and our own, by HTTP/2 and HTTP/1.1.

#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/program.rs"]
mod program;
#[path = "support/turns.rs"]
mod turns;

use std::time::Duration;

use a11_grpc::{
    client::{actions, connect},
    wire::{Code, Status, pb},
};
use http::{StatusCode, Version};
use program::Serving;
use reqwest::{Certificate, Client, ClientBuilder};
use rmcp::{
    ServiceExt as _,
    transport::{
        StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::Child,
    time::timeout,
};
use turns::{asked, execute, turn};

const PATIENCE: Duration = Duration::from_secs(20);

/// The program with a certificate of its own for `localhost`.
struct Served {
    _child: Child,
    _actions: tempfile::NamedTempFile,
    /// Where MCP is, as the program said it.
    url: String,
    port: u16,
    certificate: Certificate,
    roots: tempfile::NamedTempFile,
}

async fn serve() -> Served {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let roots = tempfile::NamedTempFile::new().unwrap();
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(roots.path(), cert.pem()).unwrap();
    std::fs::write(key.path(), signing_key.serialize_pem()).unwrap();
    let (cert_file, key_file) = (roots.path().to_str().unwrap(), key.path().to_str().unwrap());
    let tls = ["--tls-cert", cert_file, "--tls-key", key_file];
    let actions = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    std::fs::write(actions.path(), "[actions.shout]\ncommand = ['echo', 'loud']\n").unwrap();
    let config = ["--config", actions.path().to_str().unwrap()];
    let Serving { child, mcp: url, .. } =
        program::serving(&[&tls[..], &config].concat(), &[]).await;
    let port = url.rsplit_once(':').unwrap().1.strip_suffix("/mcp").unwrap().parse().unwrap();
    let certificate = Certificate::from_pem(cert.pem().as_bytes()).unwrap();
    Served { _child: child, _actions: actions, url, port, certificate, roots }
}

impl Served {
    fn client(&self) -> ClientBuilder {
        Client::builder().tls_certs_only([self.certificate.clone()])
    }
}

#[tokio::test]
async fn tools_are_listed_over_tls_by_whoever_trusts_the_certificate() {
    let served = serve().await;
    assert!(served.url.starts_with("https://127.0.0.1:"), "{}", served.url);
    let url = format!("https://localhost:{}/mcp", served.port);

    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    let transport =
        StreamableHttpClientTransport::with_client(served.client().build().unwrap(), config);
    let client = timeout(PATIENCE, ().serve(transport)).await.unwrap().unwrap();
    let tools = timeout(PATIENCE, client.list_all_tools()).await.unwrap().unwrap();
    assert_eq!(tools.len(), 2);

    let config = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    std::fs::write(config.path(), format!("[mcp_servers.far]\nurl = '{url}'\n")).unwrap();
    let listed = program::command(&["actions", "--config", config.path().to_str().unwrap()])
        .env("SSL_CERT_FILE", served.roots.path())
        .output();
    let listed = timeout(PATIENCE, listed).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success() && !said.contains("is away"), "{said}");
    // Nobody on the web vouches for it.
    let refused = Client::new().get(&url).send();
    assert!(timeout(PATIENCE, refused).await.unwrap().is_err());
}

#[tokio::test]
async fn a_peer_over_tls_is_called_where_its_authority_is_trusted() {
    let far = serve().await;
    let address = format!("mcp+https://localhost:{}/mcp", far.port);
    let roots = far.roots.path().to_str().unwrap();
    let check = async |variables: &[(&str, &str)], expected: Code| {
        let near = program::serving(&["--mcp-peer", &address], variables).await;
        let mut turn = turn([asked("c1", "shout", &[])]);
        let config =
            pb::ActionConfig { peer: Some(address.parse().unwrap()), header_autofills: [].into() };
        turn.action_configs.insert("shout".to_owned(), config);
        let mut client = actions(connect(&near.address).await.unwrap());
        let round = client.execute_actions_from_interaction(execute(turn));
        let response = timeout(PATIENCE, round).await.unwrap().unwrap().into_inner();
        let status = Status::from(response.results[0].status.clone().unwrap_or_default());
        assert_eq!(status.code, expected, "{status}");
        let outputs = &response.interaction.unwrap().action_outputs["c1"].fragments;
        let texts = outputs.iter().filter_map(|fragment| fragment.chunk());
        let text: Vec<u8> = texts.flat_map(|chunk| chunk.data().to_vec()).collect();
        assert_eq!(text == b"loud", expected == Code::Ok, "{text:?}");
    };
    check(&[("SSL_CERT_FILE", roots)], Code::Ok).await;
    check(&[], Code::Unavailable).await;
}

#[tokio::test]
async fn who_may_call_is_the_same_over_either_version_of_http() {
    let served = serve().await;
    let url = format!("https://localhost:{}", served.port);
    let check = async |client: &Client, path: &str, name, value, expected, version| {
        let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}});
        let request = client
            .post(format!("{url}{path}"))
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header(name, value)
            .body(initialize.to_string());
        let response = timeout(PATIENCE, request.send()).await.unwrap().unwrap();
        let got = (response.status(), response.version());
        assert_eq!(got, (expected, version), "{path} {name}: {value}");
    };
    let clients = [
        (served.client().http1_only(), Version::HTTP_11),
        (served.client().http2_prior_knowledge(), Version::HTTP_2),
    ];
    for (client, version) in clients {
        let client = client.build().unwrap();
        check(&client, "/mcp", "x-some", "value", StatusCode::OK, version).await;
        check(&client, "/else", "x-some", "value", StatusCode::NOT_FOUND, version).await;
        let evil = "https://evil.example";
        check(&client, "/mcp", "origin", evil, StatusCode::FORBIDDEN, version).await;
    }
}

#[tokio::test]
async fn a_request_in_the_clear_gets_no_answer() {
    let served = serve().await;
    let mut connection = TcpStream::connect(("127.0.0.1", served.port)).await.unwrap();
    connection.write_all(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // A reset is as good as an end.
    let _ = timeout(PATIENCE, connection.read_to_end(&mut answer)).await.unwrap();
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
}

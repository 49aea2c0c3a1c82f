//! A PostgreSQL server that is reached through TLS. The one of the tests speaks
//! none: a front terminates it.

use std::{fs, path::PathBuf, sync::Arc};

use a11_grpc::interaction::store::open;
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream, UnixStream},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    postgres::Server,
    turns::{append, ids, turn},
};

/// What a client that wants TLS begins with.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Takes connections with TLS, and no others, for the server behind a socket.
async fn front(listener: TcpListener, acceptor: TlsAcceptor, socket: PathBuf) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, socket) = (acceptor.clone(), socket.clone());
        tokio::spawn(async move { pass_on(stream, acceptor, socket).await.ok() });
    }
}

async fn pass_on(
    mut stream: TcpStream,
    acceptor: TlsAcceptor,
    socket: PathBuf,
) -> std::io::Result<()> {
    let mut begin = [0; 8];
    stream.read_exact(&mut begin).await?;
    if begin != SSL_REQUEST {
        return Ok(());
    }
    stream.write_all(b"S").await?;
    let mut stream = acceptor.accept(stream).await?;
    let mut server = UnixStream::connect(socket).await?;
    copy_bidirectional(&mut stream, &mut server).await?;
    Ok(())
}

#[tokio::test]
async fn a_server_is_reached_through_tls_if_its_certificate_is_trusted() {
    let Some(server) = Server::start() else { return };
    let Some(socket) = server.socket() else { return };
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root.pem");
    fs::write(&root, made.cert.pem()).expect("written");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("has versions")
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(made.cert)], key)
        .expect("a certificate");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(front(listener, TlsAcceptor::from(Arc::new(config)), socket));
    let own = server.fresh_url("tls").await;
    let (_, search_path) = own.rsplit_once('?').expect("it names the schema");
    let root = root.display();
    let url = |host: &str, parameters: &str| {
        format!("postgres://postgres@{host}:{port}/postgres?{search_path}&{parameters}")
    };

    for mode in ["", "&sslmode=require", "&sslmode=verify-full"] {
        let url = url("localhost", &format!("sslrootcert={root}{mode}"));
        let store = open(&url).await.expect("trusted");
        append(&store, "c", &turn("a", "")).await.expect("appended");
        assert_eq!(ids(&store, "c").await, ["a"]);
    }
    let refused = async |host: &str, parameters: &str| {
        let error = open(&url(host, parameters)).await.err().expect("refused");
        error.to_string()
    };
    // Nobody vouches for it; nor where TLS is only preferred; nor for the name.
    for (host, parameters) in [
        ("localhost", "sslmode=require".to_owned()),
        ("localhost", "sslmode=prefer".to_owned()),
        ("127.0.0.1", format!("sslrootcert={root}")),
    ] {
        let said = refused(host, &parameters).await;
        assert!(said.contains("certificate of its server is not trusted"), "{said}");
        assert!(said.contains("sslrootcert=FILE"), "{said}");
    }
    // What shows that the front takes nothing else.
    let said = refused("localhost", "sslmode=disable").await;
    assert!(!said.contains("certificate"), "{said}");
}

//! What a server proves itself with.

use std::{fmt, sync::Arc};

use rustls::{
    InconsistentKeys, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _},
};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{Accept, TlsAcceptor};

/// gRPC is HTTP/2; gRPC-Web and WebSockets may be HTTP/1.1.
const PROTOCOLS: [&str; 2] = ["h2", "http/1.1"];

/// Certificate and key of a server.
pub struct Tls {
    /// The certificate and those between it and the root, PEM.
    pub certificate: Vec<u8>,
    /// Its private key, PEM.
    pub key: Vec<u8>,
}

/// Why a certificate and key are unusable.
#[derive(Debug, Error)]
pub enum TlsError {
    /// There is no certificate, or what is there is none.
    #[error("the certificate is no PEM: {0}")]
    Certificate(pem::Error),
    /// There is no key, or what is there is none.
    #[error("the private key is no PEM: {0}")]
    Key(pem::Error),
    /// They do not belong together.
    #[error("the private key is not that of the certificate")]
    Mismatch,
    /// They cannot be served with, being of an unknown kind, say.
    #[error(transparent)]
    Pair(rustls::Error),
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => Self::Mismatch,
            error => Self::Pair(error),
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the key.
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// A certificate and key that were looked at, and are what servers may prove
/// themselves with. Cheap to clone.
#[derive(Clone)]
pub struct Identity(TlsAcceptor);

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

impl Identity {
    /// A handshake on a connection that was accepted.
    pub(super) fn accept<IO: AsyncRead + AsyncWrite + Unpin>(&self, io: IO) -> Accept<IO> {
        self.0.accept(io)
    }
}

impl Tls {
    /// Looks at certificate and key.
    ///
    /// # Errors
    /// Where one is unusable, or they do not belong together.
    pub fn identity(&self) -> Result<Identity, TlsError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<_, _>>()
            .map_err(TlsError::Certificate)?;
        if chain.is_empty() {
            return Err(TlsError::Certificate(pem::Error::NoItemsFound));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(TlsError::Key)?;
        let mut config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = PROTOCOLS.map(Into::into).into();
        Ok(Identity(TlsAcceptor::from(Arc::new(config))))
    }
}

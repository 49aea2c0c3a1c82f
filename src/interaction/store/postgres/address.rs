//! A server's URL: what the driver reads of it, and what it does not, how the
//! server's certificate is checked.

use std::{path::PathBuf, sync::Arc, time::Duration};

use percent_encoding::percent_decode_str;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{
        CertificateDer,
        pem::{self, PemObject as _},
    },
};
use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::schema::OpenError;

/// How long a connection may take to be made, unless the URL says.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What connections are made with.
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
}

impl Address {
    /// Reads a URL. Where there is TLS the server's certificate and its name are
    /// always checked, so that `verify-ca` and `verify-full` say no more than
    /// `require`. `sslrootcert` names a PEM file of the authorities that are
    /// trusted instead of the machine's own, and demands TLS unless `sslmode` says
    /// otherwise.
    pub(super) fn read(url: &str) -> Result<Self, OpenError> {
        let (place, parameters) = url.split_once('?').unwrap_or((url, ""));
        let mut rest = vec![];
        let (mut root, mut has_mode) = (None, false);
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslrootcert", file)) => {
                    let file = percent_decode_str(file).decode_utf8_lossy().into_owned();
                    root = Some(file).filter(|file| file != "system");
                }
                Some(("sslmode", mode)) => {
                    has_mode = true;
                    rest.push(match mode {
                        "verify-ca" | "verify-full" => "sslmode=require",
                        _ => parameter,
                    });
                }
                _ => rest.push(parameter),
            }
        }
        let url = match rest.as_slice() {
            [] => place.to_owned(),
            rest => format!("{place}?{}", rest.join("&")),
        };
        let mut config: Config = url.parse().map_err(OpenError::bad_url)?;
        if config.get_application_name().is_none() {
            config.application_name(env!("CARGO_PKG_NAME"));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        // A socket of this machine has no TLS.
        let is_remote = config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)));
        if root.is_some() && !has_mode && is_remote {
            config.ssl_mode(SslMode::Require);
        }
        let tls = match root {
            Some(root) => trusting(root.into())?,
            // The machine's own certificates, so that a private authority can be
            // trusted; those of the web where there are none.
            None => match MakeRustlsConnect::with_native_certs() {
                Ok((tls, _)) => tls,
                Err(_) => MakeRustlsConnect::with_webpki_roots(),
            },
        };
        Ok(Self { config, tls })
    }
}

/// Trusts the authorities in a PEM file, and no others.
fn trusting(path: PathBuf) -> Result<MakeRustlsConnect, OpenError> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(&path)
        .and_then(Iterator::collect::<Result<Vec<_>, pem::Error>>)
        .map_err(|error| OpenError::RootCertificate {
            path: path.clone(),
            fault: error.to_string(),
        })?;
    for certificate in certificates {
        roots.add(certificate).map_err(|error| OpenError::RootCertificate {
            path: path.clone(),
            fault: error.to_string(),
        })?;
    }
    if roots.is_empty() {
        let fault = "it has no certificate".to_owned();
        return Err(OpenError::RootCertificate { path, fault });
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| OpenError::RootCertificate { path, fault: error.to_string() })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_whether_there_is_tls() {
        let check = |parameters: &str, expected: SslMode| {
            let address = Address::read(&format!("postgres://me@db/conversations{parameters}"));
            let config = address.expect("readable").config;
            assert_eq!(config.get_ssl_mode(), expected, "{parameters}");
            assert_eq!(config.get_dbname(), Some("conversations"), "{parameters}");
        };
        check("", SslMode::Prefer);
        check("?sslmode=disable", SslMode::Disable);
        check("?sslmode=require", SslMode::Require);
        check("?sslmode=verify-ca&connect_timeout=3", SslMode::Require);
        check("?connect_timeout=3&sslmode=verify-full", SslMode::Require);
        check("?sslrootcert=system", SslMode::Prefer);
    }

    #[test]
    fn a_file_of_authorities_is_trusted_or_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("root + 1.pem");
        let read = |parameters: &str| {
            let path = file.display().to_string().replace(' ', "%20");
            Address::read(&format!("postgres://me@db/x?sslrootcert={path}{parameters}"))
                .map(|address| address.config.get_ssl_mode())
        };
        let check_refused = |text: Option<&str>| {
            if let Some(text) = text {
                std::fs::write(&file, text).expect("written");
            }
            let refused = read("").expect_err("refused").to_string();
            assert!(refused.contains("root + 1.pem"), "{refused}");
        };
        check_refused(None);
        check_refused(Some(""));
        check_refused(Some("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"));
        check_refused(Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"));
        let authority = rcgen::generate_simple_self_signed(["db".to_owned()]).expect("made");
        std::fs::write(&file, authority.cert.pem()).expect("written");
        assert_eq!(read("").expect("trusted"), SslMode::Require);
        assert_eq!(read("&sslmode=prefer").expect("trusted"), SslMode::Prefer);
    }
}

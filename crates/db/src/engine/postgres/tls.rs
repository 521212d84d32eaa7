//! TLS to Postgres.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::url::Protection;

/// The driver's mode, and what encrypts.
pub(super) fn of(protection: Protection, root: Option<&str>) -> Result<(SslMode, Option<MakeRustlsConnect>), String> {
    let mode = match protection {
        Protection::Plain => return Ok((SslMode::Disable, None)),
        Protection::Offered => SslMode::Prefer,
        Protection::Verified => SslMode::Require,
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = match (protection, root) {
        (Protection::Offered, _) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth(),
        (_, None) => builder.with_platform_verifier().map_err(|error| error.to_string())?.with_no_client_auth(),
        (_, Some(path)) => builder.with_root_certificates(authorities(path)?).with_no_client_auth(),
    };
    Ok((mode, Some(MakeRustlsConnect::new(config))))
}

/// What to do if a connection fails because of TLS.
pub(super) fn hint(error: &tokio_postgres::Error) -> Option<&'static str> {
    if error.to_string() != "error performing TLS handshake" {
        return None;
    }
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    Some(if cause == "server does not support TLS" {
        "; turn on ssl in Postgres, or add sslmode=disable to the URL if nobody else can read the network between"
    } else {
        "; sslrootcert=FILE in the URL names a PEM file with the certificate authority to trust"
    })
}

fn authorities(path: &str) -> Result<RootCertStore, String> {
    let unreadable = |error: &dyn std::fmt::Display| format!("sslrootcert {path} cannot be read: {error}");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))? {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        roots.add(certificate).map_err(|error| unreadable(&error))?;
    }
    if roots.is_empty() {
        return Err(unreadable(&"it has no certificate"));
    }
    Ok(roots)
}

/// Accepts every certificate: on this computer, or where an operator has named `sslmode=prefer`. The alternative is a
/// connection without encryption.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

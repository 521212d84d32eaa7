use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Live;
use gatewright_http::TrustedProxies;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::addresses::{Addresses, Seat};
use crate::config::Tls;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The name of HTTP/2 in a handshake (RFC 7301).
const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// Why a certificate cannot be used. Names the setting and the file, and no part of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub(crate) struct TlsError {
    pub(crate) key: &'static str,
    pub(crate) message: String,
}

/// The certificate that new connections get. Cheap to clone; all clones change together.
#[derive(Clone)]
pub(crate) struct LiveTls(Live<Arc<ServerConfig>>);

impl LiveTls {
    pub(crate) fn new(loaded: Arc<ServerConfig>) -> Self {
        Self(Live::new(loaded))
    }

    /// Open connections keep the certificate that they have.
    pub(crate) fn replace(&self, loaded: Arc<ServerConfig>) {
        self.0.set(loaded);
    }
}

/// Reads a certificate and its key.
pub(crate) fn load(tls: &Tls) -> Result<Arc<ServerConfig>, TlsError> {
    let (of_certificate, of_key) = ("server.tls.certificate", "server.tls.key");
    let refused = |key: &'static str, file: &Path, reason: String| TlsError {
        key,
        message: format!("{}: {reason}", file.display()),
    };
    let chain = CertificateDer::pem_file_iter(&tls.certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| refused(of_certificate, &tls.certificate, reason(&error)))?;
    if chain.is_empty() {
        return Err(refused(of_certificate, &tls.certificate, "has no certificate in PEM form".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| refused(of_key, &tls.key, reason(&error)))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(of_certificate, &tls.certificate, error.to_string()))?;
    let config = config.with_no_client_auth().with_single_cert(chain, key);
    let mut config = config.map_err(|error| {
        let reason = format!("the key and the certificate {} do not fit: {error}", tls.certificate.display());
        refused(of_key, &tls.key, reason)
    })?;
    config.alpn_protocols = vec![HTTP_2.to_vec(), HTTP_1.to_vec()];
    Ok(Arc::new(config))
}

/// The parser's own messages may quote the file.
fn reason(error: &PemError) -> String {
    match error {
        PemError::Io(error) => format!("cannot be read: {error}"),
        PemError::NoItemsFound => "has nothing of this kind in PEM form".to_owned(),
        _ => "is not in PEM form".to_owned(),
    }
}

/// Handshakes in progress. A client that does not finish its own takes nothing from others: it has ten seconds, and one address has
/// a quarter of all handshakes, which are a quarter of all connections.
pub(super) struct Handshakes {
    all: Arc<Semaphore>,
    by_address: Addresses,
}

/// The place of a handshake.
pub(super) struct Turn {
    _all: OwnedSemaphorePermit,
    _by_address: Seat,
}

impl Handshakes {
    pub(super) fn new(max_connections: usize, proxies: TrustedProxies) -> Self {
        let most = (max_connections / 4).clamp(1, Semaphore::MAX_PERMITS);
        let by_address = Addresses::new(Some((most / 4).max(1)), proxies);
        Self { all: Arc::new(Semaphore::new(most)), by_address }
    }

    /// `None` if there is no place.
    pub(super) fn begin(&self, peer: IpAddr) -> Option<Turn> {
        let by_address = self.by_address.enter(peer)?;
        Some(Turn { _all: self.all.clone().try_acquire_owned().ok()?, _by_address: by_address })
    }
}

/// The connection after its handshake, and whether it is HTTP/2. `None` if the client did not finish it.
pub(super) async fn shake(tls: LiveTls, stream: TcpStream, turn: Turn) -> Option<(Box<TlsStream<TcpStream>>, bool)> {
    let accepting = TlsAcceptor::from((*tls.0.get()).clone()).accept(stream);
    let stream = match tokio::time::timeout(HANDSHAKE, accepting).await {
        Ok(Ok(stream)) => stream,
        // A scanner, or a client that does not trust the certificate.
        Ok(Err(error)) => {
            tracing::debug!(%error, "a TLS handshake failed");
            return None;
        }
        Err(_) => {
            tracing::debug!("a TLS handshake took too long");
            return None;
        }
    };
    drop(turn);
    let is_http_2 = stream.get_ref().1.alpn_protocol() == Some(HTTP_2);
    Some((Box::new(stream), is_http_2))
}

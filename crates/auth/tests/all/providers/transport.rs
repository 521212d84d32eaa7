//! Connections to providers: what they do not trust, and what they do not wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatewright_auth::providers::ProviderError;
use gatewright_auth::providers::oidc::OidcConfig;
use rcgen::{CertificateParams, KeyPair};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::{authorize, oidc};
use crate::support::{CLIENT_ID, CLIENT_SECRET};

/// Asks an issuer at this address for its discovery document.
async fn discover(scheme: &str, listener_at: std::net::SocketAddr) -> ProviderError {
    let client = gatewright_auth::providers::OAuthClient {
        id: CLIENT_ID.to_owned(),
        secret: gatewright_base::Secret::new(CLIENT_SECRET),
    };
    let (oidc, _) = oidc(OidcConfig::new("idp", format!("{scheme}://{listener_at}"), client));
    authorize(&oidc).await.unwrap_err()
}

#[tokio::test]
async fn a_provider_with_an_untrusted_certificate_is_refused() {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let handshakes = Arc::new(AtomicUsize::new(0));
    let (acceptor, begun) = (TlsAcceptor::from(Arc::new(config)), handshakes.clone());
    let server = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            begun.fetch_add(1, Ordering::SeqCst);
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let mut request = [0; 1];
                // A client that trusts us would send its request now.
                assert_eq!(stream.read(&mut request).await.unwrap_or(0), 0, "a request was sent");
            }
        }
    });
    assert_eq!(discover("https", address).await, ProviderError::Unavailable("no connection could be made"));
    assert_eq!(handshakes.load(Ordering::SeqCst), 1);
    assert!(!server.is_finished());
    server.abort();
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_does_not_answer_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            open.push(listener.accept().await.unwrap());
        }
    });
    assert_eq!(discover("http", address).await, ProviderError::Unavailable("it did not answer within 10 seconds"));
    server.abort();
}

#[tokio::test]
async fn an_endless_answer_is_not_read_completely() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // An answer before the request would be no answer.
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n").await.unwrap();
        let mut written = 0;
        while stream.write_all(&[b' '; 4096]).await.is_ok() {
            written += 4096;
        }
        written
    });
    assert_eq!(discover("http", address).await, ProviderError::Malformed("it is longer than 512 KiB"));
    // The connection was closed: only the limit and the content of buffers was sent.
    assert!(server.await.unwrap() < 64 << 20);
}

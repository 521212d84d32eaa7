//! A receiver of webhooks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::aws_lc_rs::default_provider, pki_types::PrivateKeyDer},
};

/// A receiver of webhooks. It accepts those at `/good`, and refuses those at `/bad` until told to accept them.
#[derive(Clone, Default)]
pub(crate) struct Receiver(Arc<Mutex<Received>>);

#[derive(Default)]
pub(crate) struct Received {
    /// Webhook ids by path and record.
    pub(crate) taken: BTreeMap<(String, String), BTreeSet<String>>,
    pub(crate) signed: bool,
    pub(crate) takes_bad: bool,
    /// Delays the answers at `/good`.
    pub(crate) stalls: bool,
    /// The webhook ids of the delayed ones, in the order of arrival.
    pub(crate) stalled: Vec<String>,
}

impl Receiver {
    pub(crate) async fn start() -> (Self, String) {
        let (receiver, port) = Self::listen(None).await;
        (receiver, format!("http://127.0.0.1:{port}"))
    }

    /// The same with TLS, and the certificate of the authority that signed the one of `localhost`, as PEM.
    pub(crate) async fn start_tls() -> (Self, String, String) {
        let authority_key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, authority_key).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = names.signed_by(&key, &authority).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (receiver, port) = Self::listen(Some(acceptor)).await;
        (receiver, format!("https://localhost:{port}"), authority.pem())
    }

    async fn listen(tls: Option<TlsAcceptor>) -> (Self, u16) {
        let receiver = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = receiver.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (receiver, tls) = (shared.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => receiver.serve(connection).await,
                        Some(tls) => {
                            if let Ok(connection) = tls.accept(connection).await {
                                receiver.serve(connection).await;
                            }
                        }
                    }
                });
            }
        });
        (receiver, port)
    }

    /// Answers one request after the other, until the connection ends or the request says so.
    async fn serve(&self, mut connection: impl AsyncRead + AsyncWrite + Unpin) {
        let mut buffer = Vec::new();
        loop {
            let head = loop {
                if let Some(end) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                    break end + 4;
                }
                if !matches!(connection.read_buf(&mut buffer).await, Ok(1..)) {
                    return;
                }
            };
            let text = String::from_utf8(buffer[..head].to_vec()).unwrap();
            let header = |name: &str| {
                let line = text.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")));
                line.and_then(|line| line.split_once(": ")).map(|(_, value)| value.to_owned()).unwrap_or_default()
            };
            let length: usize = header("content-length").parse().unwrap();
            while buffer.len() < head + length {
                if !matches!(connection.read_buf(&mut buffer).await, Ok(1..)) {
                    return;
                }
            }
            let body: Value = serde_json::from_slice(&buffer[head..head + length]).unwrap();
            buffer.drain(..head + length);
            let path = text.split(' ').nth(1).unwrap().to_owned();
            self.stall(&path, &header("webhook-id")).await;
            let status = self.take(&path, &header("webhook-id"), &header("webhook-signature"), &body);
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
            if connection.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    async fn stall(&self, path: &str, id: &str) {
        if path != "/good" || !self.lock().stalls {
            return;
        }
        self.lock().stalled.push(id.to_owned());
        while self.lock().stalls {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn take(&self, path: &str, id: &str, signature: &str, body: &Value) -> u16 {
        let mut received = self.lock();
        received.signed |= signature.starts_with("v1,");
        if path == "/bad" && !received.takes_bad {
            return 500;
        }
        let record = body["data"]["record"]["id"].as_str().unwrap().to_owned();
        received.taken.entry((path.to_owned(), record)).or_default().insert(id.to_owned());
        200
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Received> {
        self.0.lock().unwrap()
    }

    /// The records that were accepted at a path.
    pub(crate) fn records(&self, path: &str) -> BTreeSet<String> {
        let received = self.lock();
        received.taken.keys().filter(|(taken, _)| taken == path).map(|(_, record)| record.clone()).collect()
    }
}

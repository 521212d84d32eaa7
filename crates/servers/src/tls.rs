use std::io;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// Terminates TLS in front of a server without TLS, as long as its runtime runs.
#[derive(Debug)]
pub struct TlsProxy {
    /// The port on 127.0.0.1.
    pub port: u16,
    /// Its own authority, only for the name `localhost`, as PEM.
    pub certificate: String,
}

/// The bytes that a client sends before TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Nothing.
    Tls,
    /// It asks for encryption in the words of Postgres.
    Postgres,
}

impl TlsProxy {
    /// Starts one in front of `server` (`host:port`) on the current runtime.
    pub async fn start(server: String, opening: Opening) -> io::Result<Self> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let names = CertificateParams::new(vec!["localhost".to_owned()]).map_err(io::Error::other)?;
        let certificate = names.self_signed(&key).map_err(io::Error::other)?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .map_err(io::Error::other)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // If a client is refused or disconnects, only its own connection ends.
                tokio::spawn(pass(client, acceptor.clone(), server.clone(), opening));
            }
        });
        Ok(Self { port, certificate: certificate.pem() })
    }
}

async fn pass(mut client: TcpStream, acceptor: TlsAcceptor, server: String, opening: Opening) -> io::Result<()> {
    if opening == Opening::Postgres {
        // The request for encryption is eight bytes that mean nothing else.
        let mut request = [0; 8];
        client.read_exact(&mut request).await?;
        client.write_all(b"S").await?;
    }
    let mut client = acceptor.accept(client).await?;
    let mut upstream = TcpStream::connect(server).await?;
    copy_bidirectional(&mut client, &mut upstream).await.map(|_| ())
}

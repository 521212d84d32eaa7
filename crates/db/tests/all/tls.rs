//! A Postgres behind TLS: a small proxy in front of the test server answers the driver's request for encryption.

use std::sync::Arc;

use gatewright_db::testing::{POSTGRES, REQUIRED};
use gatewright_db::{Db, Options};
use rcgen::{CertificateParams, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// Starts the proxy and returns its port and its certificate as PEM.
async fn proxy(server: String) -> (u16, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (acceptor, server) = (acceptor.clone(), server.clone());
            tokio::spawn(async move {
                // The request for encryption is eight bytes that mean nothing else.
                let mut request = [0; 8];
                client.read_exact(&mut request).await?;
                client.write_all(b"S").await?;
                let mut client = acceptor.accept(client).await?;
                let mut upstream = TcpStream::connect(server).await?;
                copy_bidirectional(&mut client, &mut upstream).await
            });
        }
    });
    (port, certificate.pem())
}

#[tokio::test]
async fn a_server_is_trusted_by_its_authority_alone() {
    let Ok(server) = std::env::var(POSTGRES) else {
        assert!(std::env::var(REQUIRED).is_err());
        return;
    };
    let server = url::Url::parse(&server).unwrap();
    let address = format!("{}:{}", server.host_str().unwrap(), server.port().unwrap());
    let (port, pem) = proxy(address).await;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root.pem");
    std::fs::write(&root, pem).unwrap();
    let open = |host: &str, query: String| {
        let mut url = server.clone();
        url.set_host(Some(host)).unwrap();
        url.set_port(Some(port)).unwrap();
        url.set_query(Some(&query));
        async move { Db::open(url.as_str(), Options::default()).await }
    };
    let root = root.display();
    for mode in ["require", "verify-full"] {
        let db = open("localhost", format!("sslmode={mode}&sslrootcert={root}")).await.unwrap();
        db.ping().await.unwrap();
        assert!(open("localhost", format!("sslmode={mode}")).await.is_err(), "an unknown authority is refused");
        let other_name = open("127.0.0.1", format!("sslmode={mode}&sslrootcert={root}")).await;
        assert!(other_name.is_err(), "a certificate for another name is refused");
    }
    assert!(open("localhost", format!("sslmode=require&sslrootcert={root}.missing")).await.is_err());
    assert!(open("localhost", "sslmode=disable".to_owned()).await.is_err(), "the proxy speaks TLS only");
}

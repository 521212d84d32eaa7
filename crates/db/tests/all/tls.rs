//! A Postgres behind TLS, which a proxy in front of the test server ends.

use gatewright_db::testing::{POSTGRES, REQUIRED};
use gatewright_db::{Db, Options};
use gatewright_servers::{Opening, TlsProxy};

#[tokio::test]
async fn a_server_is_trusted_only_through_its_certificate_authority() {
    let Ok(server) = std::env::var(POSTGRES) else {
        assert!(std::env::var(REQUIRED).is_err());
        return;
    };
    let server = url::Url::parse(&server).unwrap();
    let address = format!("{}:{}", server.host_str().unwrap(), server.port().unwrap());
    let proxy = TlsProxy::start(address, Opening::Postgres).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root.pem");
    std::fs::write(&root, &proxy.certificate).unwrap();
    let open = |host: &str, query: String| {
        let mut url = server.clone();
        url.set_host(Some(host)).unwrap();
        url.set_port(Some(proxy.port)).unwrap();
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

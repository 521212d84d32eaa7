//! A Postgres behind TLS, which a proxy in front of the test server ends.

use gatewright_db::testing::{POSTGRES, REQUIRED};
use gatewright_db::{Db, Options};
use gatewright_servers::{Opening, TlsProxy};

/// A URL with another host, port and query.
fn changed(url: &url::Url, host: &str, port: u16, query: &str) -> String {
    let mut url = url.clone();
    url.set_host(Some(host)).unwrap();
    url.set_port(Some(port)).unwrap();
    url.set_query(Some(query).filter(|query| !query.is_empty()));
    url.to_string()
}

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
        let url = changed(&server, host, proxy.port, &query);
        async move { Db::open(&url, Options::default()).await.map_err(|error| error.to_string()) }
    };
    let root = root.display();
    for mode in ["sslmode=require&", "sslmode=verify-ca&", "sslmode=verify-full&", ""] {
        let db = open("localhost", format!("{mode}sslrootcert={root}")).await.unwrap();
        db.ping().await.unwrap();
        let other_name = open("127.0.0.1", format!("{mode}sslrootcert={root}")).await;
        assert!(other_name.is_err(), "a certificate for another name is refused");
        if !mode.is_empty() {
            let error = open("localhost", mode.trim_end_matches('&').to_owned()).await.unwrap_err();
            assert!(error.contains("sslrootcert=FILE"), "an unknown authority is refused: {error}");
        }
    }
    assert!(open("localhost", format!("sslmode=require&sslrootcert={root}.missing")).await.is_err());
    std::fs::write(folder.path().join("empty.pem"), "").unwrap();
    let empty = folder.path().join("empty.pem");
    let error = open("localhost", format!("sslrootcert={}", empty.display())).await.unwrap_err();
    assert!(error.contains("no certificate"), "{error}");
    assert!(open("localhost", "sslmode=disable".to_owned()).await.is_err(), "the proxy speaks TLS only");
    // On loopback TLS is used because it is offered: the proxy passes on nothing else.
    for query in ["", "sslmode=prefer", "hostaddr=127.0.0.1"] {
        for host in ["localhost", "127.0.0.1"] {
            open(host, query.to_owned()).await.unwrap().ping().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_server_without_tls_is_used_on_loopback_and_refused_where_tls_is_required() {
    let Ok(server) = std::env::var(POSTGRES) else {
        assert!(std::env::var(REQUIRED).is_err());
        return;
    };
    let server = url::Url::parse(&server).unwrap();
    let open = |query: &str| {
        let url = changed(&server, "127.0.0.1", server.port().unwrap(), query);
        async move { Db::open(&url, Options::default()).await.map_err(|error| error.to_string()) }
    };
    let folder = tempfile::tempdir().unwrap();
    let proxy = TlsProxy::start("127.0.0.1:1".to_owned(), Opening::Postgres).await.unwrap();
    let root = folder.path().join("root.pem");
    std::fs::write(&root, &proxy.certificate).unwrap();
    for query in ["", "sslmode=prefer", "sslmode=disable"] {
        open(query).await.unwrap().ping().await.unwrap();
    }
    for query in ["sslmode=require", "sslmode=verify-full", &format!("sslrootcert={}", root.display())] {
        let error = open(query).await.unwrap_err();
        assert!(error.contains("server does not support TLS") && error.contains("sslmode=disable"), "{query}: {error}");
    }
    for mode in ["disable", "prefer"] {
        let error = open(&format!("sslmode={mode}&sslrootcert={}", root.display())).await.unwrap_err();
        assert!(error.contains("sslrootcert has no effect"), "{error}");
    }
}

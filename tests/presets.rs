//! Providers with a preset, from outside: a page of another site that posts its answer in a real browser, and a proxy.

use std::{
    fs,
    sync::{Arc, Mutex},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use reqwest::Url;
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::aws_lc_rs::default_provider, pki_types::PrivateKeyDer},
};

use crate::harness::{Browser, Database, Launch, Scripts};

/// A private key for tests alone.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgWVgHvMA6mb0zZrEm\\n\
                   IWzNx6+WG8nKchH3X/BIbL3xA8ehRANCAAQ5fyYzq5JGSjqv8XGJYFbPk7MHGscz\\n\
                   6VLpShiVfosv8n5jeUi2gr5C8JmSKAlONe6Ta+qA8q6Cu/Z+nJSk871n\\n-----END PRIVATE KEY-----";

/// The head of a request.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.unwrap_or(0) > 0 {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

async fn answer(stream: &mut (impl AsyncWrite + Unpin), kind: &str, body: &str) {
    let length = body.len();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all((head + body).as_bytes()).await.unwrap();
    let _ = stream.shutdown().await;
}

fn metadata(issuer: &str) -> String {
    json!({
        "issuer": issuer, "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"), "jwks_uri": format!("{issuer}/keys"),
    })
    .to_string()
}

/// Apple's metadata, and its page, whose form posts that the user has cancelled. Returns its address.
async fn apple() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let issuer = format!("http://{}", listener.local_addr().unwrap());
    let own = issuer.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let head = head(&mut stream).await;
            let target = head.split(' ').nth(1).unwrap_or_default();
            let url = Url::parse(&own).unwrap().join(target).unwrap();
            if url.path() != "/authorize" {
                answer(&mut stream, "application/json", &metadata(&own)).await;
                continue;
            }
            let of = |name: &str| url.query_pairs().find(|(found, _)| found == name).unwrap().1.into_owned();
            assert_eq!(of("response_mode"), "form_post");
            let page = format!(
                "<h1>Apple</h1><form method=post action=\"{}\"><input type=hidden name=state value=\"{}\">\
                 <input type=hidden name=error value=user_cancelled_authorize><button>Cancel</button></form>",
                of("redirect_uri"),
                of("state"),
            );
            answer(&mut stream, "text/html", &page).await;
        }
    });
    issuer
}

/// Apple has an IP address, the server a host name: two sites. So the browser sends only cookies with the form that are allowed
/// when a page of another site posts here.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_brings_the_cookies_of_the_flow_with_the_form_of_another_site() {
    let Some(browser) = Browser::start(Scripts::Off).await else { return };
    let mut server = Launch::dev().start(&Database::Sqlite).await;
    let here = format!("http://{}", server.address().replace("127.0.0.1", "localhost"));
    let issuer = apple().await;
    let configuration = format!(
        "[server]\npublic_url = \"{here}\"\n[auth]\nredirect_urls = [\"{issuer}/app\"]\n[auth.oauth]\nstate_secret = \"s\"\n\
         [auth.oauth.apple]\nclient_id = \"c\"\nteam_id = \"ABCDE12345\"\nkey_id = \"ABCDE12345\"\nissuer = \"{issuer}\"\n\
         private_key = \"{KEY}\"\n"
    );
    server.kill();
    fs::write(server.folder().join("gatewright.toml"), configuration).unwrap();
    server.restart();
    browser.open(&format!("{here}/auth/oauth/apple?next=/there")).await;
    browser.sees("Apple").await;
    browser.press_and_leave("Cancel").await;
    browser.sees("there is nothing at this path").await;
    let url = browser.url().await;
    assert!(url.starts_with(&format!("{here}/there?error=user_cancelled_authorize&")), "{url}");
    assert!(!browser.cookies().await.iter().any(|name| name.contains("oauth")), "the flow's cookies are cleared");
}

/// A proxy that ends the connections to every host itself, with a certificate of its own authority.
async fn proxy() -> (String, String, Arc<Mutex<Vec<String>>>) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["gitlab.test".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let connect = head(&mut stream).await;
            seen.lock().unwrap().push(connect.lines().next().unwrap_or_default().to_owned());
            stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.unwrap();
            if let Ok(mut stream) = acceptor.accept(stream).await {
                head(&mut stream).await;
                answer(&mut stream, "application/json", &metadata("https://gitlab.test")).await;
            }
        }
    });
    (address, authority.pem(), asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn providers_are_reached_through_the_systems_proxy_with_its_certificates() {
    let (proxy, authority, asked) = proxy().await;
    let configuration = "[auth.oauth]\nstate_secret = \"s\"\n[auth.oauth.gitlab]\nclient_id = \"c\"\nclient_secret = \"s\"\n\
                         issuer = \"https://gitlab.test\"\n";
    let launch = || Launch::configured(configuration).env("HTTPS_PROXY", &proxy).env("NO_PROXY", "");
    let distrusting = launch().start(&Database::Sqlite).await;
    distrusting.client().get("/auth/oauth/gitlab").await.is(503);
    let file = distrusting.folder().join("authority.pem");
    fs::write(&file, authority).unwrap();
    let trusting = launch().env("SSL_CERT_FILE", file.to_str().unwrap()).start(&Database::Sqlite).await;
    let away = trusting.client().get("/auth/oauth/gitlab").await.is(303);
    assert!(away.header("location").starts_with("https://gitlab.test/authorize?"), "{away:?}");
    assert_eq!(*asked.lock().unwrap(), ["CONNECT gitlab.test:443 HTTP/1.1"; 2]);
}

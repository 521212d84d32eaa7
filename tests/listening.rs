//! TLS, Unix sockets and several addresses.

use std::os::unix::fs::PermissionsExt;
use std::{
    fs,
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    time::Duration,
};

use gatewright_servers::Folder;
use reqwest::{Certificate, Client, StatusCode, Version, redirect::Policy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UnixStream};

use crate::harness::{Database, Launch, Server, gatewright};
use crate::outbox::until;

const PROJECT: &str = "[auth]\njwt_secret = \"a secret for tests alone, long enough\"\nbcrypt_cost = 4\n\
    [log]\naccess = true\n[[entity]]\nname = \"posts\"\npublic = true\n[[entity.field]]\nname = \"title\"\ntype = \"string\"\nmax = 200000\n";

/// Writes a certificate for `localhost` and its key. Returns the certificate.
fn certify(folder: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    made.cert.pem()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server with this `[server]`, in its own configuration.
async fn start(server: &str) -> Server {
    Launch::alone(&format!("[server]\n{server}\n{PROJECT}")).start(&Database::Sqlite).await
}

/// A client that trusts a certificate, at an address of this computer.
fn client(certificate: &str, from: u8, port: u16) -> Client {
    Client::builder()
        .tls_certs_only([Certificate::from_pem(certificate.as_bytes()).unwrap()])
        .resolve("localhost", SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .local_address(IpAddr::from([127, 0, 0, from]))
        .redirect(Policy::none())
        .timeout(Duration::from_secs(30))
        .build()
        .unwrap()
}

fn port(server: &Server) -> u16 {
    server.address().rsplit_once(':').unwrap().1.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_certificate_speaks_both_versions_and_leads_to_them() {
    let files = Folder::create("tls").unwrap();
    let certificate = certify(files.path());
    let plain = free_port();
    let server = start(&format!(
        "listen = [\"127.0.0.1:0\", \"127.0.0.2:0\"]\npublic_url = \"https://app.example.com\"\n[server.tls]\n\
         certificate = \"{0}/cert.pem\"\nkey = \"{0}/key.pem\"\nredirect_http = \"127.0.0.1:{plain}\"",
        files.path().display()
    ))
    .await;
    let port = port(&server);
    let url = |path: &str| format!("https://localhost:{port}{path}");
    let both = client(&certificate, 1, port);
    let answer = both.get(url("/readyz")).send().await.unwrap();
    assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_2));
    let body = serde_json::json!({ "title": "x".repeat(100_000) });
    let created = both.post(url("/posts")).json(&body).send().await.unwrap();
    assert_eq!(created.status(), StatusCode::CREATED);
    let list = both.get(url("/posts")).send().await.unwrap().text().await.unwrap();
    assert!(list.len() > 100_000, "an answer of many portions arrives whole: {}", list.len());
    let mut events = both.get(url("/posts/_events")).send().await.unwrap();
    assert_eq!(events.version(), Version::HTTP_2);
    let mut heard = String::new();
    while !heard.contains("event: ready") {
        heard.push_str(std::str::from_utf8(&events.chunk().await.unwrap().unwrap()).unwrap());
    }
    // The scheme is that of the connection, so cookies are for HTTPS alone.
    let account = serde_json::json!({ "email": "ada@example.com", "password": crate::harness::PASSWORD });
    let registered = both.post(url("/auth/register")).json(&account).send().await.unwrap();
    assert_eq!(registered.status(), StatusCode::OK);
    let signed_in = both.post(url("/auth/login")).json(&account).send().await.unwrap();
    for cookie in signed_in.headers().get_all("set-cookie") {
        assert!(cookie.to_str().unwrap().contains("; Secure"), "{cookie:?}");
    }

    // HTTP/1.1 on the other address.
    let lines = server.wait_for_output(|lines| (lines.len() > 2).then(|| lines.to_vec()));
    let second = lines.iter().find_map(|line| line.strip_prefix("listening on https://127.0.0.2:")).unwrap();
    let old = Client::builder().http1_only().tls_danger_accept_invalid_certs(true).build().unwrap();
    let answer = old.get(format!("https://127.0.0.2:{second}/healthz")).send().await.unwrap();
    assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_11));

    // Plain HTTP leads to the configured address, whatever host the request names.
    let leading = Client::builder().redirect(Policy::none()).build().unwrap();
    for (path, location) in [("/a?b=c", "/a?b=c"), ("//evil.example/x", "//evil.example/x"), ("/", "/")] {
        let request = leading.get(format!("http://127.0.0.1:{plain}{path}")).header("host", "evil.example");
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::PERMANENT_REDIRECT);
        assert_eq!(answer.headers()["location"], format!("https://app.example.com{location}"));
    }
    // A plain request to the encrypted address gets no answer in plain text.
    assert!(leading.get(format!("http://127.0.0.1:{port}/healthz")).send().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_replaced_without_a_restart_and_a_broken_one_is_not_taken() {
    let files = Folder::create("tls").unwrap();
    let old = certify(files.path());
    let server = start(&format!(
        "listen = \"127.0.0.1:0\"\n[server.tls]\ncertificate = \"{0}/cert.pem\"\nkey = \"{0}/key.pem\"",
        files.path().display()
    ))
    .await;
    let port = port(&server);
    let works = async |certificate: &str| {
        let answer = client(certificate, 1, port).get(format!("https://localhost:{port}/healthz")).send().await;
        answer.is_ok_and(|answer| answer.status() == StatusCode::OK)
    };
    assert!(works(&old).await);
    let open = client(&old, 1, port);
    open.get(format!("https://localhost:{port}/healthz")).send().await.unwrap();
    let key = fs::read(files.path().join("key.pem")).unwrap();
    let reload = || tokio::task::block_in_place(|| gatewright(server.folder(), &["reload"], ""));
    let new = certify(files.path());
    fs::write(files.path().join("key.pem"), &key).unwrap();
    let refused = reload();
    assert!(refused.status == 1 && refused.err.contains("server.tls.key"), "{refused:?}");
    assert!(works(&old).await && !works(&new).await, "a key of another certificate is not taken");
    let new = certify(files.path());
    assert_eq!(reload().status, 0);
    assert!(works(&new).await && !works(&old).await);
    let kept = open.get(format!("https://localhost:{port}/healthz")).send().await.unwrap();
    assert_eq!(kept.status(), StatusCode::OK, "an open connection goes on");
}

/// A client that begins handshakes and does not finish them has few places, for a short time.
#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_do_not_end_keep_no_connection_from_others() {
    let files = Folder::create("tls").unwrap();
    let certificate = certify(files.path());
    let server = start(&format!(
        "listen = \"127.0.0.1:0\"\nmax_connections = 160\n[server.tls]\ncertificate = \"{0}/cert.pem\"\n\
         key = \"{0}/key.pem\"",
        files.path().display()
    ))
    .await;
    let port = port(&server);
    // A quarter of all connections may be in a handshake, a quarter of these from one address.
    let mut silent = Vec::new();
    for number in 0..100_u8 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        if number % 2 == 0 {
            // The beginning of a record that never ends.
            let _refused = stream.write_all(&[22, 3, 1, 2, 0, 1]).await;
        }
        silent.push(stream);
    }
    let other = client(&certificate, 2, port);
    let answer =
        tokio::time::timeout(Duration::from_secs(5), other.get(format!("https://localhost:{port}/healthz")).send());
    assert_eq!(answer.await.expect("others are served at once").unwrap().status(), StatusCode::OK);
    let mut closed = 0;
    for mut stream in silent {
        let mut byte = [0];
        let ended = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut byte)).await;
        closed += usize::from(ended.is_ok_and(|read| read.is_err() || read.is_ok_and(|length| length < 2)));
    }
    assert_eq!(closed, 100, "each is closed within its time");
    // The first address is served again.
    let answer = client(&certificate, 1, port).get(format!("https://localhost:{port}/healthz")).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    // Garbage and clients that leave at once change nothing.
    for _ in 0..50 {
        let socket = TcpSocket::new_v4().unwrap();
        let mut stream = socket.connect(SocketAddr::from(([127, 0, 0, 1], port))).await.unwrap();
        let _refused = stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    }
    // Until the server has read what they sent, the share of their address is taken.
    until("the address is served again", async || {
        let answer = client(&certificate, 1, port).get(format!("https://localhost:{port}/healthz")).send().await;
        answer.is_ok_and(|answer| answer.status() == StatusCode::OK)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unix_socket_has_one_client_or_those_of_its_proxy() {
    for (trusted, class) in [("[]", "100::/48"), ("[\"unix\"]", "203.0.113.0/24")] {
        let files = Folder::create("socket").unwrap();
        let path = files.path().join("http");
        let listen = format!("listen = [\"127.0.0.1:0\", \"unix:{}\"]\ntrusted_proxies = {trusted}", path.display());
        let mut server = start(&listen).await;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        let ask = async |id: &str| {
            let mut stream = UnixStream::connect(&path).await.unwrap();
            let request = format!(
                "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Forwarded-For: 203.0.113.9\r\n\
                 X-Request-Id: {id}\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        };
        ask("over-the-socket").await;
        let expected = format!("\"addressClass\":\"{class}\"");
        let found = || server.log().lines().any(|line| line.contains("over-the-socket") && line.contains(&expected));
        until("the request is logged with its client", async || found()).await;
        // A client over TCP cannot claim to be behind the socket.
        let port = port(&server);
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Forwarded-For: 203.0.113.9\r\nX-Request-Id: over-tcp\r\n\r\n")
            .unwrap();
        stream.read_to_string(&mut String::new()).unwrap();
        let own = || server.log().lines().any(|line| line.contains("over-tcp") && line.contains("127.0.0.0/24"));
        until("the other request is logged", async || own()).await;
        // A socket that a killed server left behind is taken over; a stop removes it.
        server.kill();
        assert!(path.exists());
        server.restart();
        ask("after-a-kill").await;
        assert_eq!(server.stop().await, Some(0));
        assert!(!path.exists());
    }
}

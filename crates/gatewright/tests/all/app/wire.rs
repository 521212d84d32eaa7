use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Server;

#[tokio::test]
async fn a_request_head_without_end_is_refused() {
    let server = Server::plain().await;
    let many = "X-Filler: x\r\n".repeat(200);
    let large = format!("X-Filler: {}\r\n", "x".repeat(100_000));
    for head in [many, large] {
        let answer = server.exchange(&format!("GET /healthz HTTP/1.1\r\nHost: test\r\n{head}\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    }
}

/// The runtime's own clock, which jumps ahead when every task waits.
#[tokio::test(start_paused = true)]
async fn a_client_that_sends_its_request_too_slowly_is_disconnected() {
    let server = Server::plain().await;
    for head in ["", "GET /healthz HTTP/1.1\r\nHost: te"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let start = tokio::time::Instant::now();
        let mut rest = Vec::new();
        let _reset = stream.read_to_end(&mut rest).await;
        let waited = start.elapsed();
        assert!((Duration::from_secs(29)..Duration::from_secs(40)).contains(&waited), "cut after {waited:?}");
    }
}

#[tokio::test]
async fn a_body_above_the_limit_is_413() {
    let routes = Router::new().route("/echo", post(async |body: String| body));
    let server = Server::start(|config| config.server.max_body_bytes = 10, routes).await;
    let post = |length: usize| {
        format!(
            "POST /echo HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{}",
            "x".repeat(length)
        )
    };
    assert!(server.exchange(&post(10)).await.starts_with("HTTP/1.1 200"));
    assert!(server.exchange(&post(11)).await.starts_with("HTTP/1.1 413"));
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_503() {
    let routes = Router::new().route("/slow", get(async || std::future::pending::<()>().await));
    let server = Server::start(|config| config.server.request_timeout = Duration::from_millis(50), routes).await;
    let answer = server.get("/slow").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after: "), "{answer}");
}

/// A client that sends its body too slowly gets an answer within the server's timeout, and its connection ends.
#[tokio::test]
async fn a_body_that_comes_too_slowly_is_408_and_the_connection_ends() {
    let routes = Router::new().route("/echo", post(async |body: String| body));
    let server = Server::start(|config| config.server.request_timeout = Duration::from_millis(300), routes).await;
    for (framing, drop) in [("Content-Length: 1000", "x"), ("Transfer-Encoding: chunked", "1\r\nx\r\n")] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = format!("POST /echo HTTP/1.1\r\nHost: test\r\n{framing}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let (mut reading, mut writing) = stream.into_split();
        let trickle = tokio::spawn(async move {
            // Until the server closes the connection.
            while writing.write_all(drop.as_bytes()).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let mut answer = Vec::new();
        // What the client had still in flight may turn the end into a reset; the answer came before.
        let _end_or_reset = reading.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("connection: close"), "{framing}: {answer}");
        assert!(answer.contains("application/problem+json") && answer.contains("request_timeout"), "{answer}");
        trickle.await.unwrap();
    }
}

/// The attack: a proxy in front and this server read the end of one request differently, and what lies between is a request
/// that the proxy never saw.
#[tokio::test]
async fn request_smuggling_in_the_framing_is_refused() {
    const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    let reached = Arc::new(AtomicUsize::new(0));
    let count = reached.clone();
    let hidden = get(async move || {
        count.fetch_add(1, Ordering::Relaxed);
        "reached"
    });
    let routes = Router::new().route("/echo", post(async |body: String| body)).route("/hidden", hidden);
    let server = Server::start(|_| {}, routes).await;
    for (framing, body, status) in [
        ("Content-Length: 4\r\nTransfer-Encoding: chunked", "0\r\n\r\n", 200),
        ("Transfer-Encoding: chunked\r\nContent-Length: 4", "0\r\n\r\n", 200),
        ("Content-Length: 5\r\nContent-Length: 0", "", 400),
        ("Content-Length: 0, 5", "", 400),
        ("Content-Length: +0", "", 400),
        ("Content-Length: 0x0", "", 400),
        ("Content-Length: -1", "", 400),
        ("Content-Length : 0", "", 400),
        ("Transfer-Encoding : chunked", "0\r\n\r\n", 400),
        ("Transfer-Encoding: xchunked", "0\r\n\r\n", 400),
        ("Transfer-Encoding: chunked, identity", "0\r\n\r\n", 400),
        ("Transfer-Encoding: identity", "", 400),
        ("Transfer-Encoding: chunked", "fffffffffffffffff\r\n", 400),
        ("Transfer-Encoding: chunked", "-1\r\n\r\n", 400),
        ("X: a\r\n Content-Length: 5", "", 400),
    ] {
        let request = format!("POST /echo HTTP/1.1\r\nHost: test\r\n{framing}\r\n\r\n{body}{HIDDEN}");
        let answer = server.exchange(&request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{framing:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{framing:?}: {answer}");
    }
    assert_eq!(reached.load(Ordering::Relaxed), 0);
    assert!(server.exchange(HIDDEN).await.ends_with("reached"), "it is there for who asks");
}

/// A path has one spelling: none of these matches another path, and none has an effect.
#[tokio::test]
async fn a_path_in_another_spelling_does_not_match() {
    let server = Server::plain().await;
    for (line, status) in [
        ("GET /healthz", 200),
        ("HEAD /healthz", 200),
        ("GET /healthz?x=/../y", 200),
        ("GET http://elsewhere.example/healthz", 200),
        ("GET //healthz", 404),
        ("GET /healthz/", 404),
        ("GET /HEALTHZ", 404),
        ("GET /%68ealthz", 404),
        ("GET /x/../healthz", 404),
        ("GET /x/%2e%2e/healthz", 404),
        ("GET /healthz%00", 404),
        ("GET /healthz;x=1", 404),
        ("GET /healthz%0d%0aX-Injected:%201", 404),
        ("OPTIONS *", 404),
        ("OPTIONS /healthz", 405),
        ("TRACE /healthz", 405),
        ("CONNECT elsewhere.example:443", 404),
        ("BREW /healthz", 405),
        ("get /healthz", 405),
    ] {
        let answer = server.exchange(&format!("{line} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {answer}");
        assert!(answer.contains("x-request-id: ") && answer.contains("x-content-type-options: nosniff"), "{answer}");
        assert!(!answer.to_lowercase().contains("\r\nx-injected"), "{line}: {answer}");
    }
}

#[tokio::test]
async fn a_request_names_its_host_exactly_once() {
    let server = Server::plain().await;
    for (hosts, status) in
        [("", 400), ("Host: a\r\nHost: b\r\n", 400), ("Host: a\r\nHost: a\r\n", 400), ("Host: a\r\n", 200)]
    {
        let request = format!("GET /healthz HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n");
        let answer = server.exchange(&request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{hosts:?}: {answer}");
        assert!(answer.contains("x-request-id: ") && answer.contains("x-content-type-options: nosniff"), "{answer}");
    }
    assert!(server.exchange("GET /healthz HTTP/1.0\r\n\r\n").await.starts_with("HTTP/1.0 200"));
}

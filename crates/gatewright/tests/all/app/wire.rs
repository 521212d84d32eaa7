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

/// Time is the runtime's own here, and it jumps ahead when everybody waits.
#[tokio::test(start_paused = true)]
async fn a_client_that_dawdles_over_its_request_is_cut() {
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

#[tokio::test]
async fn a_request_names_its_host_exactly_once() {
    let server = Server::plain().await;
    for (hosts, status) in
        [("", 400), ("Host: a\r\nHost: b\r\n", 400), ("Host: a\r\nHost: a\r\n", 400), ("Host: a\r\n", 200)]
    {
        let request = format!("GET /healthz HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n");
        let answer = server.exchange(&request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{hosts:?}: {answer}");
    }
    assert!(server.exchange("GET /healthz HTTP/1.0\r\n\r\n").await.starts_with("HTTP/1.0 200"));
}

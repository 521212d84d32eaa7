use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use gatewright::entities::Entity;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::Server;

#[tokio::test]
async fn requests_in_progress_finish_and_new_ones_are_refused() {
    let (begun, redirect_next) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (started, released) = (begun.clone(), redirect_next.clone());
    let handler = async move || {
        started.notify_one();
        released.notified().await;
        "finished"
    };
    let mut server = Server::start(|_| {}, Router::new().route("/slow", get(handler))).await;
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    let mut busy = TcpStream::connect(server.address).await.unwrap();
    busy.write_all(b"GET /slow HTTP/1.1\r\nHost: test\r\n\r\n").await.unwrap();
    begun.notified().await;

    server.stop();
    let mut nothing = Vec::new();
    let _reset = idle.read_to_end(&mut nothing).await;
    assert!(nothing.is_empty(), "an idle connection is closed at once");
    assert!(TcpStream::connect(server.address).await.is_err(), "nobody listens any more");

    redirect_next.notify_one();
    let mut answer = String::new();
    busy.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("finished"), "{answer}");
    server.running.await.unwrap();
}

/// The runtime's own clock, which jumps ahead when every task waits.
#[tokio::test(start_paused = true)]
async fn a_request_that_never_finishes_is_cut_after_the_deadline() {
    let begun = Arc::new(Notify::new());
    let started = begun.clone();
    let handler = async move || {
        started.notify_one();
        std::future::pending::<()>().await;
    };
    let patient = |config: &mut gatewright::Config| config.server.request_timeout = std::time::Duration::from_hours(1);
    let mut server = Server::start(patient, Router::new().route("/stuck", get(handler))).await;
    let mut stuck = TcpStream::connect(server.address).await.unwrap();
    stuck.write_all(b"GET /stuck HTTP/1.1\r\nHost: test\r\n\r\n").await.unwrap();
    begun.notified().await;
    let start = tokio::time::Instant::now();
    server.stop();
    server.running.await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 10);
}

#[tokio::test]
async fn an_open_event_stream_is_ended_and_does_not_delay_the_stop() {
    let notes = |config: &mut gatewright::Config| config.entities.push(Entity::new("notes").public());
    let mut server = Server::start(notes, Router::new()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /notes/_events HTTP/1.1\r\nHost: test\r\n\r\n").await.unwrap();
    let mut begun = [0; 15];
    stream.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200 OK");
    server.stop();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "the stream was cut in the middle: {rest}");
    server.running.await.unwrap();
}

#[tokio::test]
async fn a_server_that_drains_still_answers_closes_each_connection_and_is_not_ready() {
    let drains = |config: &mut gatewright::Config| config.server.drain = Some(Duration::from_secs(2));
    let mut server = Server::start(drains, Router::new()).await;
    let mut kept = TcpStream::connect(server.address).await.unwrap();
    kept.write_all(b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n").await.unwrap();
    let mut first = Vec::new();
    while !first.ends_with(b"ok\n") {
        assert_ne!(kept.read_buf(&mut first).await.unwrap(), 0);
    }
    assert!(!String::from_utf8_lossy(&first).contains("connection: close"));

    server.stop();
    let asked = tokio::time::Instant::now();
    // New connections are accepted, and each answer closes its connection.
    let readiness = loop {
        let answer = server.exchange("GET /readyz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").await;
        if answer.starts_with("HTTP/1.1 503") {
            break answer;
        }
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    assert!(readiness.contains("the server is stopping"), "{readiness}");
    assert!(readiness.contains("retry-after: 1"), "{readiness}");
    // The connection that was idle when the stop was asked for still gets its answer, and the notice.
    kept.write_all(b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n").await.unwrap();
    let mut last = String::new();
    kept.read_to_string(&mut last).await.unwrap();
    assert!(last.starts_with("HTTP/1.1 200") && last.contains("connection: close"), "{last}");

    server.running.await.unwrap();
    assert!(asked.elapsed() >= Duration::from_secs(2), "the drain was cut short");
    assert!(TcpStream::connect(server.address).await.is_err(), "nobody listens any more");
}

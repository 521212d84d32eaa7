//! Over a real connection: behaviour that needs hyper and a socket.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use gatewright_base::Identity;
use gatewright_events::{StreamOptions, Streams};
use gatewright_http::Problem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{everything, frame, frames, publish, streams};

async fn open(State(streams): State<Streams>) -> Response {
    match streams.respond(everything(Identity::Anonymous)) {
        Ok(response) => response,
        Err(refused) => Problem::from(refused).into_response(),
    }
}

async fn connect(streams: &Streams) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/posts/_events", get(open)).with_state(streams.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(b"GET /posts/_events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    connection
}

/// Reads until `end` was read.
async fn read_until(connection: &mut TcpStream, end: &str) -> String {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = connection.read(&mut buffer).await.unwrap();
        assert!(count > 0, "the connection ended early: {}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&buffer[..count]);
        if String::from_utf8_lossy(&all).contains(end) {
            return String::from_utf8(all).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_has_its_headers_its_opening_and_its_events() {
    let (bus, streams) = streams(StreamOptions::default());
    let mut connection = connect(&streams).await;
    let head = read_until(&mut connection, "retry: 3000\n\n").await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    for header in ["content-type: text/event-stream", "cache-control: no-store", "x-accel-buffering: no"] {
        assert!(head.to_ascii_lowercase().contains(&format!("\r\n{header}\r\n")), "{head}");
    }
    publish(&bus, 1..2);
    read_until(&mut connection, &frame(1)).await;
}

// On one thread, so that a busy machine cannot stop the connection's task halfway and have the client look slow.
#[tokio::test]
async fn a_burst_is_joined_into_few_writes_and_reaches_a_reading_client_whole() {
    let (bus, streams) = streams(StreamOptions::default());
    let mut connection = connect(&streams).await;
    read_until(&mut connection, "retry: 3000\n\n").await;
    publish(&bus, 0..300);
    let body = read_until(&mut connection, &frame(299)).await;
    // Without the chunks' own lines, what is left is the frames.
    let text: Vec<_> = body.split("\r\n").collect();
    let chunks = text.iter().filter(|part| part.starts_with("event: ")).count();
    let joined: String = text.iter().filter(|part| part.starts_with("event: ")).copied().collect();
    assert_eq!(joined, frames(0..300));
    assert!(chunks <= 150, "{chunks} writes");
    assert_eq!(streams.stats().dropped, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_disconnects_frees_its_seat() {
    let (_bus, streams) = streams(StreamOptions::default());
    let mut connection = connect(&streams).await;
    read_until(&mut connection, "retry: 3000\n\n").await;
    assert_eq!(streams.stats().subscribers, 1);
    drop(connection);
    streams.closed().await;
    assert_eq!(streams.stats().subscribers, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_ends_the_response_properly() {
    let (bus, streams) = streams(StreamOptions::default());
    let mut connection = connect(&streams).await;
    read_until(&mut connection, "retry: 3000\n\n").await;
    publish(&bus, 1..2);
    streams.shutdown();
    let end = read_until(&mut connection, "\r\n0\r\n\r\n").await;
    assert!(end.contains(&frame(1)));
    streams.closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_stream_is_a_problem() {
    let (_bus, full) = streams(StreamOptions { max_subscribers: 0, ..StreamOptions::default() });
    for (streams, detail, retry) in
        [(Streams::disabled(), "events are not enabled", false), (full, "too many subscribers", true)]
    {
        let mut connection = connect(&streams).await;
        let answer = read_until(&mut connection, "}").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains(detail) && answer.contains("application/problem+json"), "{answer}");
        assert_eq!(answer.to_ascii_lowercase().contains("\r\nretry-after: 15\r\n"), retry, "{answer}");
    }
}

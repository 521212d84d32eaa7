use axum::Router;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::Server;

const REQUEST: &[u8] = b"GET /here HTTP/1.1\r\nHost: test\r\n\r\n";

/// Sends a request, and reads the beginning of the answer.
async fn ask(stream: &mut TcpStream) -> String {
    // A connection that is refused may be closed by the time.
    let _refused = stream.write_all(REQUEST).await;
    let mut begun = [0; 12];
    stream.read_exact(&mut begun).await.unwrap();
    String::from_utf8(begun.to_vec()).unwrap()
}

#[tokio::test]
async fn connections_over_the_limit_get_503_with_retry_after() {
    let cap = |config: &mut gatewright::Config| config.server.max_connections = 2;
    let server = Server::start(cap, Router::new().route("/here", get(async || "here"))).await;
    let mut seated = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        assert_eq!(ask(&mut stream).await, "HTTP/1.1 200");
        seated.push(stream);
    }
    for _ in 0..3 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let mut answer = ask(&mut stream).await;
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after: 1\r\n"), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("application/problem+json\r\nx-content-type-options: nosniff"), "{answer}");
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{answer}");
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((&problem["status"], &problem["detail"]), (&503.into(), &"too many connections".into()));
    }
    // A freed connection can be used again, once the server has noticed.
    drop(seated.pop());
    loop {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        if ask(&mut stream).await == "HTTP/1.1 200" {
            break;
        }
    }
}

#[tokio::test]
async fn an_address_over_its_connection_limit_gets_503_and_others_are_served() {
    let cap = |config: &mut gatewright::Config| config.server.max_connections_per_address = Some(2);
    let server = Server::start(cap, Router::new().route("/here", get(async || "here"))).await;
    let from = async |address: [u8; 4]| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((address, 0).into()).unwrap();
        socket.connect(server.address).await.unwrap()
    };
    let mut seated = Vec::new();
    for address in [[127, 0, 0, 1], [127, 0, 0, 2]] {
        for _ in 0..2 {
            let mut stream = from(address).await;
            assert_eq!(ask(&mut stream).await, "HTTP/1.1 200");
            seated.push(stream);
        }
        assert_eq!(ask(&mut from(address).await).await, "HTTP/1.1 503");
    }
    drop(seated);
    while ask(&mut from([127, 0, 0, 1]).await).await != "HTTP/1.1 200" {}
}

//! Exports over the network: what they cost the server, and clients that do not read them.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{Answer, Client, Database, Launch, Server};
use crate::outbox::until;

const CONFIGURATION: &str = "
[server]
slow_reader_seconds = 2
request_timeout_seconds = 1
[[entity]]
name = \"notes\"
access = { read = \"public\" }
[[entity.field]]
name = \"text\"
type = \"text\"
max = 1000000
";
/// Records of a large export, each of 900 KB.
const RECORDS: usize = 100;
/// The most by which the server's memory grows while 90 MB are exported.
const MAX_GROWTH: u64 = 40 << 20;

/// A request on a connection with the smallest receive buffer, of which nothing is read.
async fn held(server: &Server, bearer: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(server.address().parse().unwrap()).await.unwrap();
    let request = format!("GET /notes?format=csv HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {bearer}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut status = [0; 15];
    stream.read_exact(&mut status).await.unwrap();
    assert_eq!(std::str::from_utf8(&status).unwrap(), "HTTP/1.1 200 OK");
    stream
}

async fn export(client: &Client, bearer: &str) -> Answer {
    let request = client.request(Method::GET, "/notes?format=ndjson").bearer_auth(bearer);
    Answer::read(request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_takes_little_memory_and_slow_readers_delay_nobody() {
    for database in Database::all().await {
        let server = Launch::configured(CONFIGURATION).start(&database).await;
        let client = server.client();
        client.register("ada@example.com").await.is(200);
        let bearer = client.log_in("ada@example.com").await.is(200).json()["token"].as_str().unwrap().to_owned();
        let text = "x".repeat(900_000);
        for _ in 0..RECORDS {
            client.post("/notes", &json!({ "text": text })).await.is(201);
        }
        // Read piece by piece, as a client does that stores a file; and slower than an answer may take to begin.
        let before = server.resident_bytes();
        let mut answer = client.request(Method::GET, "/notes?format=csv").bearer_auth(&bearer).send().await.unwrap();
        let (mut bytes, mut most) = (0, 0);
        while let Some(piece) = answer.chunk().await.unwrap() {
            bytes += piece.len();
            most = most.max(server.resident_bytes().saturating_sub(before));
            if bytes % 7 == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        assert!(bytes > RECORDS * 900_000, "{bytes}");
        assert!(most < MAX_GROWTH, "{most} bytes more, on Postgres: {}", database.is_postgres());

        let mut slow = [held(&server, &bearer).await, held(&server, &bearer).await];
        let third = export(&client, &bearer).await.is(429);
        assert_eq!(third.json()["code"], "too_many_exports");
        assert!(third.header("retry-after").parse::<u32>().unwrap() > 0);
        // Nobody else waits: neither readers nor writers, nor exports.
        let other = server.client();
        for _ in 0..20 {
            other.get("/notes?limit=1&fields=id").await.is(200);
            client.post("/notes", &json!({ "text": "beside" })).await.is(201);
        }
        let anonymous = other.get("/notes?format=ndjson&fields=id").await.is(200);
        assert!(anonymous.text.lines().count() >= RECORDS, "{}", anonymous.text.len());
        // Those who do not read are ended, without the end of their file.
        until("a place is free again", async || export(&client, &bearer).await.status == 200).await;
        for stream in &mut slow {
            let mut rest = Vec::new();
            let _reset = stream.read_to_end(&mut rest).await;
            assert!(!rest.ends_with(b"0\r\n\r\n"), "a file that is not complete has no end");
            assert!(rest.len() < 80_000_000, "{}", rest.len());
        }
        assert!(!server.log().contains("panicked"), "{}", server.log());
    }
}

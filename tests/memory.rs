//! Clients that make the server hold memory: they do not read answers, do not finish bodies, or change large records whose
//! events others read.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{Answer, Client, Database, Launch, Receiver, Server};
use crate::outbox::until;

const BUDGET: u64 = 64 << 20;
/// The limit for the server's growth: twice the budget for the allocator's overhead, and the answers that are being
/// built.
const MAX_GROWTH: u64 = 4 * BUDGET;
/// Clients that do not read. Together they request 280 MiB.
const READERS: usize = 40;
/// Clients that do not finish a body.
const SENDERS: usize = 100;
/// Streams that wait for events, and the maximum memory of one of them.
const STREAMS: usize = 800;
const MAX_OF_STREAM: u64 = 12_000;

async fn server(database: &Database) -> Server {
    let configuration = format!(
        "[server]\nmemory_budget_bytes = {BUDGET}\nslow_reader_seconds = 20\n[database]\nmax_connections = 4\nlist_timeout_seconds = 30\n\
         [[entity]]\nname = \"notes\"\npublic = true\n\
         [[entity.field]]\nname = \"text\"\ntype = \"text\"\nmax = 1000000\n"
    );
    Launch::configured(&configuration).start(database).await
}

/// A signed-in client that is served during the whole test.
struct Other(Client);

impl Other {
    async fn sign_in(server: &Server) -> Self {
        let client = server.client();
        client.register("ada@example.com").await.is(200);
        client.log_in("ada@example.com").await.is(200);
        Self(client)
    }

    async fn is_served(&self) {
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            let begun = Instant::now();
            self.0.get("/auth/me").await.is(200);
            slowest = slowest.max(begun.elapsed());
        }
        assert!(slowest < Duration::from_secs(15), "{slowest:?}");
    }
}

/// Opens a connection with the smallest receive buffer, and sends `request`.
async fn send(server: &Server, request: &[u8]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(server.address().parse().unwrap()).await.unwrap();
    // A server that refuses may close the connection before everything is sent.
    let _refused = stream.write_all(request).await;
    stream
}

async fn metric(server: &Server, name: &str) -> u64 {
    let text = server.client().get("/metrics").await.is(200).text;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<u64>().ok());
    value.unwrap_or_else(|| panic!("no {name} in:\n{text}"))
}

async fn used(server: &Server) -> u64 {
    metric(server, "gatewright_memory_budget_used_bytes").await
}

async fn refused(server: &Server) -> u64 {
    metric(server, "gatewright_memory_budget_refused_total").await
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_are_cut_and_hold_no_more_than_the_budget() {
    for database in Database::all().await {
        let server = server(&database).await;
        let other = Other::sign_in(&server).await;
        for _ in 0..8 {
            other.0.post("/notes", &json!({ "text": "x".repeat(900_000) })).await.is(201);
        }
        let before = server.resident_bytes();
        let mut idle = Vec::new();
        for _ in 0..READERS {
            idle.push(send(&server, b"GET /notes HTTP/1.1\r\nHost: test\r\n\r\n").await);
        }
        until("answers are refused", async || refused(&server).await > 0).await;
        assert!(used(&server).await <= BUDGET);
        other.is_served().await;
        let growth = server.resident_bytes().saturating_sub(before);
        assert!(growth < MAX_GROWTH, "grew by {} MiB", growth >> 20);
        // They never read and never disconnect.
        until("they are cut", async || used(&server).await == 0).await;
        other.0.get("/notes").await.is(200);
        drop(idle);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_not_finished_hold_no_more_than_the_budget() {
    for database in Database::all().await {
        let server = server(&database).await;
        let other = Other::sign_in(&server).await;
        let before = server.resident_bytes();
        // All except the last byte of the largest body that sign-in accepts, and of a large record.
        let part = |path: &str, length: usize| {
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
            );
            [head.into_bytes(), vec![b' '; length - 1]].concat()
        };
        let mut logins = Vec::new();
        for _ in 0..SENDERS {
            logins.push(send(&server, &part("/auth/login", 16 << 10)).await);
        }
        assert_eq!(used(&server).await, 0, "small bodies are free");
        other.is_served().await;
        let mut records = Vec::new();
        for _ in 0..SENDERS {
            records.push(send(&server, &part("/notes", 1 << 20)).await);
        }
        until("bodies are refused", async || refused(&server).await > 0).await;
        assert!(used(&server).await <= BUDGET);
        other.is_served().await;
        other.0.post("/notes", &json!({ "text": "short" })).await.is(201);
        let growth = server.resident_bytes().saturating_sub(before);
        assert!(growth < MAX_GROWTH, "grew by {} MiB", growth >> 20);
        drop((logins, records));
        until("their bytes are given back", async || used(&server).await == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_announces_a_large_body_is_refused_at_once() {
    let server = server(&Database::Sqlite).await;
    let head = "POST /auth/login HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: 16385\r\n\
                Expect: 100-continue\r\n\r\n";
    let mut stream = send(&server, head.as_bytes()).await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("larger than 16384 bytes (`auth.max_body_bytes`)"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_waits_for_events_takes_little_memory() {
    let server = server(&Database::Sqlite).await;
    let Other(client) = Other::sign_in(&server).await;
    let token = client.log_in("ada@example.com").await.is(200).json()["token"].as_str().unwrap().to_owned();
    // As long as the headers of a browser.
    let padding = "x".repeat(500);
    let requests = [
        "GET /notes/_events HTTP/1.1\r\nHost: test\r\n\r\n".to_owned(),
        format!(
            "GET /notes/_events HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\nX-Padding: {padding}\r\n\r\n"
        ),
    ];
    for request in requests {
        // The first streams allocate the memory that all others share.
        drop(open_streams(&server, &request, 50).await);
        until("they are gone", async || metric(&server, "gatewright_event_subscribers").await == 0).await;
        let before = server.resident_bytes();
        let streams = open_streams(&server, &request, STREAMS).await;
        let each = server.resident_bytes().saturating_sub(before) / STREAMS as u64;
        println!("{each} bytes");
        assert!(each < MAX_OF_STREAM, "{each} bytes each");
        drop(streams);
        until("they are gone", async || metric(&server, "gatewright_event_subscribers").await == 0).await;
    }
}

async fn open_streams(server: &Server, request: &str, count: usize) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut stream = send(server, request.as_bytes()).await;
        let mut answer = Vec::new();
        while !answer.windows(12).any(|bytes| bytes == b"event: ready") {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "{}", String::from_utf8_lossy(&answer));
        }
        streams.push(stream);
    }
    streams
}

/// Changes of a large record. Each is a few bytes, and its event has the whole record.
const CHANGES: usize = 150;

/// The text of a record of almost a megabyte.
fn large() -> String {
    "x".repeat(900_000)
}

/// Makes a large record and changes it many times. Returns the position before the changes.
async fn change_a_large_record(client: &Client) -> String {
    let made = client.post("/notes", &json!({ "text": large(), "n": 0 })).await.is(201).json();
    let id = made["data"]["id"].as_str().unwrap().to_owned();
    let listed = client.get("/notes?limit=1&fields=id").await.is(200);
    let cursor = listed.header("event-cursor").to_owned();
    for n in 1..=CHANGES {
        let patch = client.request(Method::PATCH, &format!("/notes/{id}")).json(&json!({ "n": n }));
        Answer::read(patch).await.is(200);
    }
    cursor
}

/// What `notes` is, with these other settings.
fn notes(settings: &str) -> Launch {
    Launch::configured(&format!(
        "[server]\nmemory_budget_bytes = {BUDGET}\nslow_reader_seconds = 20\n[database]\nmax_connections = 8\n{settings}\n\
         [[entity]]\nname = \"notes\"\npublic = true\n\
         [[entity.field]]\nname = \"text\"\ntype = \"text\"\nmax = 1000000\n\
         [[entity.field]]\nname = \"n\"\ntype = \"int\"\n"
    ))
}

/// Runs `work`, and returns by how much the server's memory grew at most while another client was served.
async fn growth(server: &Server, other: &Other, work: impl Future<Output = ()>) -> u64 {
    let before = server.resident_bytes();
    let mut most = 0;
    let watch = async {
        loop {
            other.is_served().await;
            assert!(used(server).await <= BUDGET);
            most = server.resident_bytes().saturating_sub(before).max(most);
        }
    };
    tokio::select! {
        () = work => {}
        () = watch => {}
    }
    most.max(server.resident_bytes().saturating_sub(before))
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_resume_over_large_records_hold_no_more_than_the_budget() {
    for database in Database::all().await {
        let server = notes("").start(&database).await;
        let other = Other::sign_in(&server).await;
        let cursor = change_a_large_record(&other.0).await;
        for streams in [1, 2] {
            let work = async {
                let mut open = Vec::new();
                for _ in 0..streams {
                    let request = format!("GET /notes/_events?since={cursor} HTTP/1.1\r\nHost: test\r\n\r\n");
                    open.push(send(&server, request.as_bytes()).await);
                }
                // The others read slowly, and one reads everything.
                let mut reader = open.pop().unwrap();
                let (mut events, mut buffer, mut tail) = (0, vec![0; 1 << 20], Vec::new());
                while events < CHANGES {
                    let read = reader.read(&mut buffer).await.unwrap();
                    assert!(read > 0, "the stream goes on");
                    tail.extend_from_slice(&buffer[..read]);
                    events += tail.windows(21).filter(|bytes| bytes == b"event: entity.updated").count();
                    tail.drain(..tail.len().saturating_sub(20));
                }
            };
            let growth = growth(&server, &other, work).await;
            println!("{streams} streams: {} MiB", growth >> 20);
            assert!(growth < MAX_GROWTH, "grew by {} MiB", growth >> 20);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_polls_the_log_for_large_records_holds_no_more_than_the_budget() {
    for database in Database::all().await.iter().filter(|database| database.url().starts_with("postgres")) {
        let [writer, reader] = [notes("").start(database).await, notes("").start(database).await];
        let (client, other) = (writer.client(), Other::sign_in(&reader).await);
        let stream = send(&reader, b"GET /notes/_events HTTP/1.1\r\nHost: test\r\n\r\n").await;
        let growth = growth(&reader, &other, async { drop(change_a_large_record(&client).await) }).await;
        println!("{} MiB", growth >> 20);
        assert!(growth < MAX_GROWTH, "grew by {} MiB", growth >> 20);
        drop(stream);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_of_large_records_hold_no_more_than_the_budget_while_their_receiver_is_slow() {
    for database in Database::all().await {
        let (receiver, url) = Receiver::start().await;
        receiver.lock().stalls = true;
        let consumer = format!(
            "[outbox]\nenabled = true\npoll_interval_ms = 100\n[[outbox.consumer]]\nname = \"good\"\n\
             event = \"entity.updated\"\nurl = \"{url}/good\"\nsecret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\""
        );
        let server = notes(&consumer).start(&database).await;
        let other = Other::sign_in(&server).await;
        let work = async {
            change_a_large_record(&other.0).await;
            until("deliveries wait", async || receiver.lock().stalled.len() >= 8).await;
        };
        let growth = growth(&server, &other, work).await;
        println!("{} MiB", growth >> 20);
        assert!(growth < MAX_GROWTH, "grew by {} MiB", growth >> 20);
        receiver.lock().stalls = false;
    }
}

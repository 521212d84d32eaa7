//! A process with a low limit of open files.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::harness::{Database, Launch, Server};
use crate::outbox::until;

/// The limit of open files, and the connections that the server then accepts: all except 16 for its database and 192
/// others.
const FILES: u32 = 300;
const TAKEN: usize = 92;

const REQUEST: &[u8] = b"GET /posts HTTP/1.1\r\nHost: test\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_few_files_warns_and_accepts_fewer_connections() {
    let table = "[[entity]]\nname = \"posts\"\npublic = true\n[[entity.field]]\nname = \"title\"\ntype = \"string\"\n";
    for database in Database::all().await {
        let server = Launch::configured(table).files(FILES).start(&database).await;
        let log = server.log();
        for part in ["`events.max_subscribers` is more than", "subscribers=10000", &format!("connections={TAKEN}")] {
            assert!(log.contains(part), "no {part} in:\n{log}");
        }
        let mut seated = Vec::new();
        while seated.len() < TAKEN {
            let mut connection = connect(&server).await;
            assert_eq!(ask(&mut connection).await, "HTTP/1.1 200", "connection {}", seated.len());
            seated.push(connection);
        }
        // More connections than there are files for. Each stays open until the server closes it.
        let mut crowd = Vec::new();
        for _ in 0..FILES {
            crowd.push(connect(&server).await);
        }
        // The accepted connections are still served, including reads of the database.
        for connection in &mut seated {
            assert_eq!(ask(connection).await, "HTTP/1.1 200");
        }
        drop(crowd);
        until("one more is told so", async || ask(&mut connect(&server).await).await == "HTTP/1.1 503").await;
        drop(seated);
        until("there is room again", async || ask(&mut connect(&server).await).await == "HTTP/1.1 200").await;
        assert!(!server.log().contains("Too many open files"), "{}", server.log());
    }
}

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address()).await.unwrap()
}

/// Sends a request, and reads the beginning of the answer. Empty if the connection was closed without one.
async fn ask(connection: &mut TcpStream) -> String {
    let _closed = connection.write_all(REQUEST).await;
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") && !answer.ends_with(b"connections\n") {
        if !matches!(connection.read_buf(&mut answer).await, Ok(1..)) {
            break;
        }
    }
    String::from_utf8_lossy(&answer).chars().take(12).collect()
}

//! Servers behind a proxy are restarted one after the other, and no request fails.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::MissedTickBehavior;

use crate::harness::{Database, Launch};

/// Servers behind the proxy.
const SERVERS: usize = 4;
/// Connections that the proxy keeps to each server, each with one request in progress.
const WORKERS: usize = 16;
/// How often each connection sends a request: together more than a thousand per second.
const PACE: Duration = Duration::from_millis(10);
/// How often the proxy checks whether a server is ready.
const CHECK: Duration = Duration::from_millis(100);

const CONFIGURATION: &str = "[server]\ndrain_seconds = 1\n[[entity]]\nname = \"posts\"\npublic = true\n";

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_servers_behind_a_proxy_restart() {
    // Each server has a database: one SQLite file belongs to one server.
    let start = || Launch::production(CONFIGURATION).start(&Database::Sqlite);
    let mut servers: [_; SERVERS] = [start().await, start().await, start().await, start().await];
    let load = Arc::new(Load::default());
    let addresses = Arc::new(servers.each_ref().map(|server| server.address().to_owned()));
    let mut tasks: Vec<_> =
        (0..WORKERS).map(|number| tokio::spawn(load.clone().work(number, addresses.clone()))).collect();
    tasks.push(tokio::spawn(load.clone().check_readiness(addresses)));
    for server in &mut servers {
        load.answers(500).await;
        assert_eq!(server.stop().await, Some(0));
        load.answers(100).await;
        server.restart();
    }
    load.answers(500).await;
    load.stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    let told = load.told_to_close.load(Ordering::Relaxed);
    assert!(told > 0, "no connection was told to close");
}

#[derive(Default)]
struct Load {
    answered: AtomicUsize,
    told_to_close: AtomicUsize,
    stop: AtomicBool,
    unready: [AtomicBool; SERVERS],
}

impl Load {
    /// Waits for this many more answers.
    async fn answers(&self, count: usize) {
        let until = self.answered.load(Ordering::Relaxed) + count;
        while self.answered.load(Ordering::Relaxed) < until {
            tokio::time::sleep(PACE).await;
        }
    }

    /// Behaves like a proxy's health check.
    async fn check_readiness(self: Arc<Self>, addresses: Arc<[String; SERVERS]>) {
        while !self.stop.load(Ordering::Relaxed) {
            for (address, unready) in addresses.iter().zip(&self.unready) {
                let status = match Connection::open(address).await {
                    Some(connection) => connection.exchange("/readyz").await.map(|exchange| exchange.status).ok(),
                    None => None,
                };
                unready.store(status != Some(200), Ordering::Relaxed);
            }
            tokio::time::sleep(CHECK).await;
        }
    }

    /// The server to use instead of `server`.
    fn another(&self, server: usize) -> usize {
        let mut others = (1..SERVERS).map(|step| (server + step) % SERVERS);
        others.find(|other| !self.unready[*other].load(Ordering::Relaxed)).expect("one server restarts at a time")
    }

    /// Behaves like a proxy's worker: keeps its connections, opens a new one if the server closed one, and uses another
    /// server if one is not ready or does not listen. It sends no request twice.
    async fn work(self: Arc<Self>, number: usize, addresses: Arc<[String; SERVERS]>) {
        let mut kept: [Option<Connection>; SERVERS] = std::array::from_fn(|_| None);
        let mut tick = tokio::time::interval(PACE);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut turn = number;
        while !self.stop.load(Ordering::Relaxed) {
            tick.tick().await;
            turn += 1;
            let mut server = turn % SERVERS;
            if self.unready[server].load(Ordering::Relaxed) {
                // A proxy closes its idle connections to a server that is not ready.
                kept[server] = None;
                server = self.another(server);
            }
            if kept[server].is_none() {
                kept[server] = Connection::open(&addresses[server]).await;
            }
            if kept[server].is_none() {
                server = self.another(server);
            }
            let connection = match kept[server].take() {
                Some(connection) => connection,
                None => Connection::open(&addresses[server]).await.expect("one of the servers listens"),
            };
            let Exchange { status, closes, connection } =
                connection.exchange("/posts").await.expect("the request is answered");
            assert_eq!(status, 200);
            self.answered.fetch_add(1, Ordering::Relaxed);
            self.told_to_close.fetch_add(usize::from(closes), Ordering::Relaxed);
            kept[server] = (!closes).then_some(connection);
        }
    }
}

struct Connection(BufReader<TcpStream>);

struct Exchange {
    status: u16,
    /// The server closes the connection.
    closes: bool,
    connection: Connection,
}

impl Connection {
    /// `None` if nobody listens.
    async fn open(address: &str) -> Option<Self> {
        TcpStream::connect(address).await.ok().map(|stream| Self(BufReader::new(stream)))
    }

    /// Sends a request and reads the answer.
    async fn exchange(mut self, path: &str) -> io::Result<Exchange> {
        self.0.write_all(format!("GET {path} HTTP/1.1\r\nHost: proxy\r\n\r\n").as_bytes()).await?;
        let (mut length, mut closes) = (0, false);
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("not an answer: {line:?}")))?;
        loop {
            line.clear();
            self.0.read_line(&mut line).await?;
            match line.trim_end().to_ascii_lowercase().split_once(": ") {
                Some(("content-length", text)) => length = text.parse().map_err(io::Error::other)?,
                Some(("connection", text)) => closes = text == "close",
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await?;
        Ok(Exchange { status, closes, connection: self })
    }
}

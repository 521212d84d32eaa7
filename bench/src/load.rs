//! Keep-alive connections that send the next request after the complete answer to the previous one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The result of a run.
pub(crate) struct Measured {
    /// Answers per second.
    pub(crate) rate: f64,
    /// The median latency.
    pub(crate) median: Duration,
    /// The 99th percentile of the latency.
    pub(crate) p99: Duration,
}

/// Sends requests over `connections` connections for `time`, after a warm-up of a tenth of it. `request` builds them
/// from the number of the connection and a running number. Any answer that is not a success fails the run.
pub(crate) async fn run(
    address: SocketAddr,
    connections: usize,
    time: Duration,
    request: impl Fn(usize, u64) -> Vec<u8> + Send + Sync + 'static,
) -> anyhow::Result<Measured> {
    let request = Arc::new(request);
    let (counting, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let workers: Vec<_> = (0..connections)
        .map(|number| {
            let (request, counting, stop) = (request.clone(), counting.clone(), stop.clone());
            tokio::spawn(async move {
                let mut connection = Connection::open(address).await?;
                let mut latencies = Vec::new();
                let (mut count, mut in_time) = (0, 0_usize);
                while !stop.load(Ordering::Relaxed) {
                    let bytes = request(number, count);
                    let sent = Instant::now();
                    connection.exchange(&bytes).await?;
                    if counting.load(Ordering::Relaxed) {
                        latencies.push(sent.elapsed());
                        in_time += usize::from(!stop.load(Ordering::Relaxed));
                    }
                    count += 1;
                }
                anyhow::Ok((latencies, in_time))
            })
        })
        .collect();
    tokio::time::sleep(time / 10).await;
    counting.store(true, Ordering::Relaxed);
    let began = Instant::now();
    tokio::time::sleep(time).await;
    stop.store(true, Ordering::Relaxed);
    let elapsed = began.elapsed();
    let (mut latencies, mut answered) = (Vec::new(), 0);
    for worker in workers {
        let (of_one, in_time) = worker.await??;
        latencies.extend(of_one);
        answered += in_time;
    }
    latencies.sort_unstable();
    ensure!(!latencies.is_empty(), "no answer came in time");
    let at = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
    #[expect(clippy::cast_precision_loss, reason = "a rate for people to read")]
    let rate = answered as f64 / elapsed.as_secs_f64();
    Ok(Measured { rate, median: at(50), p99: at(99) })
}

/// Sends one request and returns the answer's body.
pub(crate) async fn once(address: SocketAddr, request: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut connection = Connection::open(address).await?;
    connection.exchange(request).await?;
    Ok(connection.body())
}

/// Sends a create as often as `records`, and returns the id of the last record.
pub(crate) async fn fill(address: SocketAddr, create: &[u8], records: usize) -> anyhow::Result<String> {
    let mut connection = Connection::open(address).await?;
    for _ in 0..records {
        connection.exchange(create).await?;
    }
    let answer: serde_json::Value = serde_json::from_slice(&connection.body())?;
    answer["data"]["id"].as_str().map(str::to_owned).context("the created record has an id")
}

/// The text of a request with a JSON body.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The text of a request without a body.
pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n").into_bytes()
}

/// A connection that sends one request after the other.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    head: usize,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(16_384), head: 0 })
    }

    /// Sends a request and waits for its whole answer, which must be a success.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server closed the connection");
            let Some(head) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
            let text = std::str::from_utf8(&self.buffer[..head])?;
            let status = text.split(' ').nth(1).context("a status line")?;
            ensure!(status.starts_with('2'), "the server answered {}", String::from_utf8_lossy(&self.buffer));
            let length = text
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .map_or(Ok(0), |(_, value)| value.trim().parse())?;
            self.head = head + 4;
            while self.buffer.len() < self.head + length {
                ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server cut its answer short");
            }
            return Ok(());
        }
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        self.buffer[self.head..].to_vec()
    }

    /// The head of the last answer.
    pub(crate) fn head(&self) -> String {
        String::from_utf8_lossy(&self.buffer[..self.head]).into_owned()
    }
}

//! A listener: a stream that is reopened at its last position whenever it ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};

use super::ledger::{Listening, Received};
use super::random::Random;
use super::world::{ACCOUNTS, World};

/// A connection without data for this long is closed. The server sends a heartbeat every two seconds.
const SILENCE: Duration = Duration::from_mins(1);
/// The receive buffer of a listener that does not read, in bytes.
const RECEIVE_BUFFER: u32 = 4_096;

/// Listens until the task is ended.
pub(crate) async fn listen(world: Arc<World>, number: usize, mut random: Random) {
    let account = Some(number / 3 % ACCOUNTS);
    let listening = match number % 3 {
        0 => Listening { table: "posts", account: None },
        1 => Listening { table: "notes", account },
        _ => Listening { table: "tasks", account },
    };
    let is_slow = random.once_in(5);
    let mut since = None;
    if random.once_in(2) {
        since = position_of_a_list(&world, listening, &mut random).await;
        if since.is_some() {
            world.ledger.listens(number, listening);
        }
    }
    loop {
        let server = random.below(world.addresses.len());
        let opened = tokio::time::timeout(SILENCE, Stream::open(&world, server, listening, since.as_deref())).await;
        if let Ok(Ok(mut stream)) = opened {
            world.ledger.connects(number);
            let mut frames = 5 + random.below(150);
            while frames > 0 {
                let frame = tokio::select! {
                    frame = tokio::time::timeout(SILENCE, stream.frame()) => frame,
                    () = world.cuts[number].notified() => break,
                };
                let Ok(Ok(frame)) = frame else { break };
                if let Err(fault) = take(&world, number, listening, since.is_none(), &frame) {
                    world.ledger.fault(format!("listener {number} {listening:?}: {fault}"));
                }
                since = Some(frame.id);
                if world.stopping.load(Ordering::SeqCst) {
                    continue;
                }
                frames -= 1;
                if is_slow && random.once_in(10) {
                    tokio::time::sleep(Duration::from_millis(100 + u64::try_from(random.below(900)).unwrap())).await;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(u64::try_from(10 + random.below(200)).unwrap())).await;
    }
}

/// Adds a frame to the ledger.
fn take(world: &World, number: usize, listening: Listening, is_first: bool, frame: &Frame) -> Result<(), String> {
    if frame.id.is_empty() {
        return Err(format!("a frame without a position: {frame:?}"));
    }
    let deleted = match &*frame.event {
        "ready" => {
            if is_first {
                world.ledger.listens(number, listening);
            }
            return Ok(());
        }
        "entity.created" | "entity.updated" => false,
        "entity.deleted" => true,
        _ => return Err(format!("an event that must not be: {frame:?}")),
    };
    let data: Value = serde_json::from_str(&frame.data).map_err(|error| format!("{error} in {frame:?}"))?;
    let record = &data["data"]["record"];
    let (Some(event), Some(key), Some(version)) =
        (data["id"].as_str(), record["key"].as_i64(), record["version"].as_i64())
    else {
        return Err(format!("no event of this test: {frame:?}"));
    };
    let version = if deleted { version + 1 } else { version };
    world.ledger.receives(number, Received { event: event.to_owned(), key, version, deleted });
    Ok(())
}

/// The position in the answer of a list.
async fn position_of_a_list(world: &World, listening: Listening, random: &mut Random) -> Option<String> {
    let server = random.below(world.addresses.len());
    let stream = Stream::request(world, server, &format!("/{}", listening.table), listening, None).await.ok()?;
    stream.headers.iter().find_map(|line| line.strip_prefix("event-cursor: ").map(str::to_owned))
}

#[derive(Debug, Default)]
struct Frame {
    id: String,
    event: String,
    data: String,
}

/// An answer that is read incrementally.
struct Stream {
    connection: BufReader<TcpStream>,
    headers: Vec<String>,
    /// Bytes that were read and belong to no complete frame yet.
    text: Vec<u8>,
}

impl Stream {
    async fn open(world: &World, server: usize, listening: Listening, since: Option<&str>) -> io::Result<Self> {
        let path = format!("/{}/_events", listening.table);
        let stream = Self::request(world, server, &path, listening, since).await?;
        if stream.headers[0].starts_with("http/1.1 200") { Ok(stream) } else { Err(io::ErrorKind::Other.into()) }
    }

    async fn request(
        world: &World,
        server: usize,
        path: &str,
        listening: Listening,
        since: Option<&str>,
    ) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
        let address = world.addresses[server].parse().map_err(io::Error::other)?;
        let mut connection = BufReader::new(socket.connect(address).await?);
        let bearer = |account: usize| format!("Authorization: {}\r\n", world.accounts[account].bearer);
        let account = listening.account.map_or_else(String::new, bearer);
        let since = since.map_or_else(String::new, |since| format!("Last-Event-ID: {since}\r\n"));
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n{account}{since}\r\n");
        connection.write_all(request.as_bytes()).await?;
        let mut headers = Vec::new();
        loop {
            let line = line(&mut connection).await?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            headers.push(line);
        }
        if headers.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Self { connection, headers, text: Vec::new() })
    }

    /// The next frame with a position.
    async fn frame(&mut self) -> io::Result<Frame> {
        loop {
            while let Some(end) = self.text.windows(2).position(|bytes| bytes == b"\n\n") {
                let text: Vec<u8> = self.text.drain(..end + 2).collect();
                let frame = parse(std::str::from_utf8(&text).map_err(io::Error::other)?);
                if !frame.event.is_empty() {
                    return Ok(frame);
                }
            }
            let length = usize::from_str_radix(&line(&mut self.connection).await?, 16).map_err(io::Error::other)?;
            let start = self.text.len();
            self.text.resize(start + length, 0);
            self.connection.read_exact(&mut self.text[start..]).await?;
            line(&mut self.connection).await?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// A line without its end.
async fn line(connection: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    if connection.read_line(&mut line).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

fn parse(text: &str) -> Frame {
    let mut frame = Frame::default();
    for line in text.lines() {
        match line.split_once(": ") {
            Some(("id", value)) => value.clone_into(&mut frame.id),
            Some(("event", value)) => value.clone_into(&mut frame.event),
            Some(("data", value)) => frame.data.push_str(value),
            _ => {}
        }
    }
    frame
}

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::child::Server;
use crate::load::{self, get, once, post};

/// Streams that resume together, and the number of events that each has missed.
const RESUMING: u64 = 1_000;
const MISSED: u64 = 200;
/// The number of events that a single stream has missed.
const MISSED_BY_ONE: u64 = 20_000;
/// Open streams in each run.
const SUBSCRIBERS: [u64; 2] = [1_000, 5_000];
/// Streams that are opened at the same time.
const OPENING: usize = 64;
/// Writers under load, and single events for the time until the last stream has one.
const WRITERS: usize = 4;
const SINGLES: usize = 50;
/// The time limit of a run in addition to its load, so that a blocked server fails it.
const TIMEOUT: Duration = Duration::from_mins(3);
/// A text that is in every record once and nowhere else in an event.
const MARK: u8 = b'~';

/// Opens streams of a hand-written program and of ours, waits, and writes to them. Measures the memory of an idle stream, the time from a write to the last
/// of all streams, and events and processor time under load. Before that, streams resume: many together, and one that
/// is far behind.
pub(crate) async fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let seconds = arguments.first().map_or(Ok(5), |text| text.parse())?;
    let files = rlimit::increase_nofile_limit(u64::MAX)?;
    let mut report = Vec::new();
    for (streams, missed) in [(RESUMING, MISSED), (1, MISSED_BY_ONE)] {
        let resumed = tokio::time::timeout(TIMEOUT, resume(streams, missed)).await;
        report.push(resumed.context("the resume took too long")??);
    }
    for subscribers in SUBSCRIBERS {
        if files < subscribers + 200 {
            report.push(format!("{subscribers} streams: left out, this process may open {files} files"));
            continue;
        }
        let time = Duration::from_secs(seconds);
        let both = async {
            let folder = tempfile::tempdir()?;
            let by_hand = measure(by_hand(&folder)?, subscribers, time).await?;
            let ours = measure(serve(&folder)?, subscribers, time).await?;
            anyhow::Ok(compare(subscribers, &ours, &by_hand))
        };
        let measured = tokio::time::timeout(2 * (time + TIMEOUT), both).await;
        report.push(measured.with_context(|| format!("{subscribers} streams took too long"))??);
    }
    println!("\n{}", report.join("\n"));
    Ok(())
}

/// What `subscribers` streams of one server cost.
struct Measured {
    /// Bytes of an idle stream.
    idle: f64,
    /// From a write until the last stream has it.
    median: Duration,
    p99: Duration,
    /// Under load, per second: writes, and events that streams received.
    writes: f64,
    events: f64,
    /// Microseconds of processor time for an event.
    cost: f64,
}

#[expect(clippy::cast_precision_loss, reason = "rates for people to read")]
async fn measure(server: Server, subscribers: u64, time: Duration) -> anyhow::Result<Measured> {
    // The first requests allocate the memory that all later ones share.
    for _ in 0..100 {
        once(server.address, &event()).await?;
    }
    let before = resident(server.id())?;
    let seen = Arc::new(AtomicU64::new(0));
    let _readers = subscribe(server.address, subscribers, None, &seen).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let idle = resident(server.id())?.saturating_sub(before) as f64 / subscribers as f64;

    let mut times = Vec::new();
    for _ in 0..SINGLES {
        let wanted = seen.load(Ordering::Relaxed) + subscribers;
        let begun = Instant::now();
        once(server.address, &event()).await?;
        while seen.load(Ordering::Relaxed) < wanted {
            ensure!(begun.elapsed() < Duration::from_secs(10), "an event did not reach every stream");
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        times.push(begun.elapsed());
    }
    times.sort_unstable();

    let (worked, told, begun) = (processor_time(server.id())?, seen.load(Ordering::Relaxed), Instant::now());
    let written = load::run(server.address, WRITERS, time, |_, _| event()).await?;
    let told = (seen.load(Ordering::Relaxed) - told) as f64;
    let events = told / begun.elapsed().as_secs_f64();
    let cost = processor_time(server.id())?.saturating_sub(worked).as_secs_f64() * 1e6 / told;
    let (median, p99) = (times[SINGLES / 2], times[SINGLES * 99 / 100]);
    Ok(Measured { idle, median, p99, writes: written.rate, events, cost })
}

fn compare(subscribers: u64, ours: &Measured, by_hand: &Measured) -> String {
    let Measured { idle, median, p99, writes, events, cost } = ours;
    format!(
        "{subscribers} streams: {idle:.0} bytes each when idle (by hand {:.0}); a write reaches the last of them within \
         {median:?} (p99 {p99:?}; by hand {:?}, {:?}); under load {writes:.0} writes/s and {events:.0} events/s to streams, \
         {cost:.2} µs of processor time for each (by hand {:.0} writes/s, {:.0} events/s, {:.2} µs): {:.2} of the events/s",
        by_hand.idle,
        by_hand.median,
        by_hand.p99,
        by_hand.writes,
        by_hand.events,
        by_hand.cost,
        events / by_hand.events
    )
}

fn by_hand(folder: &tempfile::TempDir) -> anyhow::Result<Server> {
    let file = folder.path().join("floor.db").display().to_string();
    Server::start(Command::new(std::env::current_exe()?).args(["floor", "sqlite", &file, "group"]))
}

fn serve(folder: &tempfile::TempDir) -> anyhow::Result<Server> {
    let config = folder.path().join("gatewright.toml");
    std::fs::write(&config, CONFIGURATION)?;
    Server::gatewright(&config, &format!("sqlite://{}", folder.path().join("bench.db").display()))
}

/// Lets streams resume together, each behind by the same number of events. Returns the time until all are up to date.
#[expect(clippy::cast_precision_loss, reason = "rates for people to read")]
async fn resume(streams: u64, missed: u64) -> anyhow::Result<String> {
    let folder = tempfile::tempdir()?;
    let server = serve(&folder)?;
    once(server.address, &event()).await?;
    let (_stream, opening) = open(server.address, None).await?;
    let opening = String::from_utf8_lossy(&opening).into_owned();
    let since =
        opening.lines().find_map(|line| line.strip_prefix("id: ")).context("a stream begins with a position")?;
    for _ in 0..missed {
        once(server.address, &event()).await?;
    }
    let seen = Arc::new(AtomicU64::new(0));
    let (worked, begun) = (processor_time(server.id())?, Instant::now());
    let _readers = subscribe(server.address, streams, Some(since), &seen).await?;
    let opened = begun.elapsed();
    while seen.load(Ordering::Relaxed) < streams * missed {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (took, events) = (begun.elapsed(), (streams * missed) as f64);
    let cost = processor_time(server.id())?.saturating_sub(worked).as_secs_f64() * 1e6 / events;
    Ok(format!(
        "{streams} streams resume at once, each behind {missed} events: open after {opened:?}, caught up after {took:?}, \
         {:.0} events/s, {cost:.2} µs of processor time for each",
        events / took.as_secs_f64()
    ))
}

/// Opens streams that count their events until the set is dropped.
async fn subscribe(
    address: SocketAddr,
    count: u64,
    since: Option<&str>,
    seen: &Arc<AtomicU64>,
) -> anyhow::Result<JoinSet<()>> {
    let mut readers = JoinSet::new();
    let mut opening = JoinSet::new();
    let mut begin = |(stream, answer): (TcpStream, Vec<u8>)| {
        seen.fetch_add(marks(&answer), Ordering::Relaxed);
        readers.spawn(read(stream, seen.clone()));
    };
    for _ in 0..count {
        opening.spawn(open(address, since.map(str::to_owned)));
        if opening.len() >= OPENING {
            begin(opening.join_next().await.context("some are opening")???);
        }
    }
    while let Some(opened) = opening.join_next().await {
        begin(opened??);
    }
    ensure!(u64::try_from(readers.len())? == count, "every stream was opened");
    Ok(readers)
}

/// A stream, and the data that it has received.
async fn open(address: SocketAddr, since: Option<String>) -> anyhow::Result<(TcpStream, Vec<u8>)> {
    let mut stream = TcpStream::connect(address).await?;
    let path = since.map_or_else(|| "/posts/_events".to_owned(), |since| format!("/posts/_events?since={since}"));
    stream.write_all(&get(&path)).await?;
    let mut answer = Vec::new();
    while !answer.windows(12).any(|bytes| bytes == b"event: ready") {
        ensure!(stream.read_buf(&mut answer).await? > 0, "the server closed a stream");
    }
    ensure!(answer.starts_with(b"HTTP/1.1 200"), "the server refused a stream");
    Ok((stream, answer))
}

async fn read(mut stream: TcpStream, seen: Arc<AtomicU64>) {
    let mut bytes = vec![0; 8_192];
    while let Ok(length @ 1..) = stream.read(&mut bytes).await {
        seen.fetch_add(marks(&bytes[..length]), Ordering::Relaxed);
    }
}

fn marks(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte == MARK)).sum()
}

fn event() -> Vec<u8> {
    post("/posts", r#"{"title":"A title of some length, and one mark: ~","status":"draft"}"#)
}

/// The memory of a process, in bytes.
fn resident(process: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("the status has a line VmRSS")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1_024)
}

/// The processor time of a process so far, in user and kernel mode.
fn processor_time(process: u32) -> anyhow::Result<Duration> {
    /// The unit of that file on Linux, regardless of the kernel's tick rate.
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, after_name) = stat.rsplit_once(") ").context("the stat has a name in parentheses")?;
    let fields: Vec<&str> = after_name.split(' ').collect();
    let ticks = fields[11].parse::<u32>()? + fields[12].parse::<u32>()?;
    Ok(TICK * ticks)
}

const CONFIGURATION: &str = r#"
[auth]
jwt_secret = "a benchmark needs no secrecy, only bytes"
[[entity]]
name = "posts"
public = true
[[entity.field]]
name = "title"
type = "string"
[[entity.field]]
name = "status"
type = "string"
"#;

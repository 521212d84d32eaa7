//! Large records and the memory that their events take, over both engines.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gatewright_base::{Ambient, Budget, Identity, TokenId};
use gatewright_db::testing::engines;
use gatewright_db::{Db, Error, Tx};
use gatewright_events::log::Following;
use gatewright_events::outbox::pull::PullError;
use gatewright_events::outbox::{Consumer, Event, Outbox, OutboxOptions, PullConsumer, Pulls};
use gatewright_events::sse::{EventBody, Params, Subscribe};
use gatewright_events::{Bus, EntityEvent, EventKind, EventLog, LogOptions, StreamOptions, Streams};
use http_body_util::BodyExt;

use crate::support::user;

const MIB: usize = 1 << 20;

/// A server on a database.
struct Replica {
    db: Db,
    log: EventLog,
    bus: Bus,
    streams: Streams,
    _following: Following,
}

impl Replica {
    async fn start(db: &Db, options: LogOptions) -> Self {
        let budget = options.budget.clone();
        let log = EventLog::open(db.clone(), Ambient::system(), options).await.unwrap();
        let bus = Bus::new(&Ambient::system());
        let following = log.follow(&bus);
        let options = StreamOptions {
            log: Some(log.clone()),
            heartbeat: Duration::from_millis(100),
            budget,
            ..StreamOptions::default()
        };
        let streams = Streams::start(&bus, options);
        Self { db: db.clone(), log, bus, streams, _following: following }
    }

    /// Commits the event of a record of this size, the `n`th.
    async fn write(&self, n: usize, bytes: usize) {
        let (log, bus, text) = (self.log.clone(), self.bus.clone(), "x".repeat(bytes));
        let write = async move |tx: &Tx| -> Result<(), Error> {
            tx.execute("UPDATE counters SET n = n + 1", vec![]).await?;
            let json = format!(r#"{{"id":"r","n":{n},"text":"{text}"}}"#);
            let event = log.append(tx, EntityEvent::new(EventKind::Updated, "posts", "posts", json), None).await?;
            let bus = bus.clone();
            tx.after_commit(move || drop(bus.publish(event)));
            Ok(())
        };
        self.db.write(write).await.unwrap();
    }

    fn open(&self, caller: Identity, since: Option<String>) -> Listener {
        let params = Params { since, ..Params::default() };
        let body = self.streams.subscribe(Subscribe::new("posts", caller, params, |_| true)).unwrap();
        Listener { body, buffer: String::new() }
    }

    async fn log_bytes(&self) -> usize {
        let sql = "SELECT CAST(COALESCE(SUM(LENGTH(record)), 0) AS BIGINT) AS bytes FROM event_log";
        let bytes: i64 = self.db.query_opt(sql, vec![]).await.unwrap().unwrap().get("bytes").unwrap();
        usize::try_from(bytes).unwrap()
    }
}

struct Listener {
    body: EventBody,
    buffer: String,
}

impl Listener {
    /// The next frame's kind and the number of its record.
    async fn next(&mut self) -> (String, usize) {
        let read = async {
            loop {
                while let Some(end) = self.buffer.find("\n\n") {
                    let text: String = self.buffer.drain(..end + 2).collect();
                    let Some(kind) = text.lines().find_map(|line| line.strip_prefix("event: ")) else { continue };
                    let number = text.split("\"n\":").nth(1).and_then(|rest| rest.split(',').next()?.parse().ok());
                    return (kind.to_owned(), number.unwrap_or(usize::MAX));
                }
                let data = self.body.frame().await.unwrap().unwrap().into_data().unwrap();
                self.buffer.push_str(std::str::from_utf8(&data).unwrap());
            }
        };
        tokio::time::timeout(Duration::from_mins(1), read).await.expect("a frame within a minute")
    }
}

async fn prepare(db: &Db) {
    db.execute("CREATE TABLE counters (n INTEGER NOT NULL)", vec![]).await.unwrap();
    db.execute("INSERT INTO counters (n) VALUES (0)", vec![]).await.unwrap();
}

async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), wait).await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test]
async fn streams_that_resume_take_their_memory_from_their_callers_share_and_miss_nothing() {
    for engine in engines().await {
        prepare(&engine.db).await;
        let budget = Budget::new(32 * MIB);
        let replica = Replica::start(&engine.db, LogOptions { budget: budget.clone(), ..LogOptions::default() }).await;
        let start = replica.log.cursor().to_string();
        for n in 0..24 {
            replica.write(n, MIB).await;
        }
        replica.write(24, 10).await;
        let mut streams: Vec<Listener> = (0..2).map(|_| replica.open(user("ann"), Some(start.clone()))).collect();
        streams.push(replica.open(user("bob"), Some(start.clone())));
        // Nobody reads: each caller's streams fill their share and wait.
        until("pages are counted", async || budget.used() >= 3 * MIB).await;
        for _ in 0..100 {
            assert!(budget.used() <= 2 * 8 * MIB + 4 * MIB, "{} MiB", budget.used() / MIB);
            tokio::task::yield_now().await;
        }
        // Another caller's memory is free.
        budget.lease(Some("caller cleo")).grow(8 * MIB).unwrap();
        for mut stream in streams {
            let mut numbers = Vec::new();
            while numbers.len() < 25 {
                let (kind, number) = stream.next().await;
                assert_ne!(kind, "gap");
                if kind == "entity.updated" {
                    numbers.push(number);
                }
                assert!(budget.used() <= 32 * MIB);
            }
            assert_eq!(numbers, (0..25).collect::<Vec<_>>());
        }
        until("all is given back", async || budget.used() == 0).await;
    }
}

#[tokio::test]
async fn live_events_of_large_records_are_counted_and_a_stream_without_memory_for_them_reads_the_log() {
    for engine in engines().await {
        prepare(&engine.db).await;
        let budget = Budget::new(16 * MIB);
        let replica = Replica::start(&engine.db, LogOptions { budget: budget.clone(), ..LogOptions::default() }).await;
        let (mut slow, mut quick) = (replica.open(user("ann"), None), replica.open(user("bob"), None));
        assert_eq!((slow.next().await.0, quick.next().await.0), ("ready".to_owned(), "ready".to_owned()));
        for n in 0..20 {
            replica.write(n, MIB).await;
            assert_eq!(quick.next().await, ("entity.updated".to_owned(), n));
            assert!(budget.used() <= 16 * MIB);
        }
        for n in 0..20 {
            assert_eq!(slow.next().await, ("entity.updated".to_owned(), n));
        }
        drop((slow, quick));
        until("all is given back", async || budget.used() == 0).await;
    }
}

#[tokio::test]
async fn a_log_with_too_many_bytes_loses_its_oldest_events_at_once() {
    for engine in engines().await {
        prepare(&engine.db).await;
        let replica = Replica::start(&engine.db, LogOptions { keep_bytes: 2 << 20, ..LogOptions::default() }).await;
        let start = replica.log.cursor().to_string();
        let mut live = replica.open(user("ann"), None);
        live.next().await;
        for n in 0..60 {
            replica.write(n, MIB / 8).await;
            assert_eq!(live.next().await, ("entity.updated".to_owned(), n));
        }
        until("the oldest go", async || replica.log_bytes().await <= 2 * MIB).await;
        assert!(replica.log_bytes().await >= MIB, "only as many as needed");
        let kept = replica.log.cursor().to_string();
        replica.write(60, 10).await;
        let mut resumed = replica.open(user("ann"), Some(kept));
        assert_eq!(resumed.next().await.0, "ready");
        assert_eq!(resumed.next().await, ("entity.updated".to_owned(), 60), "what is kept is not lost");
        let mut late = replica.open(user("ann"), Some(start));
        assert_eq!(late.next().await.0, "ready");
        assert_eq!(late.next().await.0, "gap");
    }
}

#[tokio::test]
async fn a_server_that_reads_the_log_too_late_tells_its_streams_that_events_are_missing() {
    for engine in engines().await {
        prepare(&engine.db).await;
        let late = LogOptions { poll_interval: Duration::from_secs(2), ..LogOptions::default() };
        let late = Replica::start(&engine.db, late).await;
        let mut listener = late.open(user("ann"), None);
        assert_eq!(listener.next().await.0, "ready");
        let writer = Replica::start(&engine.db, LogOptions { keep_bytes: 256 << 10, ..LogOptions::default() }).await;
        let mut timely = writer.open(user("ann"), None);
        assert_eq!(timely.next().await.0, "ready");
        for n in 0..40 {
            writer.write(n, MIB / 8).await;
            assert_eq!(timely.next().await, ("entity.updated".to_owned(), n));
        }
        until("most are removed", async || writer.log_bytes().await <= MIB / 2).await;
        // It has read some before they were removed, or none.
        let mut kind = listener.next().await.0;
        while kind == "entity.updated" {
            kind = listener.next().await.0;
        }
        assert_eq!(kind, "gap");
        writer.write(40, 10).await;
        while listener.next().await != ("entity.updated".to_owned(), 40) {}
        // Only its own streams missed something: the log keeps its name, and both servers accept its positions.
        assert_eq!(timely.next().await, ("entity.updated".to_owned(), 40));
        // A stream that misses something reads the log itself, perhaps before its server does.
        let since = writer.log.cursor().to_string();
        until("the late server reads it", async || late.log.cursor().to_string() == since).await;
        writer.write(41, 10).await;
        assert_eq!(timely.next().await, ("entity.updated".to_owned(), 41));
        for server in [&late, &writer] {
            let mut resumed = server.open(user("ann"), Some(since.clone()));
            assert_eq!(resumed.next().await.0, "ready");
            assert_eq!(resumed.next().await, ("entity.updated".to_owned(), 41));
        }
    }
}

#[tokio::test]
async fn a_relay_reads_no_more_payloads_than_its_share_of_memory() {
    for engine in engines().await {
        let budget = Budget::new(16 * MIB);
        let options = OutboxOptions {
            poll_interval: Duration::from_millis(20),
            budget: budget.clone(),
            ..OutboxOptions::default()
        };
        let outbox = Outbox::open(engine.db.clone(), Ambient::system(), options).await.unwrap();
        let (most, count) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let consumer = Consumer::new("slow", "a", {
            let (budget, most, count) = (budget.clone(), most.clone(), count.clone());
            move |_: Event| {
                most.fetch_max(budget.used(), Ordering::Relaxed);
                let count = count.clone();
                async move {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    count.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, String>(())
                }
            }
        });
        let relay = outbox.relay().declare(consumer.unwrap()).unwrap().start();
        for n in 0..20 {
            let (outbox, payload) = (outbox.clone(), serde_json::json!({ "n": n, "text": "x".repeat(MIB) }));
            let append = async move |tx: &Tx| outbox.append(tx, "a", payload.as_object().unwrap()).await;
            engine.db.write(append).await.unwrap();
        }
        until("all are delivered", async || count.load(Ordering::Relaxed) >= 20).await;
        let most = most.load(Ordering::Relaxed);
        assert!((2 * MIB..=4 * MIB).contains(&most), "{} MiB", most / MIB);
        until("all is given back", async || budget.used() == 0).await;
        relay.stop(Duration::from_secs(10)).await;
        assert_eq!(count.load(Ordering::Relaxed), 20, "each once");
    }
}

#[tokio::test]
async fn a_pull_without_memory_is_refused_and_its_events_stay_for_others() {
    for engine in engines().await {
        let budget = Budget::new(24 * MIB);
        let options = OutboxOptions {
            poll_interval: Duration::from_millis(20),
            budget: budget.clone(),
            ..OutboxOptions::default()
        };
        let outbox = Outbox::open(engine.db.clone(), Ambient::system(), options).await.unwrap();
        let pulls = Pulls::new(&outbox, vec![PullConsumer::new("worker", "a").unwrap()]);
        let _relay = outbox.relay().pulled(&pulls).unwrap().start();
        for n in 0..8 {
            let (outbox, payload) = (outbox.clone(), serde_json::json!({ "n": n, "text": "x".repeat(MIB) }));
            let append = async move |tx: &Tx| outbox.append(tx, "a", payload.as_object().unwrap()).await;
            engine.db.write(append).await.unwrap();
        }
        let [ann, bob] = ["ann", "bob"].map(|token| TokenId::parse(token).unwrap());
        let wait = Duration::from_secs(20);
        let first = pulls.pull("worker", &ann, 100, wait).await.unwrap();
        assert_eq!(first.len(), 2, "a share is 6 MiB, and an event counts twice");
        let refused = pulls.pull("worker", &ann, 100, wait).await;
        assert!(matches!(refused, Err(PullError::NoMemory)), "{refused:?}");
        let second = pulls.pull("worker", &bob, 100, wait).await.unwrap();
        assert_eq!(second.iter().map(Event::attempt).collect::<Vec<_>>(), [1, 1], "nothing was taken from others");
        drop((first, second));
        let third = pulls.pull("worker", &ann, 100, wait).await.unwrap();
        assert_eq!(third.iter().map(Event::attempt).collect::<Vec<_>>(), [1, 1]);
    }
}

//! Streams that resume, over both engines.
//!
//! It is long because every way in which a stream could miss an event has its test here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gatewright_base::{Ambient, Identity};
use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{Db, Error, Options, Tx};
use gatewright_events::log::Following;
use gatewright_events::sse::{EventBody, Params, Subscribe, Visibility};
use gatewright_events::{Bus, EntityEvent, EventKind, EventLog, LogOptions, StreamOptions, Streams};
use http_body_util::BodyExt;

/// A server on a database.
pub(crate) struct Replica {
    db: Db,
    pub(crate) log: EventLog,
    bus: Bus,
    streams: Streams,
    _following: Following,
}

impl Replica {
    pub(crate) async fn start(db: &Db) -> Self {
        Self::keeping(db, Duration::from_mins(10)).await
    }

    async fn keeping(db: &Db, keep: Duration) -> Self {
        let options = LogOptions { keep, poll_interval: Duration::from_millis(20), ..LogOptions::default() };
        let log = EventLog::open(db.clone(), Ambient::system(), options).await.unwrap();
        let bus = Bus::new(&Ambient::system());
        let following = log.follow(&bus);
        let streams = Streams::start(&bus, StreamOptions { log: Some(log.clone()), ..StreamOptions::default() });
        Self { db: db.clone(), log, bus, streams, _following: following }
    }

    /// Commits a write to `record` of `posts`, the `n`th of all. Its event is published on the bus only with the flag.
    pub(crate) async fn write(&self, record: &str, n: usize, told: bool) -> Result<(), Error> {
        self.transaction(vec![(record.to_owned(), n)], told, Duration::ZERO, true).await
    }

    async fn transaction(
        &self,
        writes: Vec<(String, usize)>,
        told: bool,
        takes: Duration,
        commits: bool,
    ) -> Result<(), Error> {
        let (log, bus) = (self.log.clone(), self.bus.clone());
        self.db
            .write(async move |tx: &Tx| -> Result<(), Error> {
                let mut events = Vec::new();
                for (record, n) in &writes {
                    tx.execute("UPDATE counters SET n = n + 1 WHERE id = ?1", vec![record.as_str().into()]).await?;
                    let json = format!(r#"{{"id":"{record}","n":{n}}}"#);
                    let event = EntityEvent::new(EventKind::Updated, "posts", "posts", json);
                    events.push(log.append(tx, event, None).await?);
                    if !takes.is_zero() {
                        tokio::time::sleep(takes).await;
                    }
                }
                if !commits {
                    return Err(Error::Closed);
                }
                let bus = bus.clone();
                tx.after_commit(move || {
                    if told {
                        drop(bus.publish_all(events));
                    }
                });
                Ok(())
            })
            .await
    }

    pub(crate) fn open(&self, since: Option<&str>) -> Listener {
        let params = Params { since: since.map(str::to_owned), ..Params::default() };
        Listener::new(self.streams.subscribe(Subscribe::new("posts", Identity::Anonymous, params, |_| true)).unwrap())
    }
}

async fn prepare(db: &Db, records: usize) {
    db.execute("CREATE TABLE counters (id TEXT PRIMARY KEY, n INTEGER NOT NULL)", vec![]).await.unwrap();
    for record in 0..records {
        db.execute("INSERT INTO counters (id, n) VALUES (?1, 0)", vec![format!("r{record}").into()]).await.unwrap();
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) data: serde_json::Value,
}

impl Frame {
    pub(crate) fn n(&self) -> usize {
        self.data["data"]["record"]["n"].as_u64().map_or(usize::MAX, |n| usize::try_from(n).unwrap())
    }
}

pub(crate) struct Listener {
    body: EventBody,
    buffer: String,
}

impl Listener {
    fn new(body: EventBody) -> Self {
        Self { body, buffer: String::new() }
    }

    pub(crate) async fn next(&mut self) -> Option<Frame> {
        tokio::time::timeout(Duration::from_mins(1), self.read()).await.expect("no frame within a minute")
    }

    async fn read(&mut self) -> Option<Frame> {
        loop {
            while let Some(end) = self.buffer.find("\n\n") {
                let text: String = self.buffer.drain(..end + 2).collect();
                let mut frame = Frame { id: String::new(), kind: String::new(), data: serde_json::Value::Null };
                for line in text.lines() {
                    match line.split_once(": ") {
                        Some(("id", id)) => id.clone_into(&mut frame.id),
                        Some(("event", kind)) => kind.clone_into(&mut frame.kind),
                        Some(("data", data)) => frame.data = serde_json::from_str(data).unwrap(),
                        _ => {}
                    }
                }
                if !frame.kind.is_empty() {
                    return Some(frame);
                }
            }
            let data = self.body.frame().await?.unwrap().into_data().unwrap();
            self.buffer.push_str(std::str::from_utf8(&data).unwrap());
        }
    }

    pub(crate) async fn events(&mut self, count: usize) -> Vec<Frame> {
        let mut events = Vec::new();
        while events.len() < count {
            let frame = self.next().await.unwrap();
            if frame.kind.starts_with("entity.") {
                events.push(frame);
            }
        }
        events
    }

    /// The numbers of that many events.
    pub(crate) async fn numbers(&mut self, count: usize) -> Vec<usize> {
        self.events(count).await.iter().map(Frame::n).collect()
    }
}

pub(crate) async fn each_engine(test: impl AsyncFn(&TestDb)) {
    for engine in engines().await {
        prepare(&engine.db, 8).await;
        test(&engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_starts_with_its_position_and_each_frame_has_one() {
    each_engine(async |engine| {
        let server = Replica::start(&engine.db).await;
        let mut listener = server.open(None);
        let ready = listener.next().await.unwrap();
        assert_eq!((ready.kind.as_str(), ready.data["cursor"].as_str()), ("ready", Some(ready.id.as_str())));
        server.write("r1", 1, true).await.unwrap();
        let frame = listener.next().await.unwrap();
        assert_ne!(frame.id, ready.id);
        assert_eq!(frame.data["id"].as_str().map(str::len), Some(36));
        assert_eq!(frame.data["type"], "entity.updated");
        assert_eq!(frame.n(), 1);
        // Both positions are valid, and a stream resumes after the given one.
        for n in 2..5 {
            server.write("r1", n, true).await.unwrap();
        }
        for (since, first) in [(&ready.id, 1), (&frame.id, 2)] {
            let mut resumed = server.open(Some(since));
            assert_eq!(resumed.next().await.unwrap().id, *since);
            assert_eq!(resumed.numbers(5 - first).await, (first..5).collect::<Vec<_>>());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_between_reading_a_cursor_and_opening_a_stream_is_not_missed() {
    each_engine(async |engine| {
        let server = Replica::start(&engine.db).await;
        let cursor = server.log.cursor().to_string();
        server.write("r1", 1, true).await.unwrap();
        let mut listener = server.open(Some(&cursor));
        server.write("r1", 2, true).await.unwrap();
        assert_eq!(listener.numbers(2).await, [1, 2]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_resumes_on_another_replica_and_after_a_restart() {
    each_engine(async |engine| {
        let first = Replica::start(&engine.db).await;
        let mut listener = first.open(None);
        first.write("r1", 1, true).await.unwrap();
        let seen = listener.events(1).await[0].id.clone();
        first.write("r1", 2, true).await.unwrap();
        drop((listener, first));
        let second = Replica::start(&engine.db).await;
        let mut listener = second.open(Some(&seen));
        second.write("r1", 3, true).await.unwrap();
        assert_eq!(listener.numbers(2).await, [2, 3]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_without_a_carrier_find_each_others_events() {
    each_engine(async |engine| {
        let [here, there] = [Replica::start(&engine.db).await, Replica::start(&engine.db).await];
        let mut listeners = [here.open(None), there.open(None)];
        // One of them is lost between its commit and the bus: its own server finds it too.
        for n in 1..20 {
            here.write("r1", n, n != 7).await.unwrap();
        }
        for listener in &mut listeners {
            assert_eq!(listener.numbers(19).await, (1..20).collect::<Vec<_>>());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_does_not_skip_a_transaction_that_commits_late() {
    let engines = engines().await;
    let Some(engine) = engines.iter().find(|engine| engine.name == "postgres") else { return };
    prepare(&engine.db, 8).await;
    let server = Arc::new(Replica::start(&engine.db).await);
    let mut listener = server.open(None);
    let late = {
        let server = server.clone();
        tokio::spawn(async move {
            server.transaction(vec![("r1".into(), 1)], true, Duration::from_millis(600), true).await.unwrap();
        })
    };
    let failed = {
        let server = server.clone();
        tokio::spawn(async move {
            let writes = vec![("r2".into(), 99)];
            server.transaction(writes, true, Duration::from_millis(200), false).await.unwrap_err();
        })
    };
    // Once both have their positions.
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.write("r3", 2, true).await.unwrap();
    let early = listener.events(1).await.remove(0);
    assert_eq!(early.n(), 2, "a live event does not wait for the late one");
    late.await.unwrap();
    failed.await.unwrap();
    assert_eq!(listener.events(1).await[0].n(), 1);
    let mut resumed = server.open(Some(&early.id));
    let seen: BTreeSet<usize> = resumed.numbers(2).await.into_iter().collect();
    assert!(seen.contains(&1), "{seen:?}");
    // The position of the failed write delays nothing.
    let began = tokio::time::Instant::now();
    loop {
        server.write("r3", 3, true).await.unwrap();
        let frame = listener.events(1).await.remove(0);
        let mut resumed = server.open(Some(&frame.id));
        server.write("r3", 4, true).await.unwrap();
        let next = resumed.events(1).await[0].n();
        listener.events(1).await;
        if next == 4 {
            break;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "the position does not move");
    }
}

/// The stream reads past a position that is open, its client stops, and the next page is read after it was settled.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_commits_between_two_pages_of_a_catch_up_is_not_skipped() {
    const WRITTEN: usize = 320;
    let engines = engines().await;
    let Some(engine) = engines.iter().find(|engine| engine.name == "postgres") else { return };
    prepare(&engine.db, 8).await;
    let server = Arc::new(Replica::start(&engine.db).await);
    let mut listener = server.open(None);
    server.write("r0", 0, true).await.unwrap();
    let start = listener.events(1).await.remove(0).id;
    drop(listener);
    let late = {
        let server = server.clone();
        tokio::spawn(async move {
            server.transaction(vec![("r1".into(), 1)], true, Duration::from_secs(5), true).await.unwrap();
        })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    let others = (2..WRITTEN + 2).map(|n| ("r2".to_owned(), n)).collect();
    server.transaction(others, true, Duration::ZERO, true).await.unwrap();
    let mut resumed = server.open(Some(&start));
    let mut frames = resumed.events(20).await;
    assert!(!late.is_finished(), "the machine is too slow for this test");
    late.await.unwrap();
    server.write("r3", WRITTEN + 2, true).await.unwrap();
    // Another stream has read what the first one reads next, and knows more.
    let mut other = server.open(Some(&start));
    let seen: BTreeSet<usize> = other.numbers(WRITTEN + 2).await.into_iter().collect();
    assert_eq!(seen.len(), WRITTEN + 2);
    frames.extend(resumed.events(WRITTEN + 2 - 20).await);
    let seen: Vec<usize> = frames.iter().map(Frame::n).collect();
    assert_eq!(seen.iter().copied().collect::<BTreeSet<_>>(), (1..WRITTEN + 3).collect(), "{seen:?}");
    // No position that a client got skips an event that it did not get.
    let late_at = seen.iter().position(|n| *n == 1).unwrap();
    for before in [19, 100, 250, 257, 300].into_iter().filter(|at| *at < late_at) {
        let mut again = server.open(Some(&frames[before].id));
        let first = again.events(1).await.remove(0).n();
        assert_eq!(first, 1, "resumed from event {before}");
    }
}

/// The attack: streams that resume from far behind, with filters that take long and let nothing through.
#[tokio::test]
async fn a_stream_that_is_behind_yields_between_its_tests() {
    const EVENTS: usize = 60;
    each_engine(async |engine| {
        let server = Replica::start(&engine.db).await;
        server.write("r1", 0, true).await.unwrap();
        let since = Some(server.open(None).next().await.unwrap().id);
        for n in 1..=EVENTS {
            server.write("r1", n, true).await.unwrap();
        }
        let tested = Arc::new(AtomicUsize::new(0));
        let counting = tested.clone();
        let slow = Subscribe::new("posts", Identity::Anonymous, Params { since, ..Params::default() }, move |_| {
            std::thread::sleep(Duration::from_millis(1));
            counting.fetch_add(1, Ordering::SeqCst);
            false
        });
        let _stream = server.streams.subscribe(slow).unwrap();
        // Another task on the same thread.
        let (mut last, mut most) = (0, 0);
        while last < EVENTS {
            tokio::task::yield_now().await;
            let now = tested.load(Ordering::SeqCst);
            most = most.max(now - last);
            last = now;
        }
        assert!(most <= 2, "{most} tests without a turn for others, on {}", engine.name);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_or_unknown_position_is_a_gap_and_a_bad_one_is_refused() {
    each_engine(async |engine| {
        let server = Replica::keeping(&engine.db, Duration::from_millis(300)).await;
        server.write("r1", 1, true).await.unwrap();
        let first = server.open(None).next().await.unwrap().id;
        let old = first.rsplit_once('-').map(|(log, _)| format!("{log}-0")).unwrap();
        let began = tokio::time::Instant::now();
        while server.db.query("SELECT id FROM event_log", vec![]).await.unwrap().len() == 1 {
            assert!(began.elapsed() < Duration::from_mins(1), "old rows stay");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for since in [old.as_str(), "0123456789abcdef-1", &first.replace('-', "-7fffff")] {
            let mut listener = server.open(Some(since));
            let ready = listener.next().await.unwrap();
            let position = |id: &str| i64::from_str_radix(id.rsplit_once('-').unwrap().1, 16).unwrap();
            assert_eq!(ready.kind, "ready");
            assert!(
                position(&ready.id) <= position(&server.log.cursor().to_string()),
                "{since}: {} is ahead",
                ready.id
            );
            let gap = listener.next().await.unwrap();
            assert_eq!((gap.kind.as_str(), gap.data["reason"].as_str()), ("gap", Some("expired")), "{since}");
            server.write("r1", 2, true).await.unwrap();
            assert_eq!(listener.events(1).await[0].n(), 2);
        }
        for bad in ["nonsense", "a-b-c", "-1", "a-"] {
            let params = Params { since: Some(bad.to_owned()), ..Params::default() };
            let request = Subscribe::new("posts", Identity::Anonymous, params, |_| true);
            assert_eq!(
                server.streams.subscribe(request).unwrap_err(),
                gatewright_events::sse::Refused::Cursor,
                "{bad}"
            );
            // Without a log there are no positions, and the parameter is ignored.
            let params = Params { since: Some(bad.to_owned()), ..Params::default() };
            let request = Subscribe::new("posts", Identity::Anonymous, params, |_| true);
            let without_log = Streams::start(&server.bus, StreamOptions::default());
            assert!(without_log.subscribe(request).is_ok(), "{bad}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_rows_are_removed_in_batches_by_two_servers_and_new_ones_stay() {
    each_engine(async |engine| {
        let keep = Duration::from_secs(10);
        let one = Replica::keeping(&engine.db, keep).await;
        let _other = Replica::keeping(&engine.db, keep).await;
        // More than two batches of old rows, and a young one.
        let writes = (0..1_100).map(|n| ("r1".to_owned(), n)).collect();
        one.transaction(writes, true, Duration::ZERO, true).await.unwrap();
        one.write("r1", 1_100, true).await.unwrap();
        let aged = "UPDATE event_log SET created_at = created_at + 3600000000 *
                        CASE WHEN position = (SELECT MAX(position) FROM event_log) THEN 1 ELSE -1 END";
        engine.db.execute(aged, vec![]).await.unwrap();
        let state = async || {
            let sql = "SELECT COUNT(*) AS rows, MIN(position) AS first,
                           (SELECT swept_to FROM event_log_state) AS swept_to FROM event_log";
            let row = engine.db.query_opt(sql, vec![]).await.unwrap().unwrap();
            let number = |column: &str| row.get::<i64>(column).unwrap();
            (number("rows"), number("first"), number("swept_to"))
        };
        let swept = async {
            while state().await.0 > 1 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), swept).await.expect("the old rows are removed");
        let (rows, first, swept_to) = state().await;
        assert_eq!(rows, 1, "on {}", engine.name);
        assert!((1_100..first).contains(&swept_to), "the last position that was removed is known: {swept_to}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_slowly_loses_nothing_and_gets_nothing_twice() {
    each_engine(async |engine| {
        let server = Replica::start(&engine.db).await;
        let mut slow = server.open(None);
        slow.next().await.unwrap();
        for n in 0..600 {
            server.write(&format!("r{}", n % 8), n, true).await.unwrap();
        }
        let first = slow.events(300).await;
        for n in 600..700 {
            server.write(&format!("r{}", n % 8), n, true).await.unwrap();
        }
        let rest = slow.events(400).await;
        let seen: Vec<usize> = first.iter().chain(&rest).map(Frame::n).collect();
        assert_eq!(seen, (0..700).collect::<Vec<_>>());
        assert_eq!(server.streams.stats().dropped, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_in_no_log_reaches_a_client_that_has_fallen_behind() {
    each_engine(async |engine| {
        let server = Replica::start(&engine.db).await;
        let mut slow = server.open(None);
        slow.next().await.unwrap();
        for n in 0..100 {
            server.write("r1", n, true).await.unwrap();
        }
        let own = EntityEvent::new(EventKind::Updated, "posts", "posts", r#"{"id":"own","n":100}"#);
        drop(server.bus.publish(own));
        assert_eq!(slow.numbers(101).await, (0..101).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_are_checked_when_a_logged_event_is_delivered() {
    each_engine(async |engine| {
        let server = Replica::start(&engine.db).await;
        let cursor = server.log.cursor().to_string();
        for n in 0..10 {
            server.write("r1", n, true).await.unwrap();
        }
        let params = Params { since: Some(cursor.clone()), ..Params::default() };
        let odd =
            Subscribe::new("posts", Identity::Anonymous, params.clone(), |_| true).admitted(|events| async move {
                Ok(Some(events.iter().enumerate().map(|(at, _)| Visibility::from(at % 2 == 1)).collect::<Vec<_>>()))
            });
        let mut listener = Listener::new(server.streams.subscribe(odd).unwrap());
        assert_eq!(listener.numbers(5).await, [1, 3, 5, 7, 9]);
        let anonymous = Subscribe::new("posts", Identity::Anonymous, params, |_| true)
            .admitted(|_| async { Ok(None::<Vec<Visibility>>) });
        let mut refused = Listener::new(server.streams.subscribe(anonymous).unwrap());
        assert_eq!(refused.next().await.unwrap().kind, "ready");
        assert!(refused.next().await.is_none(), "who would be refused now gets nothing");
    })
    .await;
}

/// Two replicas, crossing writers, some of which fail or do not publish, and listeners that leave at random and
/// resume anywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn resuming_listeners_miss_nothing_and_see_each_record_in_order() {
    for engine in engines().await {
        prepare(&engine.db, 8).await;
        let second = Db::open(&engine.url, Options::default()).await;
        let replicas: Arc<Vec<Replica>> = Arc::new(match (engine.name, second) {
            ("postgres", Ok(second)) => vec![Replica::start(&engine.db).await, Replica::start(&second).await],
            _ => vec![Replica::start(&engine.db).await],
        });
        let written: Arc<parking_lot::Mutex<BTreeSet<usize>>> = Arc::default();
        let start = replicas[0].log.cursor().to_string();
        let mut listeners = tokio::task::JoinSet::new();
        for listener in 0..6_usize {
            let (replicas, start) = (replicas.clone(), start.clone());
            listeners.spawn(async move {
                let (mut since, mut ids) = (start, BTreeSet::new());
                // By record, the positions where events were first seen, which must be in the order of the writes.
                let mut seen: BTreeMap<String, Vec<usize>> = BTreeMap::new();
                let mut turn = listener;
                'resume: loop {
                    let mut stream = replicas[turn % replicas.len()].open(Some(&since));
                    let mut on_this = BTreeSet::new();
                    turn += 1;
                    for _ in 0..(turn * 7) % 40 + 3 {
                        let frame = stream.next().await.unwrap();
                        since.clone_from(&frame.id);
                        if !frame.kind.starts_with("entity.") {
                            assert_eq!(frame.kind, "ready");
                            continue;
                        }
                        assert!(on_this.insert(frame.data["id"].to_string()), "twice on one stream");
                        if frame.data["data"]["record"]["id"] == "end" {
                            break 'resume;
                        }
                        if ids.insert(frame.data["id"].to_string()) {
                            let record = frame.data["data"]["record"]["id"].as_str().unwrap().to_owned();
                            seen.entry(record).or_default().push(frame.n());
                        }
                    }
                }
                seen
            });
        }
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..8_usize {
            let (replicas, written) = (replicas.clone(), written.clone());
            writers.spawn(async move {
                for step in 0..25_usize {
                    let n = writer * 1_000 + step;
                    let replica = &replicas[n % replicas.len()];
                    let one = vec![(format!("r{}", (writer + step) % 8), n)];
                    let commits = n % 7 != 3;
                    if replica.transaction(one, n % 5 != 1, Duration::ZERO, commits).await.is_ok() {
                        written.lock().insert(n);
                    }
                }
            });
        }
        while let Some(done) = writers.join_next().await {
            done.unwrap();
        }
        replicas[0].write("end", 0, true).await.unwrap();
        let written = written.lock().clone();
        let order = replicas[0].db.query("SELECT record FROM event_log ORDER BY position", vec![]).await.unwrap();
        let order: Vec<serde_json::Value> =
            order.iter().map(|row| serde_json::from_str(&row.get::<String>("record").unwrap()).unwrap()).collect();
        while let Some(seen) = listeners.join_next().await {
            let seen = seen.unwrap();
            let all: BTreeSet<usize> = seen.values().flatten().copied().collect();
            assert_eq!(all, written, "{}: lost or invented", engine.name);
            for (record, seen) in seen {
                let wanted: Vec<usize> = order
                    .iter()
                    .filter(|logged| logged["id"] == record.as_str())
                    .map(|logged| usize::try_from(logged["n"].as_u64().unwrap()).unwrap())
                    .collect();
                assert_eq!(seen, wanted, "{}: {record}", engine.name);
            }
        }
    }
}

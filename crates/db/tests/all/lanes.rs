//! Long reads, and other callers at the same time.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use gatewright_db::testing::{TestDb, engines_with};
use gatewright_db::{Db, Engine, Error, Lane, Options, Row, RowRef, Share, Tx, ValueRef, params};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// A statement that takes minutes on either engine.
const ENDLESS: &str = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 2000000000)
                       SELECT count(*) AS endless FROM n";

/// A statement that takes some milliseconds.
const MANY: &str = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 100000) SELECT x FROM n";

fn lists(db: &Db, share: u64) -> Db {
    db.clone().lane(Lane::Lists(Share(share)))
}

async fn run(db: Db, sql: &'static str) -> Result<usize, Error> {
    db.read(async move |tx: &Tx| Ok(tx.query(sql, vec![]).await?.len())).await
}

async fn patient() -> Vec<TestDb> {
    engines_with(Options { list_timeout: Duration::from_mins(5), ..Options::default() }).await
}

#[tokio::test]
async fn others_are_answered_while_the_lists_of_one_caller_run() {
    for engine in patient().await {
        let heavy: Vec<_> = (0..64).map(|_| tokio::spawn(run(lists(&engine.db, 1), ENDLESS))).collect();
        for round in 0..20 {
            let identity = engine.db.clone().lane(Lane::Identity);
            assert_eq!(identity.query("SELECT 1 AS one", vec![]).await.unwrap().len(), 1, "{}", engine.name);
            assert_eq!(run(engine.db.clone(), "SELECT 1 AS one").await.unwrap(), 1, "{}", engine.name);
            assert_eq!(run(lists(&engine.db, 2 + round), "SELECT 1 AS one").await.unwrap(), 1, "{}", engine.name);
        }
        assert!(heavy.iter().all(|list| !list.is_finished()), "{}: the lists still run", engine.name);
        heavy.iter().for_each(tokio::task::JoinHandle::abort);
        // The caller's own next list gets a reader: lists without a waiting caller were cancelled.
        assert_eq!(run(lists(&engine.db, 1), "SELECT 1 AS one").await.unwrap(), 1, "{}", engine.name);
    }
}

/// Everybody waits for SQLite's writer. The test ends by its own limit if a caller keeps it.
#[tokio::test]
async fn the_turn_of_a_caller_at_the_writer_of_sqlite_is_limited() {
    let options = Options { statement_timeout: Duration::from_mins(30), ..Options::default() };
    for engine in engines_with(options).await.into_iter().filter(|engine| engine.name == "sqlite") {
        engine.db.execute("CREATE TABLE kept (n INTEGER)", vec![]).await.unwrap();
        let callers = engine.db.writing_for(Share(1));
        let endless = async {
            let in_transaction = callers.write(async |tx: &Tx| -> Result<(), Error> {
                tx.execute("INSERT INTO kept VALUES (1)", vec![]).await?;
                tx.query(ENDLESS, vec![]).await.map(drop)
            });
            let statement =
                "INSERT INTO kept WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n";
            (in_transaction.await.unwrap_err(), callers.execute(statement, vec![]).await.unwrap_err())
        };
        let other = engine.db.writing_for(Share(2));
        let writes = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            other.execute("INSERT INTO kept VALUES (2)", vec![]).await
        };
        let both = tokio::time::timeout(Duration::from_mins(5), async { tokio::join!(endless, writes) }).await;
        let (endless, written) = both.expect("the writer is free again");
        assert!(matches!(endless, (Error::Deadline, Error::Deadline)), "{endless:?}");
        assert_eq!(written.unwrap(), 1);
        let kept = engine.db.query("SELECT n FROM kept", vec![]).await.unwrap();
        assert_eq!(kept.iter().map(|row| row.get::<i64>("n").unwrap()).collect::<Vec<_>>(), [2]);
    }
}

/// On SQLite a short read runs on the calling thread, and a long one must not block that thread.
#[tokio::test]
async fn a_long_read_moves_off_the_calling_thread() {
    for engine in engines_with(Options::default()).await.into_iter().filter(|engine| engine.name == "sqlite") {
        for lane in [Lane::Records(Share(1)), Lane::Identity] {
            let db = engine.db.clone().lane(lane);
            for _ in 0..1_000 {
                let mut short = Box::pin(db.query("SELECT 1 AS one", vec![]));
                assert!(poll_fn(|context| Poll::Ready(short.as_mut().poll(context).is_ready())).await, "{lane:?}");
            }
            let mut long = Box::pin(db.query(ENDLESS, vec![]));
            assert!(poll_fn(|context| Poll::Ready(long.as_mut().poll(context).is_pending())).await, "{lane:?}");
            let mut folded = Box::pin(db.fold(MANY, vec![], Vec::new(), |all: &mut Vec<i64>, row| {
                if let ValueRef::Int(n) = row.value(0)? {
                    all.push(n);
                }
                Ok(())
            }));
            assert!(poll_fn(|context| Poll::Ready(folded.as_mut().poll(context).is_pending())).await, "{lane:?}");
            let once_each: Vec<i64> = (1..=100_000).collect();
            assert_eq!(folded.await.unwrap(), once_each, "{lane:?}: begun anew from the start");
        }
    }
}

#[tokio::test]
async fn a_statement_whose_caller_left_is_cancelled() {
    for engine in patient().await {
        for _ in 0..32 {
            let mut list = Box::pin(run(lists(&engine.db, 1), ENDLESS));
            // It runs when it is dropped.
            poll_fn(|context| {
                assert!(list.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            let _more = tokio::time::timeout(Duration::from_millis(20), list).await;
        }
        assert_eq!(run(lists(&engine.db, 1), "SELECT 1 AS one").await.unwrap(), 1, "{}", engine.name);
        if engine.name == "postgres" {
            let running = "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%AS endless%'
                           AND datname = current_database() AND pid <> pg_backend_pid()";
            while !engine.db.query(running, vec![]).await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        }
    }
}

#[tokio::test]
async fn a_list_that_takes_too_long_is_stopped() {
    let options = Options { list_timeout: Duration::from_millis(200), ..Options::default() };
    for engine in engines_with(options).await {
        let stopped = run(lists(&engine.db, 1), ENDLESS).await;
        assert!(matches!(stopped, Err(Error::Deadline)), "{}: {stopped:?}", engine.name);
        // On a busy machine a quick list may time out too, and is repeated.
        let answered = async {
            loop {
                match run(lists(&engine.db, 1), "SELECT 1 AS one").await {
                    Err(Error::Deadline) => {}
                    answer => break answer,
                }
            }
        };
        let answered = tokio::time::timeout(Duration::from_mins(1), answered).await.expect("the next list is answered");
        assert_eq!(answered.unwrap(), 1, "{}", engine.name);
    }
}

#[tokio::test]
async fn a_search_of_too_much_text_is_stopped_on_sqlite() {
    let options = Options { search_bytes: 1_000_001, ..Options::default() };
    for engine in engines_with(options).await.into_iter().filter(|engine| engine.name == "sqlite") {
        let db = &engine.db;
        db.execute("CREATE TABLE notes (body TEXT)", vec![]).await.unwrap();
        for _ in 0..5 {
            db.execute("INSERT INTO notes VALUES (replace(hex(zeroblob(100000)), '00', 'ab'))", vec![]).await.unwrap();
        }
        let terms = |count: usize| {
            let term = "contains_folded(body, 'x')";
            format!("SELECT body FROM notes WHERE {}", vec![term; count].join(" OR "))
        };
        let search = async |lane: Lane, count: usize| {
            let sql = terms(count);
            db.clone().lane(lane).read(async move |tx: &Tx| Ok(tx.query(sql.clone(), vec![]).await?.len())).await
        };
        let list = Lane::Lists(Share(1));
        assert!(matches!(search(list, 1).await, Ok::<_, Error>(0)), "as much as may be searched");
        assert!(matches!(search(list, 2).await, Err(Error::SearchTooLarge)));
        assert!(matches!(search(list, 1).await, Ok(0)), "each list has its own budget");
        assert!(matches!(search(Lane::Records(Share(1)), 2).await, Ok(0)), "the budget is of lists alone");
    }
}

#[tokio::test]
async fn a_list_in_a_snapshot_leaves_a_connection_that_sees_later_commits() {
    let timeout = Duration::from_mins(5);
    let options = Options { list_timeout: timeout, write_deadline: timeout, ..Options::default() };
    for engine in engines_with(options).await {
        let (db, handle) = (&engine.db, tokio::runtime::Handle::current());
        db.execute("CREATE TABLE seen (n INTEGER)", vec![]).await.unwrap();
        for round in 0..12_usize {
            let (writer, handle) = (db.clone(), handle.clone());
            let reader = lists(db, 1);
            let counted = reader.read(async move |tx: &Tx| {
                tx.one_snapshot();
                let before = tx.query("SELECT n FROM seen", vec![]).await?.len();
                let writer = writer.clone();
                // The reading thread may not begin anything else.
                let written = async move { writer.execute("INSERT INTO seen VALUES (1)", vec![]).await };
                handle.spawn(written).await.expect("a write")?;
                tx.one_snapshot();
                Ok::<_, Error>((before, tx.query("SELECT n FROM seen", vec![]).await?.len()))
            });
            assert_eq!(counted.await.unwrap(), (round, round), "{}", engine.name);
            assert_eq!(run(lists(db, 1), "SELECT n FROM seen").await.unwrap(), round + 1, "{}", engine.name);
        }
        let reader = lists(db, 1);
        let failed = reader.read(async |tx: &Tx| {
            tx.one_snapshot();
            tx.query("SELECT nothing FROM nowhere", vec![]).await
        });
        assert!(failed.await.is_err(), "{}", engine.name);
        assert_eq!(run(lists(db, 1), "SELECT n FROM seen").await.unwrap(), 12, "{}", engine.name);
    }
}

/// Consecutive reads may share a snapshot, but must see commits between them.
#[tokio::test]
async fn consecutive_reads_see_every_earlier_commit() {
    for engine in engines_with(Options::default()).await {
        let (db, other) = (&engine.db, Db::open(&engine.url, Options::default()).await.unwrap());
        db.execute("CREATE TABLE t (a BIGINT)", vec![]).await.unwrap();
        db.execute("INSERT INTO t VALUES (0)", vec![]).await.unwrap();
        for number in 1..=200_i64 {
            let writer = if number % 2 == 0 { db } else { &other };
            writer.execute("UPDATE t SET a = ?1", params![number]).await.unwrap();
            for lane in [Lane::Records(Share(1)), Lane::Identity].repeat(10) {
                let rows = db.clone().lane(lane).query("SELECT a FROM t", vec![]).await.unwrap();
                assert_eq!(rows[0].get::<i64>("a").unwrap(), number, "{}", engine.name);
            }
        }
    }
}

/// Another process does not announce its commits.
#[tokio::test]
async fn reads_that_never_pause_see_what_another_process_commits() {
    let engine = engines_with(Options::default()).await.into_iter().find(|engine| engine.name == "sqlite").unwrap();
    let db = &engine.db;
    db.execute("CREATE TABLE t (a BIGINT)", vec![]).await.unwrap();
    db.execute("INSERT INTO t VALUES (0)", vec![]).await.unwrap();
    // A connection outside this crate.
    let stranger = rusqlite::Connection::open(engine.url.strip_prefix("sqlite://").unwrap()).unwrap();
    for number in 1..=20_i64 {
        stranger.execute("UPDATE t SET a = ?1", [number]).unwrap();
        let mut reads = 0;
        while db.query("SELECT a FROM t", vec![]).await.unwrap()[0].get::<i64>("a").unwrap() != number {
            reads += 1;
            assert!(reads < 1_000_000, "a snapshot is read from for ever");
        }
    }
}

/// The writes of one caller take turns with those of others, including the program's own.
#[tokio::test]
async fn a_write_does_not_wait_for_the_whole_queue_of_another_share() {
    async fn write(db: Db, sql: &'static str) -> Result<usize, Error> {
        db.write(async move |tx: &Tx| Ok(tx.query(sql, vec![]).await?.len())).await
    }
    for engine in engines_with(Options { busy_timeout: Duration::from_mins(5), ..Options::default() }).await {
        let of = |share| engine.db.writing_for(Share(share));
        let heavy: Vec<_> = (0..64).map(|_| tokio::spawn(write(of(1), MANY))).collect();
        // All of them are in the queue.
        tokio::task::yield_now().await;
        for other in [of(2), engine.db.clone(), of(3)] {
            assert_eq!(write(other, "SELECT 1 AS one").await.unwrap(), 1, "{}", engine.name);
        }
        let ended = heavy.iter().filter(|write| write.is_finished()).count();
        assert!(ended < 32, "{}: {ended} of 64 went before", engine.name);
        for write in heavy {
            assert_eq!(write.await.unwrap().unwrap(), 100_000, "{}", engine.name);
        }
    }
}

/// A transaction that has run a statement and is not committed.
struct Held {
    release: Arc<Notify>,
    holding: JoinHandle<Result<(), Error>>,
}

impl Held {
    async fn by(db: &Db, statement: &'static str) -> Self {
        let (begun, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (db, inside, until) = (db.clone(), begun.clone(), release.clone());
        let work = async move |tx: &Tx| -> Result<(), Error> {
            tx.execute(statement, vec![]).await?;
            inside.notify_one();
            until.notified().await;
            Ok(())
        };
        let holding = tokio::spawn(async move { db.write(work).await });
        begun.notified().await;
        Self { release, holding }
    }

    /// An open transaction that has inserted the name `taken` into a table of names.
    async fn name(db: &Db) -> Self {
        db.execute("CREATE TABLE names (name TEXT PRIMARY KEY)", vec![]).await.unwrap();
        Self::by(db, "INSERT INTO names (name) VALUES ('taken')").await
    }

    async fn commit(self) {
        self.release.notify_one();
        self.holding.await.unwrap().unwrap();
    }

    /// Single statements that need the name, each of a share out of `shares`, and so wait.
    fn waiting(db: &Db, shares: impl Iterator<Item = u64>) -> Vec<JoinHandle<Result<Vec<Row>, Error>>> {
        let insert = "INSERT INTO names (name) VALUES ('taken') RETURNING name";
        let write = |share| {
            let db = db.writing_for(Share(share));
            tokio::spawn(async move { db.write_rows(insert, vec![]).await })
        };
        shares.map(write).collect()
    }

    /// Ends the transaction. All waiting statements fail because the name is taken.
    async fn release(self, waiting: Vec<JoinHandle<Result<Vec<Row>, Error>>>) {
        assert!(waiting.iter().all(|write| !write.is_finished()), "they still wait");
        self.commit().await;
        for write in waiting {
            let result = write.await.unwrap();
            assert!(matches!(result, Err(Error::Unique { .. })), "{result:?}");
        }
    }
}

fn waiting_long() -> Options {
    Options { write_deadline: Duration::from_mins(1), busy_timeout: Duration::from_mins(1), ..Options::default() }
}

/// A statement that writes waits for another's lock as long as that lasts.
#[tokio::test]
async fn reads_are_answered_while_writes_wait_for_a_lock() {
    for engine in engines_with(waiting_long()).await {
        let db = &engine.db;
        let held = Held::name(db).await;
        let waiting = Held::waiting(db, (0..32).map(|number| number % 4));
        let reads = async {
            for _ in 0..200 {
                tokio::task::yield_now().await;
                assert!(db.query("SELECT name FROM names", vec![]).await.unwrap().is_empty(), "{}", engine.name);
            }
        };
        tokio::time::timeout(Duration::from_mins(1), reads).await.expect("reads do not wait");
        held.release(waiting).await;
    }
}

/// On SQLite all writes wait for the one transaction.
#[tokio::test]
async fn statements_of_one_share_run_while_those_of_another_wait_for_a_lock() {
    for engine in engines_with(waiting_long()).await.into_iter().filter(|engine| engine.db.engine() == Engine::Postgres)
    {
        let db = &engine.db;
        let held = Held::name(db).await;
        let waiting = Held::waiting(db, std::iter::repeat_n(1, 100));
        let writes = async {
            for (share, number) in [0, 2, 3].into_iter().flat_map(|share| (0..20).map(move |number| (share, number))) {
                tokio::task::yield_now().await;
                let (db, name) = (db.writing_for(Share(share)), format!("{share} {number}"));
                let insert = "INSERT INTO names (name) VALUES (?1) RETURNING name";
                let rows = match number % 3 {
                    0 => db.execute(insert, params![name]).await.unwrap(),
                    1 => db.write_rows(insert, params![name]).await.unwrap().len() as u64,
                    _ => db
                        .write_fold(
                            insert,
                            params![name],
                            0,
                            |rows, _| {
                                *rows += 1;
                                Ok(())
                            },
                            |_| {},
                        )
                        .await
                        .unwrap(),
                };
                assert_eq!(rows, 1);
            }
        };
        tokio::time::timeout(Duration::from_mins(1), writes).await.expect("others' writes do not wait");
        held.release(waiting).await;
    }
}

/// A statement that was given up for its lock and run again has its effects once.
#[tokio::test]
async fn a_statement_that_waits_for_a_lock_runs_once_it_has_it() {
    for engine in engines_with(waiting_long()).await {
        let db = &engine.db;
        db.execute("CREATE TABLE counters (id INTEGER PRIMARY KEY, value INTEGER NOT NULL)", vec![]).await.unwrap();
        db.execute("INSERT INTO counters (id, value) VALUES (1, 0)", vec![]).await.unwrap();
        let held = Held::by(db, "UPDATE counters SET value = 1000 WHERE id = 1").await;
        let committed = Arc::new(AtomicU64::new(0));
        let add = |number: u64| {
            let (db, committed) = (db.writing_for(Share(1 + number % 3)), committed.clone());
            tokio::spawn(async move {
                let sql = "UPDATE counters SET value = value + 1 WHERE id = 1 RETURNING value";
                match number % 3 {
                    0 => db.execute(sql.trim_end_matches(" RETURNING value"), vec![]).await.unwrap(),
                    1 => db.write_rows(sql, vec![]).await.unwrap().len() as u64,
                    _ => {
                        let count = |rows: &mut u64, _: &RowRef<'_>| {
                            *rows += 1;
                            Ok(())
                        };
                        let after = move |rows: &u64| {
                            committed.fetch_add(*rows, Ordering::Relaxed);
                        };
                        db.write_fold(sql, vec![], 0, count, after).await.unwrap()
                    }
                }
            })
        };
        let adding: Vec<_> = (0..30).map(add).collect();
        // Longer than statements wait for a lock on the connections that they share.
        tokio::time::sleep(Duration::from_millis(100)).await;
        held.commit().await;
        for add in adding {
            assert_eq!(add.await.unwrap(), 1, "{}", engine.name);
        }
        assert_eq!(committed.load(Ordering::Relaxed), 10, "{}", engine.name);
        let rows = db.query("SELECT value FROM counters", vec![]).await.unwrap();
        assert_eq!(rows[0].get::<i64>("value").unwrap(), 1030, "{}", engine.name);
    }
}

/// Statements prepared while a table was empty use its index once it is full, before there are statistics.
#[tokio::test]
async fn a_statement_that_was_prepared_for_an_empty_table_uses_its_index() {
    for engine in engines_with(waiting_long()).await.into_iter().filter(|engine| engine.db.engine() == Engine::Postgres)
    {
        let db = &engine.db;
        let columns = "position BIGINT PRIMARY KEY, kind TEXT NOT NULL, entity TEXT NOT NULL, record TEXT NOT NULL";
        db.execute(format!("CREATE TABLE entries ({columns})"), vec![]).await.unwrap();
        for lane in [Lane::Records(Share(1)), Lane::Identity] {
            let from =
                "SELECT position, kind, entity, record FROM entries WHERE position >= 5 ORDER BY position LIMIT 256";
            let plan = db.clone().lane(lane).query(format!("EXPLAIN {from}"), vec![]).await.unwrap();
            let plan: String = plan.iter().map(|row| row.get::<String>("QUERY PLAN").unwrap() + "\n").collect();
            assert!(plan.contains("entries_pkey") && !plan.contains("Seq Scan"), "{lane:?}: {plan}");
        }
    }
}

#[tokio::test]
async fn a_queued_write_whose_caller_left_is_dropped() {
    for engine in engines_with(waiting_long()).await.into_iter().filter(|engine| engine.db.engine() == Engine::Postgres)
    {
        let db = &engine.db;
        db.execute("CREATE TABLE counters (id INTEGER PRIMARY KEY, value INTEGER NOT NULL)", vec![]).await.unwrap();
        db.execute("INSERT INTO counters (id, value) VALUES (1, 0)", vec![]).await.unwrap();
        let held = Held::by(db, "UPDATE counters SET value = 1000 WHERE id = 1").await;
        let add = || {
            let db = db.writing_for(Share(1));
            let sql = "UPDATE counters SET value = value + 1 WHERE id = 1 RETURNING value";
            tokio::spawn(async move { db.write_fold(sql, vec![], (), |(), _| Ok(()), |()| {}).await })
        };
        let adding: Vec<_> = (0..50).map(|_| add()).collect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        adding.iter().for_each(JoinHandle::abort);
        held.commit().await;
        // Its turn comes after those of its share that had one.
        add().await.unwrap().unwrap();
        let rows = db.query("SELECT value FROM counters", vec![]).await.unwrap();
        let added = rows[0].get::<i64>("value").unwrap() - 1000;
        assert!((1..=20).contains(&added), "{added} of 51");
    }
}

/// A statement that waits longer fails, so that the statements of one caller do not accumulate.
#[tokio::test]
async fn waiting_for_a_turn_has_a_time_limit() {
    let options = Options { busy_timeout: Duration::from_millis(200), ..waiting_long() };
    for engine in engines_with(options).await.into_iter().filter(|engine| engine.db.engine() == Engine::Postgres) {
        let db = &engine.db;
        let held = Held::name(db).await;
        let waiting = Held::waiting(db, std::iter::repeat_n(1, 40));
        let all_but_the_one_on_a_connection = async {
            // A share has one connection for transactions, of the few that tests have.
            while waiting.iter().filter(|write| !write.is_finished()).count() > 1 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), all_but_the_one_on_a_connection).await.expect("they fail");
        let (failed, waiting): (Vec<_>, Vec<_>) = waiting.into_iter().partition(JoinHandle::is_finished);
        for write in failed {
            assert!(matches!(write.await.unwrap(), Err(Error::Busy)));
        }
        held.release(waiting).await;
    }
}

use std::path::{Path, PathBuf};

use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{Db, Error, OpenError, Options, params};

const ROWS: i64 = 500;

async fn sqlite() -> TestDb {
    let engine = engines().await.into_iter().find(|engine| engine.name == "sqlite").unwrap();
    engine.db.execute("CREATE TABLE t (a BIGINT PRIMARY KEY, b TEXT)", vec![]).await.unwrap();
    engine
}

fn file(engine: &TestDb) -> PathBuf {
    engine.url.strip_prefix("sqlite://").unwrap().into()
}

async fn fill(db: &Db) {
    for number in 0..ROWS {
        db.execute("INSERT INTO t (a, b) VALUES (?1, ?2)", params![number, format!("row {number}")]).await.unwrap();
    }
}

/// The content of a copy of the database file, without its -wal and -shm files.
async fn copied(database: &Path) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.db");
    std::fs::copy(database, &copy).unwrap();
    let db = Db::open(&format!("sqlite://{}", copy.display()), Options::default()).await.unwrap();
    let rows = db.query("SELECT b FROM t ORDER BY a", vec![]).await.unwrap();
    rows.iter().map(|row| row.get("b").unwrap()).collect()
}

#[tokio::test]
async fn a_closed_database_is_complete_in_its_file_and_returns_closed() {
    for engine in engines().await {
        engine.db.execute("CREATE TABLE t (a BIGINT PRIMARY KEY, b TEXT)", vec![]).await.unwrap();
        fill(&engine.db).await;
        let clone = engine.db.clone();
        engine.db.close().await;
        let late = clone.write(async |tx: &gatewright_db::Tx| tx.execute("DELETE FROM t", vec![]).await).await;
        assert!(matches!(late, Err(Error::Closed)), "{}: {late:?}", engine.name);
        if engine.name == "sqlite" {
            assert!(matches!(clone.query("SELECT a FROM t", vec![]).await, Err(Error::Closed)));
            let expected: Vec<_> = (0..ROWS).map(|number| format!("row {number}")).collect();
            assert_eq!(copied(&file(&engine)).await, expected);
        }
        clone.close().await;
    }
}

#[tokio::test]
async fn dropping_the_last_clone_leaves_a_complete_file() {
    let engine = sqlite().await;
    fill(&engine.db).await;
    let second = Db::open(&engine.url, Options::default()).await.unwrap();
    second.execute("INSERT INTO t (a, b) VALUES (-1, 'last')", vec![]).await.unwrap();
    engine.db.close().await;
    let path = file(&engine);
    drop(second);
    assert_eq!(copied(&path).await.len(), 501);
    assert!(!path.with_extension("db-wal").exists());
}

#[tokio::test]
async fn one_server_claims_a_sqlite_file_and_commands_work_beside_it() {
    let engine = sqlite().await;
    engine.db.claim().unwrap();
    engine.db.claim().unwrap();
    let other = Db::open(&engine.url, Options::default()).await.unwrap();
    match other.claim() {
        Err(error @ OpenError::InUse { .. }) => {
            let told = error.to_string();
            assert!(told.contains(&format!("process {}", std::process::id())) && told.contains("test.db"), "{told}");
        }
        outcome => panic!("{outcome:?}"),
    }
    other.execute("INSERT INTO t (a) VALUES (1)", vec![]).await.unwrap();
    engine.db.close().await;
    other.claim().unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_claim_holds_for_every_name_of_the_file() {
    let engine = sqlite().await;
    let link = file(&engine).with_file_name("link.db");
    std::os::unix::fs::symlink(file(&engine), &link).unwrap();
    engine.db.claim().unwrap();
    let other = Db::open(&format!("sqlite://{}", link.display()), Options::default()).await.unwrap();
    assert!(matches!(other.claim(), Err(OpenError::InUse { .. })));
}

#[tokio::test]
async fn many_servers_share_a_postgres_database() {
    for engine in engines().await.into_iter().filter(|engine| engine.name == "postgres") {
        engine.db.claim().unwrap();
        Db::open(&engine.url, Options::default()).await.unwrap().claim().unwrap();
    }
}

/// The log must restart while writers never pause.
#[tokio::test(flavor = "multi_thread")]
async fn the_write_ahead_log_stays_bounded_under_constant_writes() {
    stays_bounded(&sqlite().await).await;
}

/// Quick reads leave a snapshot open on their connection, which may not be used again.
#[tokio::test(flavor = "multi_thread")]
async fn finished_reads_do_not_prevent_a_restart_of_the_write_ahead_log() {
    let engine = sqlite().await;
    for number in 0..100 {
        engine.db.execute("INSERT INTO t (a) VALUES (?1)", params![number - 1_000]).await.unwrap();
        for _ in 0..20 {
            engine.db.query("SELECT a FROM t LIMIT 1", vec![]).await.unwrap();
        }
    }
    stays_bounded(&engine).await;
}

/// A command that ends while a server runs moves the whole log into the file, and must not wait for an idle server.
#[tokio::test]
async fn finished_reads_do_not_prevent_another_process_from_truncating_the_log() {
    let engine = sqlite().await;
    let stranger = rusqlite::Connection::open(file(&engine)).unwrap();
    stranger.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
    for number in 0..10 {
        engine.db.execute("INSERT INTO t (a) VALUES (?1)", params![number]).await.unwrap();
        for _ in 0..100 {
            engine.db.query("SELECT a FROM t LIMIT 1", vec![]).await.unwrap();
        }
        let is_busy: bool = stranger.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
        assert!(!is_busy, "a snapshot is kept for ever");
    }
}

async fn stays_bounded(engine: &TestDb) {
    const WRITERS: i64 = 4;
    const EACH: i64 = 60;
    // At 80 MB, and then every 8 MB, the log restarts unless a reader uses it at that moment. All writes are 240 MB.
    const BOUND: u64 = 160 << 20;
    let log = file(engine).with_extension("db-wal");
    let writers = (0..WRITERS).map(|writer| {
        let db = engine.db.clone();
        tokio::spawn(async move {
            for number in 0..EACH {
                let params = params![writer * EACH + number, "x".repeat(1 << 20)];
                db.execute("INSERT INTO t (a, b) VALUES (?1, ?2)", params).await.unwrap();
            }
        })
    });
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let db = engine.db.clone();
            tokio::spawn(async move {
                loop {
                    db.query("SELECT a FROM t LIMIT 1", vec![]).await.unwrap();
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let mut longest = 0;
    for writer in writers.collect::<Vec<_>>() {
        while !writer.is_finished() {
            longest = longest.max(std::fs::metadata(&log).map_or(0, |metadata| metadata.len()));
            tokio::task::yield_now().await;
        }
        writer.await.unwrap();
    }
    readers.iter().for_each(tokio::task::JoinHandle::abort);
    assert!(longest < BOUND, "{longest} bytes");
}

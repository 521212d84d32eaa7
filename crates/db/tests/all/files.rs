//! The files of a SQLite database that is open are removed or replaced.

#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gatewright_db::{Db, Error, Options, params};

struct Bench {
    db: Db,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

const ROWS: i64 = 20;

async fn bench() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let db = open(&path).await;
    db.execute("CREATE TABLE t (a BIGINT PRIMARY KEY)", vec![]).await.unwrap();
    for number in 0..ROWS {
        insert(&db, number).await.unwrap();
    }
    Bench { db, path, _folder: folder }
}

async fn open(path: &Path) -> Db {
    Db::open(&format!("sqlite://{}", path.display()), Options::default()).await.unwrap()
}

async fn insert(db: &Db, number: i64) -> Result<u64, Error> {
    db.execute("INSERT INTO t (a) VALUES (?1)", params![number]).await
}

async fn count(db: &Db) -> Result<i64, Error> {
    db.query("SELECT count(*) AS n FROM t", vec![]).await.map(|rows| rows[0].get("n").unwrap())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

/// Every call fails and names the file.
async fn assert_refuses(db: &Db, file: &Path) {
    let written = insert(db, 1_000).await;
    let transaction = db.write(async |tx: &gatewright_db::Tx| tx.execute("DELETE FROM t", vec![]).await).await;
    let read = db.read(async |tx: &gatewright_db::Tx| tx.query("SELECT a FROM t", vec![]).await).await;
    let outcomes =
        [written.map(|_| ()), transaction.map(|_| ()), read.map(|_| ()), count(db).await.map(|_| ()), db.ping().await];
    for outcome in outcomes {
        let Err(error @ Error::FileLost(_)) = outcome else { panic!("{outcome:?}") };
        assert!(error.is_unavailable(), "{error}");
        let Error::FileLost(lost) = error else { unreachable!() };
        assert_eq!(lost.canonicalize().ok(), file.canonicalize().ok());
        assert_eq!(lost.file_name(), file.file_name());
    }
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < Duration::from_mins(1), "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_acknowledged_once_a_file_of_the_database_is_removed() {
    for suffix in ["", "-wal", "-shm"] {
        let bench = bench().await;
        let file = beside(&bench.path, suffix);
        std::fs::remove_file(&file).unwrap();
        let write = insert(&bench.db, 500).await;
        assert!(matches!(write, Err(Error::FileLost(_))), "{suffix}: {write:?}");
        assert_refuses(&bench.db, &file).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_before_the_log_was_removed_is_saved_without_closing() {
    let bench = bench().await;
    std::fs::remove_file(beside(&bench.path, "-wal")).unwrap();
    // As if the server was killed next: only the database file is left.
    eventually("the log is moved", async || {
        let copy = bench.path.with_file_name("copy.db");
        std::fs::copy(&bench.path, &copy).unwrap();
        let db = open(&copy).await;
        let found = count(&db).await.unwrap_or(0);
        db.close().await;
        found == ROWS
    })
    .await;
    bench.db.close().await;
    assert_eq!(count(&open(&bench.path).await).await.unwrap(), ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_replaces_another_one_is_not_changed_by_it() {
    for through_link in [false, true] {
        let bench = bench().await;
        let other = bench.path.with_file_name("other.db");
        let fresh = open(&other).await;
        fresh.execute("CREATE TABLE t (a BIGINT PRIMARY KEY)", vec![]).await.unwrap();
        insert(&fresh, 7).await.unwrap();
        fresh.close().await;
        let (db, path) = if through_link {
            let link = bench.path.with_file_name("link.db");
            std::os::unix::fs::symlink(&bench.path, &link).unwrap();
            bench.db.close().await;
            let db = open(&link).await;
            std::fs::remove_file(&link).unwrap();
            std::os::unix::fs::symlink(&other, &link).unwrap();
            (db, link)
        } else {
            std::fs::rename(&other, &bench.path).unwrap();
            (bench.db.clone(), bench.path.clone())
        };
        assert_refuses(&db, &path).await;
        eventually("the log is emptied", async || {
            std::fs::metadata(beside(&bench.path, "-wal")).map_or(true, |log| log.len() == 0)
        })
        .await;
        db.close().await;
        drop(db);
        let reopened = open(&path).await;
        let rows = reopened.query("SELECT a FROM t", vec![]).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.get::<i64>("a").unwrap()).collect::<Vec<_>>(), [7]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_file_is_noticed_while_nothing_is_written() {
    let bench = bench().await;
    assert_eq!(count(&bench.db).await.unwrap(), ROWS);
    std::fs::rename(&bench.path, bench.path.with_file_name("moved.db")).unwrap();
    eventually("reads are refused", async || matches!(count(&bench.db).await, Err(Error::FileLost(_)))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_another_process_is_left_alone() {
    let bench = bench().await;
    let log = beside(&bench.path, "-wal");
    std::fs::remove_file(&log).unwrap();
    std::fs::write(&log, "written by another process").unwrap();
    assert_refuses(&bench.db, &log).await;
    bench.db.close().await;
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "written by another process");
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_and_commands_beside_a_server_lose_no_file() {
    let bench = bench().await;
    let url = format!("sqlite://{}", bench.path.display());
    let copy = bench.path.with_file_name("backup.db");
    // A backup is one of this program's databases.
    bench.db.execute("CREATE TABLE gatewright_migrations (component TEXT)", vec![]).await.unwrap();
    gatewright_db::backup(&url, &copy).await.unwrap();
    drop(gatewright_db::backup_unnamed(&url).await.unwrap());
    let command = open(&bench.path).await;
    insert(&command, 100).await.unwrap();
    command.close().await;
    drop(command);
    bench.db.ping().await.unwrap();
    insert(&bench.db, 101).await.unwrap();
    bench.db.close().await;
    bench.db.ping().await.unwrap_err();

    let restored = gatewright_db::Restore::stage(&copy, &url, true).await.unwrap();
    restored.commit().await.unwrap();
    let db = open(&bench.path).await;
    insert(&db, 102).await.unwrap();
    db.ping().await.unwrap();
}

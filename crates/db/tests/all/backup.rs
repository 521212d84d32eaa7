//! Backups of a SQLite file that is in use, and their restore.

use std::path::Path;

use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{BackupError, Db, Error, OpenError, Options, Restore, Step, Tx, backup, migrate, params};

const STEPS: &[Step] =
    &[Step { version: 1, name: "pairs", sql: "CREATE TABLE a (n {int} NOT NULL); CREATE TABLE b (n {int} NOT NULL)" }];

async fn sqlite() -> TestDb {
    let engine = engines().await.into_iter().find(|engine| engine.name == "sqlite").unwrap();
    migrate(&engine.db, "pairs", STEPS).await.unwrap();
    engine
}

/// Writes the same number to both tables in one transaction.
async fn write(db: &Db, number: i64) {
    let written = db.write(async move |tx: &Tx| -> Result<(), Error> {
        tx.execute("INSERT INTO a (n) VALUES (?1)", params![number]).await?;
        tx.execute("INSERT INTO b (n) VALUES (?1)", params![number]).await.map(|_| ())
    });
    written.await.unwrap();
}

/// How many rows the two tables of a file have.
async fn rows(file: &Path) -> (i64, i64) {
    let db = Db::open(&format!("sqlite://{}", file.display()), Options::default()).await.unwrap();
    let sql = "SELECT (SELECT count(*) FROM a) AS a, (SELECT count(*) FROM b) AS b";
    let row = db.query_opt(sql, vec![]).await.unwrap().unwrap();
    db.close().await;
    (row.get("a").unwrap(), row.get("b").unwrap())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_during_writes_is_a_consistent_snapshot() {
    let engine = sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    for number in 0..50 {
        write(&engine.db, number).await;
    }
    let db = engine.db.clone();
    let writer = tokio::spawn(async move {
        for number in 50..300 {
            write(&db, number).await;
        }
    });
    for round in 0..3 {
        let file = folder.path().join(format!("{round}.db"));
        let bytes = backup(&engine.url, &file).await.unwrap();
        assert_eq!(bytes, std::fs::metadata(&file).unwrap().len());
        let (a, b) = rows(&file).await;
        assert!(a == b && a >= 50, "{a} {b}");
    }
    writer.await.unwrap();
    // Each copy is complete in one file, readable only by its owner.
    assert!(names(folder.path()).iter().all(|name| !name.contains("unfinished")), "{:?}", names(folder.path()));
    #[cfg(unix)]
    {
        let mode = std::fs::metadata(folder.path().join("0.db")).unwrap();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
    }
}

#[tokio::test]
async fn existing_files_are_never_overwritten() {
    let engine = sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("there");
    std::fs::write(&file, "precious").unwrap();
    assert!(matches!(backup(&engine.url, &file).await, Err(BackupError::Exists(_))));
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    let nowhere = folder.path().join("no/such/folder/b.db");
    assert!(matches!(backup(&engine.url, &nowhere).await, Err(BackupError::Write { .. })));
    let missing = format!("sqlite://{}", folder.path().join("typo.db").display());
    let refused = backup(&missing, &folder.path().join("b.db")).await;
    assert!(matches!(refused, Err(BackupError::Open(OpenError::Missing { .. }))), "{refused:?}");
    assert_eq!(names(folder.path()), ["there"]);
}

#[tokio::test]
async fn a_restored_database_is_the_backup_and_the_former_one_is_kept() {
    let engine = sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.db");
    write(&engine.db, 1).await;
    backup(&engine.url, &file).await.unwrap();
    write(&engine.db, 2).await;

    // A running server prevents the restore, with and without the replace flag.
    engine.db.claim().unwrap();
    let refused = Restore::stage(&file, &engine.url, true).await;
    assert!(matches!(refused, Err(BackupError::Open(OpenError::InUse { .. }))), "{refused:?}");
    engine.db.close().await;
    assert!(matches!(Restore::stage(&file, &engine.url, false).await, Err(BackupError::Exists(_))));

    let staged = Restore::stage(&file, &engine.url, true).await.unwrap();
    // No server can start on it meanwhile.
    let late = Db::open(&engine.url, Options::default()).await.unwrap();
    assert!(matches!(late.claim(), Err(OpenError::InUse { .. })));
    late.close().await;
    let kept = staged.commit().await.unwrap().unwrap();
    let target = engine.url.strip_prefix("sqlite://").unwrap();
    assert_eq!(rows(Path::new(target)).await, (1, 1));
    assert_eq!(rows(&kept).await, (2, 2));
    assert_eq!(rows(&file).await, (1, 1));
    // The second time, the former database gets another name.
    let again = Restore::stage(&file, &engine.url, true).await.unwrap().commit().await.unwrap().unwrap();
    assert_ne!(kept, again);
}

#[tokio::test]
async fn a_leftover_write_ahead_log_is_not_applied_to_the_restored_database() {
    let engine = sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.db");
    write(&engine.db, 1).await;
    backup(&engine.url, &file).await.unwrap();
    // A crash leaves the log, and an operator deletes only the database.
    let target = Path::new(engine.url.strip_prefix("sqlite://").unwrap()).to_owned();
    for number in 2..50 {
        write(&engine.db, number).await;
    }
    let log = target.with_file_name("test.db-wal");
    let bytes = std::fs::read(&log).unwrap();
    assert!(!bytes.is_empty());
    engine.db.close().await;
    std::fs::remove_file(&target).unwrap();
    std::fs::write(&log, bytes).unwrap();

    Restore::stage(&file, &engine.url, false).await.unwrap().commit().await.unwrap();
    assert_eq!(rows(&target).await, (1, 1));
    assert!(names(target.parent().unwrap()).iter().any(|name| name.ends_with(".before-restore-1-wal")));
}

#[tokio::test]
async fn an_invalid_backup_is_refused_and_nothing_changes() {
    let engine = sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good.db");
    for number in 0..2_000 {
        write(&engine.db, number).await;
    }
    backup(&engine.url, &good).await.unwrap();
    let whole = std::fs::read(&good).unwrap();
    let cut = &whole[..whole.len() / 2];
    let mut rotten = whole.clone();
    for byte in rotten.iter_mut().skip(whole.len() / 3).take(whole.len() / 3) {
        *byte ^= 0x5a;
    }
    let other = folder.path().join("other.db");
    let foreign = Db::open(&format!("sqlite://{}", other.display()), Options::default()).await.unwrap();
    foreign.execute("CREATE TABLE t (a)", vec![]).await.unwrap();
    foreign.close().await;
    let foreign = std::fs::read(&other).unwrap();

    let target = folder.path().join("target.db");
    let url = format!("sqlite://{}", target.display());
    for (what, bytes) in [("cut", cut), ("rotten", &rotten), ("text", b"hello"), ("foreign", &foreign)] {
        let file = folder.path().join(what);
        std::fs::write(&file, bytes).unwrap();
        let refused = Restore::stage(&file, &url, true).await;
        assert!(matches!(refused, Err(BackupError::Damaged { .. })), "{what}: {refused:?}");
    }
    assert!(matches!(Restore::stage(&folder.path().join("none"), &url, true).await, Err(BackupError::Damaged { .. })));
    assert!(names(folder.path()).iter().all(|name| !name.starts_with("target.db")), "{:?}", names(folder.path()));
}

#[tokio::test]
async fn backup_and_restore_of_postgres_name_its_own_tools() {
    for engine in engines().await.iter().filter(|engine| engine.name == "postgres") {
        let refused = backup(&engine.url, Path::new("never.db")).await.unwrap_err();
        assert!(matches!(refused, BackupError::Postgres) && refused.to_string().contains("pg_dump"), "{refused}");
        assert!(matches!(Restore::stage(Path::new("x"), &engine.url, true).await, Err(BackupError::Postgres)));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn files_of_killed_backups_are_removed_by_the_next_and_those_of_running_ones_stay() {
    let source = sqlite().await;
    write(&source.db, 1).await;
    let folder = tempfile::tempdir().unwrap();
    let own = format!("copy.db.unfinished-{}", std::process::id());
    for left in ["monday.db.unfinished-1", "monday.db.unfinished-1-journal", &own, "notes.unfinished-x", "a.unfinished"]
    {
        std::fs::write(folder.path().join(left), "left").unwrap();
    }
    // The lock is that of a process that runs.
    let running = std::fs::File::create(folder.path().join("tuesday.db.unfinished-2")).unwrap();
    running.lock().unwrap();
    let copy = folder.path().join("copy.db");
    backup(&source.url, &copy).await.unwrap();
    let kept = ["a.unfinished", "copy.db", "notes.unfinished-x", "tuesday.db.unfinished-2"];
    assert_eq!(names(folder.path()), kept);
    drop(running);
    backup(&source.url, &folder.path().join("next.db")).await.unwrap();
    assert_eq!(names(folder.path()), ["a.unfinished", "copy.db", "next.db", "notes.unfinished-x"]);
    assert_eq!(rows(&copy).await, (1, 1));
}

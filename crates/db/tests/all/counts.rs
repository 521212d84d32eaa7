//! Cached counts are equal to those of the database.

use std::time::Duration;

use gatewright_db::testing::engines;
use gatewright_db::{Changes, Db, Error, Lane, Options, RowRef, Share, Tx, Value, params};

const COUNT: &str = "SELECT COUNT(*) FROM t WHERE n >= ?1";

/// Counts often enough to use every reader.
async fn counts(db: &Db, from: impl Into<Value>) -> Vec<i64> {
    let from = from.into();
    let mut counts = Vec::new();
    let db = db.clone().lane(Lane::Lists(Share(1)));
    for _ in 0..40 {
        let params = vec![from.clone()];
        let count = db.read(async move |tx: &Tx| tx.count(COUNT, params.clone()).await).await;
        counts.push(count.unwrap());
    }
    counts.dedup();
    counts
}

async fn add(db: &Db, n: i64) {
    db.execute("INSERT INTO t VALUES (?1)", params![n]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_count_includes_every_write_of_any_connection() {
    for engine in engines().await {
        let db = &engine.db;
        db.execute("CREATE TABLE t (n BIGINT)", vec![]).await.unwrap();
        let other = Db::open(&engine.url, Options::default()).await.unwrap();
        for n in 1..=20 {
            add(if n % 2 == 0 { db } else { &other }, n).await;
            assert_eq!(counts(db, 1).await, [n], "{}", engine.name);
            assert_eq!(counts(db, n).await, [1], "{}: each parameter has its count", engine.name);
        }
        let within = db.write(async |tx: &Tx| -> Result<_, Error> {
            let before = tx.count(COUNT, params![1]).await?;
            tx.execute("INSERT INTO t VALUES (21)", params![]).await?;
            Ok((before, tx.count(COUNT, params![1]).await?))
        });
        assert_eq!(within.await.unwrap(), (20, 21), "{}: a transaction counts its own writes", engine.name);
        let undone = db.write(async |tx: &Tx| -> Result<(), Error> {
            tx.execute("DELETE FROM t", params![]).await?;
            Err(Error::Closed)
        });
        assert!(undone.await.is_err());
        assert_eq!(counts(db, 1).await, [21], "{}", engine.name);
        db.execute("DELETE FROM t", params![]).await.unwrap();
        assert_eq!(counts(db, 1).await, [0], "{}", engine.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_never_sees_less_than_was_acknowledged() {
    for engine in engines().await {
        let db = engine.db.clone();
        db.execute("CREATE TABLE t (n BIGINT)", vec![]).await.unwrap();
        let writers = (0..4).map(|_| {
            let db = db.clone();
            tokio::spawn(async move {
                for own in 1..=50 {
                    add(&db, 1).await;
                    let count = db.read(async |tx: &Tx| tx.count(COUNT, params![1]).await).await.unwrap();
                    assert!((own..=200).contains(&count), "{count} of at least {own}");
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
        assert_eq!(counts(&db, 1).await, [200], "{}", engine.name);
    }
}

#[tokio::test]
async fn cached_counts_are_separate_per_parameter() {
    for engine in engines().await.into_iter().filter(|engine| engine.name == "sqlite") {
        let db = &engine.db;
        let pairs: [[&str; 2]; 3] = [["ab", "c"], ["a", "bc"], ["abc", ""]];
        for _ in 0..40 {
            for [first, second] in pairs {
                let params = params![first, second];
                let sql = "SELECT length(?1) * 10 + length(?2)";
                let count = db.read(async move |tx: &Tx| tx.count(sql, params.clone()).await).await.unwrap();
                assert_eq!(count, i64::try_from(first.len() * 10 + second.len()).unwrap());
            }
            for value in [Value::Int(1), Value::Bool(true), Value::Text("1".to_owned()), Value::Float(1.0)] {
                let text = matches!(value, Value::Text(_));
                let real = matches!(value, Value::Float(_));
                let params = vec![value];
                let sql = "SELECT CASE typeof(?1) WHEN 'text' THEN 2 WHEN 'real' THEN 1 ELSE 0 END";
                let count = db.read(async move |tx: &Tx| tx.count(sql, params.clone()).await).await.unwrap();
                assert_eq!(count, if text { 2 } else { i64::from(real) });
            }
        }
    }
}

/// Transactions of other connections end at any time on a shared server, so only one snapshot is stable.
#[tokio::test]
async fn postgres_counts_once_per_snapshot() {
    for engine in engines().await.into_iter().filter(|engine| engine.name == "postgres") {
        let lists = engine.db.clone().lane(Lane::Lists(Share(1)));
        let any = "SELECT (random() * 1000000000)::bigint + ?1";
        let counted = lists.read(async move |tx: &Tx| -> Result<_, Error> {
            tx.one_snapshot();
            let mut counted = Vec::new();
            for _ in 0..3 {
                counted.push(tx.count(any, params![0]).await?);
                let both = tx.fold_and_count(("SELECT 1", vec![]), 0, |_, _| Ok(()), (any, params![0])).await?;
                counted.extend(both.1);
            }
            Ok((counted, tx.count(any, params![1]).await?))
        });
        let (mut counted, other) = counted.await.unwrap();
        assert_eq!(counted.len(), 6, "{}", engine.name);
        counted.dedup();
        assert_eq!(counted.len(), 1, "it was counted again");
        assert_ne!(counted[0] + 1, other, "each parameter has its count");
        engine.db.execute("CREATE TABLE t (n BIGINT)", vec![]).await.unwrap();
        let after = lists.read(async move |tx: &Tx| tx.count(any, params![0]).await).await.unwrap();
        assert_ne!(counted[0], after, "a write was missed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_count_beside_rows_follows_every_write() {
    for engine in engines().await {
        let db = &engine.db;
        db.execute("CREATE TABLE t (n BIGINT)", vec![]).await.unwrap();
        let lists = engine.db.clone().lane(Lane::Lists(Share(1)));
        for n in 1..=30 {
            add(db, n).await;
            let read = lists.read(async |tx: &Tx| -> Result<_, Error> {
                let rows = ("SELECT n FROM t ORDER BY n", vec![]);
                let each = |seen: &mut Vec<i64>, row: &RowRef<'_>| {
                    seen.push(row.get(0)?);
                    Ok(())
                };
                tx.fold_and_count(rows, Vec::new(), each, (COUNT, params![1])).await
            });
            let (seen, count) = read.await.unwrap();
            assert_eq!(seen, (1..=n).collect::<Vec<_>>(), "{}", engine.name);
            assert!(count.is_none_or(|count| count == n), "{}: {count:?} of {n}", engine.name);
        }
    }
}

/// A table of `rows` rows, and one for writes that do not change their number.
async fn filled(db: &Db, rows: i64) {
    db.execute("CREATE TABLE t (n BIGINT)", vec![]).await.unwrap();
    db.execute("CREATE TABLE other (n BIGINT)", vec![]).await.unwrap();
    let fill = "INSERT INTO t WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1) \
                SELECT n FROM numbers";
    db.execute(fill, params![rows]).await.unwrap();
}

/// Counts after a write, with a log that tells of this change since any position.
async fn count_after_a_write(db: &Db, change: &str) -> i64 {
    db.execute("INSERT INTO other VALUES (1)", vec![]).await.unwrap();
    let since = format!("SELECT {change}, ?1 + ?2 * 0").into();
    let changes = Changes { newest: "SELECT 5".into(), since, params: vec![] };
    db.read(async move |tx: &Tx| tx.count_by(COUNT, params![1], &changes).await).await.unwrap()
}

#[tokio::test]
async fn a_large_count_follows_a_log_for_about_a_second() {
    for engine in engines().await.into_iter().filter(|engine| engine.name == "sqlite") {
        let db = &engine.db;
        filled(db, 10_000).await;
        // A reader that has counted reads the log. The test may be slower than a second, so it tries again.
        let mut is_followed = false;
        for _ in 0..200 {
            let count = count_after_a_write(db, "7").await;
            assert_eq!(count % 7, 10_000 % 7, "the change since, once for each write");
            is_followed |= count > 10_000;
        }
        assert!(is_followed, "each write made all rows be counted again");
        assert_eq!(count_after_a_write(db, "NULL").await, 10_000, "the log does not tell");
        let mut is_counted = false;
        for _ in 0..200 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            is_counted |= count_after_a_write(db, "7").await == 10_000;
            if is_counted {
                break;
            }
        }
        assert!(is_counted, "the rows are counted again after a second");
    }
}

#[tokio::test]
async fn a_small_count_never_follows_a_log() {
    for engine in engines().await {
        filled(&engine.db, 9_999).await;
        for _ in 0..50 {
            assert_eq!(count_after_a_write(&engine.db, "7").await, 9_999, "{}", engine.name);
        }
    }
}

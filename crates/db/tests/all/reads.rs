//! Single reads of one caller on Postgres, and those of other callers at the same time. They share a few connections.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use gatewright_db::testing::{TestDb, engines_with};
use gatewright_db::{Db, Engine, Error, Lane, Options, RowRef, Share, Sql, Tx, ValueRef};
use tokio::task::JoinHandle;

/// Takes longer than a statement may take on a shared connection.
const SLOW: &str = "SELECT pg_sleep(0.2)::text AS slow";
/// Which time limit applies: that of shared connections, or the ordinary one.
const LIMIT: &str = "SELECT current_setting('statement_timeout') AS time";
const SHARED: &str = "25ms";
const ORDINARY: &str = "4min";

async fn postgres() -> Option<TestDb> {
    let long = Duration::from_mins(5);
    let options = Options {
        statement_timeout: Duration::from_mins(4),
        list_timeout: long,
        busy_timeout: long,
        ..Options::default()
    };
    engines_with(options).await.into_iter().find(|engine| engine.db.engine() == Engine::Postgres)
}

fn reads(db: &Db, share: u64) -> Db {
    db.clone().lane(Lane::Records(Share(share)))
}

/// A query that returns one text. Returns the text's length.
async fn read(db: Db, sql: impl Into<Sql>, way: usize) -> Result<usize, Error> {
    fn length(row: &RowRef<'_>) -> Result<usize, Error> {
        if let ValueRef::Text(text) = row.value(0)? { Ok(text.len()) } else { Ok(0) }
    }
    let sql = sql.into();
    match way % 3 {
        0 => {
            let row = db.query_opt(sql, vec![]).await?.unwrap();
            let value = row.values().first().cloned();
            Ok(if let Some(gatewright_db::Value::Text(text)) = value { text.len() } else { 0 })
        }
        1 => Ok(db.first(sql, vec![], length).await?.unwrap()),
        _ => {
            let read = async move |tx: &Tx| {
                let first = tx.query("SELECT 1 AS one", vec![]).await?;
                assert_eq!(first.len(), 1);
                tx.fold(sql.clone(), vec![], 0, |sum, row| {
                    *sum += length(row)?;
                    Ok(())
                })
                .await
            };
            db.read(read).await
        }
    }
}

async fn limit_of(db: &Db, share: u64) -> String {
    reads(db, share).query(LIMIT, vec![]).await.unwrap()[0].get("time").unwrap()
}

/// Reads of caller 1, in all ways.
fn flood(db: &Db, count: usize, sql: &str) -> Vec<JoinHandle<Result<usize, Error>>> {
    (0..count).map(|way| tokio::spawn(read(reads(db, 1), sql.to_owned(), way))).collect()
}

/// Other callers, and the program, read while the flood of caller 1 runs. At most half of it may go before them.
async fn others_read(db: &Db, flood: &[JoinHandle<Result<usize, Error>>]) {
    // All of them are sent, or wait.
    tokio::time::sleep(Duration::from_millis(10)).await;
    for share in [2, 0, 3] {
        for way in 0..3 {
            assert_eq!(read(reads(db, share), "SELECT 'one' AS one", way).await.unwrap(), 3);
        }
    }
    let ended = flood.iter().filter(|read| read.is_finished()).count();
    assert!(ended < flood.len() / 2, "{ended} of {} went before", flood.len());
}

#[tokio::test]
async fn slow_reads_of_one_caller_do_not_delay_those_of_others() {
    let Some(engine) = postgres().await else { return };
    let slow = flood(&engine.db, 64, SLOW);
    others_read(&engine.db, &slow).await;
    for read in slow {
        assert_eq!(read.await.unwrap().unwrap(), 0, "it ran again, and to its end");
    }
}

#[tokio::test]
async fn large_reads_of_one_caller_do_not_delay_those_of_others() {
    let Some(engine) = postgres().await else { return };
    let large = flood(&engine.db, 128, "SELECT repeat('x', 2000000) AS large");
    others_read(&engine.db, &large).await;
    for read in large {
        assert_eq!(read.await.unwrap().unwrap(), 2_000_000);
    }
}

#[tokio::test]
async fn a_caller_whose_read_was_slow_or_large_reads_apart_for_a_while() {
    let Some(engine) = postgres().await else { return };
    let db = &engine.db;
    for (share, costly) in [(1, SLOW), (2, "SELECT repeat('x', 20000000) AS large")] {
        assert_eq!(limit_of(db, share).await, SHARED);
        for way in 0..3 {
            read(reads(db, share), costly, way).await.unwrap();
            assert_eq!(limit_of(db, share).await, ORDINARY, "{costly}");
            assert_eq!(limit_of(db, 3).await, SHARED, "others are not concerned");
        }
        let shared_again = async {
            while limit_of(db, share).await != SHARED {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), shared_again).await.expect("that ends");
    }
    // The program's own reads have a place among its transactions, each time.
    read(db.clone(), SLOW, 0).await.unwrap();
    assert_eq!(limit_of(db, 0).await, SHARED);
}

#[tokio::test]
async fn reads_that_run_apart_fail_like_others_and_leave_their_connection_usable() {
    let Some(engine) = postgres().await else { return };
    let db = reads(&engine.db, 1);
    for _ in 0..8 {
        for way in 0..3 {
            read(db.clone(), SLOW, way).await.unwrap();
            let failed = read(db.clone(), "SELECT (1 / 0)::text AS failed", way).await;
            assert!(matches!(failed, Err(Error::Other { .. })), "{failed:?}");
            let failed = read(db.clone(), "SELECT nothing FROM nowhere", way).await;
            assert!(matches!(failed, Err(Error::Outdated(_))), "{failed:?}");
        }
        let written = db.read(async |tx: &Tx| tx.execute("CREATE TABLE written (n INTEGER)", vec![]).await).await;
        assert!(matches!(written, Err(Error::ReadOnly)), "{written:?}");
        assert_eq!(limit_of(&engine.db, 1).await, ORDINARY);
    }
}

/// A read whose caller left runs on the server nevertheless.
#[tokio::test]
async fn reads_that_were_given_up_count_until_they_have_ended() {
    let Some(engine) = postgres().await else { return };
    let db = &engine.db;
    db.execute("CREATE SEQUENCE sent", vec![]).await.unwrap();
    let next = "SELECT nextval('sent')::text AS number, pg_sleep(0.01)::text AS slept";
    // Afterwards it is prepared, so that it is sent when it is first polled.
    db.query(next, vec![]).await.unwrap();
    for _ in 0..64 {
        let db = reads(db, 1);
        let mut given_up = Box::pin(db.query(next, vec![]));
        poll_fn(|context| {
            assert!(given_up.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
    }
    let sent = reads(db, 2).query("SELECT last_value FROM sent", vec![]).await.unwrap();
    let sent: i64 = sent[0].get("last_value").unwrap();
    assert!((2..=20).contains(&sent), "{sent} of 65 were sent");
    // They leave their places.
    let again = tokio::time::timeout(Duration::from_mins(1), read(reads(db, 1), "SELECT 'one' AS one", 0));
    assert_eq!(again.await.expect("the caller has turns again").unwrap(), 3);
}

//! A rolled back write leaves nothing, in the database or outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gatewright_db::{Db, Error, Tx, Value, params};
use parking_lot::Mutex;

use super::transactions::{fresh, insert, insert_one, values};

#[tokio::test]
async fn a_write_that_panics_over_its_rows_is_rolled_back() {
    const INSERT: &str = "INSERT INTO t (a) VALUES (?1) RETURNING a";
    for engine in fresh().await {
        insert_one(&engine.db, 0).await;
        let unread = engine.db.write(async |tx: &Tx| -> Result<(), Error> {
            tx.fold(INSERT, params![1_i64], (), |(), _| panic!("over its rows")).await
        });
        assert!(matches!(unread.await, Err(Error::Panicked(_))), "{}", engine.name);
        if engine.name == "sqlite" {
            let unread =
                engine.db.write_fold(INSERT, params![2_i64], (), |(), _| panic!("over its rows"), |()| ()).await;
            assert!(matches!(unread, Err(Error::Panicked(_))));
        }
        assert_eq!(values(&engine.db).await, [0], "{}", engine.name);
    }
}

/// A blocked writer, and queued behind it two writes whose callers leave, one that succeeds, and one that fails after
/// a change. `None` if they did not share a group; else whose actions ran.
async fn a_group_that_runs_again(db: &Db, first: i64) -> Option<Vec<i64>> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let good_runs = Arc::new(AtomicUsize::new(0));
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    let (gone, until_gone) = std::sync::mpsc::channel::<()>();
    let (reached, mut is_reached) = tokio::sync::mpsc::unbounded_channel();
    let (blocked, until_gone) = (Mutex::new(blocked), Mutex::new(until_gone));
    let good = |value: i64| {
        let (db, told, runs) = (db.clone(), told.clone(), good_runs.clone());
        tokio::spawn(async move {
            db.write(async move |tx: &Tx| {
                runs.fetch_add(1, Ordering::Relaxed);
                insert(tx, value).await?;
                let told = told.clone();
                tx.after_commit(move || told.lock().push(value));
                Ok::<_, Error>(())
            })
            .await
        })
    };
    let first_in_line = {
        let db = db.clone();
        tokio::spawn(async move {
            db.write(async move |tx: &Tx| {
                let _unblocked = blocked.lock().recv();
                tx.execute("UPDATE t SET b = 1", vec![]).await
            })
            .await
        })
    };
    tokio::task::yield_now().await;
    let abandoned = good(first);
    let abandoned_statement = {
        let (db, told) = (db.clone(), told.clone());
        tokio::spawn(async move {
            let insert = "INSERT INTO t (a) VALUES (?1) RETURNING a";
            db.write_fold(insert, params![first + 1], (), |(), _| Ok(()), move |()| told.lock().push(first + 1)).await
        })
    };
    let kept = good(first + 2);
    let failing = {
        let (db, runs) = (db.clone(), AtomicUsize::new(0));
        tokio::spawn(async move {
            db.write(async move |tx: &Tx| -> Result<(), Error> {
                insert(tx, first + 3).await?;
                if runs.fetch_add(1, Ordering::Relaxed) == 0 {
                    reached.send(()).unwrap();
                    let _gone = until_gone.lock().recv();
                }
                Err(Error::ReadOnly)
            })
            .await
        })
    };
    tokio::task::yield_now().await;
    // Without a sender, it is not blocked when it runs again.
    unblock.send(()).unwrap();
    drop(unblock);
    is_reached.recv().await.unwrap();
    abandoned.abort();
    abandoned_statement.abort();
    let (_gone, _too) = (abandoned.await, abandoned_statement.await);
    gone.send(()).unwrap();
    assert!(matches!(failing.await.unwrap(), Err(Error::ReadOnly)));
    kept.await.unwrap().unwrap();
    first_in_line.await.unwrap().unwrap();
    let told = told.lock().clone();
    // The write whose caller left ran once, and the other one twice.
    (good_runs.load(Ordering::Relaxed) == 3).then_some(told)
}

#[tokio::test]
async fn a_rolled_back_write_whose_caller_left_runs_no_action() {
    let engines = fresh().await;
    let engine = engines.iter().find(|engine| engine.name == "sqlite").expect("SQLite is always there");
    for round in 0..50 {
        let first = round * 10;
        let told = a_group_that_runs_again(&engine.db, first).await;
        let now: Vec<i64> = values(&engine.db).await.into_iter().filter(|value| *value >= first).collect();
        let Some(mut told) = told else { continue };
        told.sort_unstable();
        assert_eq!(told, now, "each row has had its action, once, and nothing else has");
        assert_eq!(told, [first + 2]);
        return;
    }
    panic!("the writes never shared a group");
}

#[tokio::test]
async fn a_query_that_is_stopped_in_a_transaction_leaves_it_as_it_was() {
    let endless =
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 300000000) SELECT COUNT(*) FROM n";
    for engine in fresh().await {
        let done = engine.db.write(async move |tx: &Tx| -> Result<_, Error> {
            insert(tx, 1).await?;
            let mut time = Duration::from_millis(20);
            let is_whole = tx.fold_within(&mut time, endless, vec![], |_| Ok(())).await?;
            assert_eq!((is_whole, time), (false, Duration::ZERO));
            let mut time = Duration::from_secs(20);
            let is_whole =
                tx.fold_within(&mut time, "SELECT 1 / (a - 1) AS x FROM t WHERE nothing = 1", vec![], |_| Ok(()));
            assert!(!is_whole.await?, "one that fails");
            let mut seen = Vec::new();
            let each = |row: &gatewright_db::RowRef<'_>| {
                seen.push(row.value(0)?.to_value());
                Ok(())
            };
            assert!(tx.fold_within(&mut time, "SELECT a FROM t", vec![], each).await?);
            assert_eq!(seen, [Value::Int(1)]);
            assert!(time > Duration::from_secs(1));
            tx.execute("INSERT INTO t (a) VALUES (2)", vec![]).await
        });
        assert_eq!(done.await.unwrap(), 1);
        assert_eq!(values(&engine.db).await, [1, 2], "{}", engine.name);
    }
}

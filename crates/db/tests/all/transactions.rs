use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gatewright_db::testing::{TestDb, engines, engines_with};
use gatewright_db::{Db, Error, Options, Tx, Value, params};
use parking_lot::Mutex;

pub(crate) async fn fresh() -> Vec<TestDb> {
    let engines = engines().await;
    for engine in &engines {
        engine.db.execute("CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT NOT NULL DEFAULT 0)", vec![]).await.unwrap();
    }
    engines
}

pub(crate) async fn values(db: &Db) -> Vec<i64> {
    let rows = db.query("SELECT a FROM t ORDER BY a", vec![]).await.unwrap();
    rows.iter().map(|row| row.get("a").unwrap()).collect()
}

pub(crate) async fn insert(tx: &Tx, value: i64) -> Result<u64, Error> {
    tx.execute("INSERT INTO t (a) VALUES (?1)", params![value]).await
}

#[tokio::test]
async fn a_failed_transaction_is_rolled_back_and_its_neighbours_are_kept() {
    for engine in fresh().await {
        let writes = (0..60_i64).map(|value| {
            let db = engine.db.clone();
            tokio::spawn(async move {
                db.write(async move |tx: &Tx| {
                    insert(tx, value * 10).await?;
                    match value % 3 {
                        0 => Ok(()),
                        1 => Err(Error::ReadOnly),
                        _ => insert(tx, value * 10).await.map(|_| ()),
                    }
                })
                .await
            })
        });
        let writes: Vec<_> = writes.collect();
        let mut kept = Vec::new();
        for (value, write) in (0..).zip(writes) {
            let outcome = write.await.unwrap();
            match value % 3 {
                0 => kept.push(value * 10),
                1 => assert!(matches!(outcome, Err(Error::ReadOnly))),
                _ => assert!(matches!(outcome, Err(Error::Unique { .. })), "{outcome:?}"),
            }
        }
        assert_eq!(values(&engine.db).await, kept, "{}", engine.name);
    }
}

#[tokio::test]
async fn only_a_panicking_transaction_rolls_back() {
    for engine in fresh().await {
        let panicked: Result<(), Error> = engine
            .db
            .write(async |tx: &Tx| {
                insert(tx, 1).await?;
                panic!("in the middle")
            })
            .await;
        assert!(matches!(&panicked, Err(Error::Panicked(text)) if text == "in the middle"), "{panicked:?}");
        engine.db.write(async |tx: &Tx| insert(tx, 2).await).await.unwrap();
        assert_eq!(values(&engine.db).await, [2], "{}", engine.name);
    }
}

#[tokio::test]
async fn a_transaction_that_awaits_something_else_is_cut_off_and_others_continue() {
    // Long enough for writes that do not wait, on a busy machine too.
    let options = Options { write_deadline: Duration::from_secs(2), ..Options::default() };
    for engine in engines_with(options).await.into_iter().filter(|engine| engine.name == "sqlite") {
        engine.db.execute("CREATE TABLE t (a BIGINT PRIMARY KEY)", vec![]).await.unwrap();
        let stuck = engine.db.write(async |tx: &Tx| {
            insert(tx, 1).await?;
            std::future::pending::<Result<(), Error>>().await
        });
        let other = engine.db.write(async |tx: &Tx| insert(tx, 2).await);
        let (stuck, other) = tokio::join!(stuck, other);
        assert!(matches!(stuck, Err(Error::Deadline)));
        other.unwrap();
        assert_eq!(values(&engine.db).await, [2]);
    }
}

#[tokio::test]
async fn a_dropped_transaction_rolls_back() {
    for engine in fresh().await {
        let db = engine.db.clone();
        let (begun, wait) = tokio::sync::oneshot::channel();
        let begun = Arc::new(Mutex::new(Some(begun)));
        let dropped = tokio::spawn(async move {
            db.write(async move |tx: &Tx| {
                insert(tx, 1).await?;
                let begun = begun.lock().take();
                begun.map(|begun| begun.send(()));
                std::future::pending::<Result<(), Error>>().await
            })
            .await
        });
        wait.await.unwrap();
        dropped.abort();
        engine.db.write(async |tx: &Tx| insert(tx, 1).await).await.unwrap();
        assert_eq!(values(&engine.db).await, [1], "{}", engine.name);
    }
}

#[tokio::test]
async fn a_runaway_statement_is_stopped() {
    let options = Options { statement_timeout: Duration::from_millis(100), ..Options::default() };
    for engine in engines_with(options).await {
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) AS c FROM n";
        let read = engine.db.query(endless, vec![]).await;
        assert!(matches!(read, Err(Error::Deadline)), "{}: {read:?}", engine.name);
        let write = engine.db.write(async move |tx: &Tx| tx.query(endless, vec![]).await).await;
        assert!(matches!(write, Err(Error::Deadline)), "{}: {write:?}", engine.name);
        engine.db.ping().await.unwrap();
    }
}

#[tokio::test]
async fn a_read_outside_the_transaction_sees_the_state_before_it() {
    for engine in fresh().await {
        engine.db.write(async |tx: &Tx| insert(tx, 1).await).await.unwrap();
        let (db, name) = (engine.db.clone(), engine.name);
        let seen = engine.db.write(async move |tx: &Tx| {
            insert(tx, 2).await?;
            Ok::<_, Error>(values(&db).await)
        });
        assert_eq!(seen.await.unwrap(), [1], "{name}");
        assert_eq!(values(&engine.db).await, [1, 2], "{name}");
        // On SQLite a read would wait for its own thread.
        let db = engine.db.clone();
        let read = engine.db.read(async move |_: &Tx| db.query("SELECT 1 AS one", vec![]).await).await;
        assert_eq!(matches!(read, Err(Error::Nested)), name == "sqlite", "{read:?}");
    }
}

#[tokio::test]
async fn a_nested_transaction_is_refused_on_sqlite() {
    for engine in fresh().await.into_iter().filter(|engine| engine.name == "sqlite") {
        let db = engine.db.clone();
        let nested = engine.db.write(async move |_: &Tx| db.write(async |tx: &Tx| insert(tx, 1).await).await).await;
        assert!(matches!(nested, Err(Error::Nested)));
        assert!(values(&engine.db).await.is_empty());
    }
}

#[tokio::test]
async fn actions_run_after_the_commit_in_commit_order_and_never_after_a_rollback() {
    for engine in fresh().await {
        let seen = Arc::new(Mutex::new(Vec::new()));
        for value in 0..20_i64 {
            let log = seen.clone();
            let outcome: Result<(), Error> = engine
                .db
                .write(async move |tx: &Tx| {
                    insert(tx, value).await?;
                    let log = log.clone();
                    tx.after_commit(move || log.lock().push(value));
                    if value % 2 == 0 { Ok(()) } else { Err(Error::ReadOnly) }
                })
                .await;
            assert_eq!(outcome.is_ok(), value % 2 == 0);
        }
        let even: Vec<i64> = (0..20).filter(|value| value % 2 == 0).collect();
        assert_eq!(*seen.lock(), even, "{}", engine.name);
        let log = seen.clone();
        let rows = engine
            .db
            .write_fold(
                "INSERT INTO t (a) VALUES (?1) RETURNING a",
                params![100_i64],
                Vec::new(),
                |rows, row| {
                    rows.push(row.value(0)?.to_value());
                    Ok(())
                },
                move |rows: &Vec<Value>| {
                    assert_eq!(rows.len(), 1);
                    log.lock().push(100);
                },
            )
            .await
            .unwrap();
        assert_eq!(rows, [Value::Int(100)]);
        assert_eq!(seen.lock().last(), Some(&100));
    }
}

#[tokio::test]
async fn a_panicking_action_does_not_stop_the_writer() {
    for engine in fresh().await.into_iter().filter(|engine| engine.name == "sqlite") {
        engine
            .db
            .write(async |tx: &Tx| {
                tx.after_commit(|| panic!("afterwards"));
                insert(tx, 1).await
            })
            .await
            .unwrap();
        engine.db.write(async |tx: &Tx| insert(tx, 2).await).await.unwrap();
        assert_eq!(values(&engine.db).await, [1, 2]);
    }
}

#[tokio::test]
async fn a_deferred_constraint_that_fails_at_commit_fails_only_its_own_transaction() {
    for engine in fresh().await {
        engine
            .db
            .execute("CREATE TABLE child (a BIGINT REFERENCES t (a) DEFERRABLE INITIALLY DEFERRED)", vec![])
            .await
            .unwrap();
        let writes: Vec<_> = (0..40_i64)
            .map(|value| {
                let db = engine.db.clone();
                tokio::spawn(async move {
                    db.write(async move |tx: &Tx| {
                        tx.execute("INSERT INTO child VALUES (?1)", params![value]).await?;
                        if value % 8 == 0 { Ok(0) } else { insert(tx, value).await }
                    })
                    .await
                })
            })
            .collect();
        for (value, write) in (0..40).zip(writes) {
            assert_eq!(write.await.unwrap().is_ok(), value % 8 != 0, "{} {value}", engine.name);
        }
        assert_eq!(values(&engine.db).await.len(), 35, "{}", engine.name);
    }
}

#[tokio::test]
async fn a_statement_that_ends_the_group_affects_no_other_job() {
    for engine in fresh().await.into_iter().filter(|engine| engine.name == "sqlite") {
        insert_one(&engine.db, 1000).await;
        let writes: Vec<_> = (0..40_i64)
            .map(|value| {
                let db = engine.db.clone();
                tokio::spawn(async move {
                    db.write(async move |tx: &Tx| {
                        let target = if value % 10 == 0 { 1000 } else { value };
                        tx.execute("INSERT OR ROLLBACK INTO t (a) VALUES (?1)", params![target]).await
                    })
                    .await
                })
            })
            .collect();
        for (value, write) in (0..40).zip(writes) {
            assert_eq!(write.await.unwrap().is_ok(), value % 10 != 0, "{value}");
        }
        assert_eq!(values(&engine.db).await.len(), 37);
    }
}

/// `OR FAIL` keeps what the statement has changed before it failed: its transaction has not.
#[tokio::test]
async fn a_statement_that_fails_half_way_changes_nothing() {
    for engine in fresh().await.into_iter().filter(|engine| engine.name == "sqlite") {
        insert_one(&engine.db, 1000).await;
        let fail = |value: i64| {
            let db = engine.db.clone();
            let sql = "INSERT OR FAIL INTO t (a) VALUES (?1), (1000)";
            async move { db.write(async move |tx: &Tx| tx.execute(sql, params![value]).await).await }
        };
        assert!(matches!(fail(1).await, Err(Error::Unique { .. })));
        assert_eq!(values(&engine.db).await, [1000]);
        for round in 0..20_i64 {
            let writes: Vec<_> = (0..20_i64)
                .map(|value| {
                    let (db, failing) = (engine.db.clone(), fail(-value - 1));
                    tokio::spawn(async move {
                        if value % 7 == 3 {
                            failing.await
                        } else {
                            db.write(async move |tx: &Tx| insert(tx, round * 20 + value).await).await
                        }
                    })
                })
                .collect();
            for (value, write) in (0..20).zip(writes) {
                assert_eq!(write.await.unwrap().is_ok(), value % 7 != 3, "{round} {value}");
            }
        }
        let kept: Vec<i64> = (0..400).filter(|value| value % 20 % 7 != 3).chain([1000]).collect();
        assert_eq!(values(&engine.db).await, kept);
    }
}

/// A transaction may continue after a failure that it handles.
#[tokio::test]
async fn a_transaction_may_continue_after_a_failed_statement_on_sqlite() {
    for engine in fresh().await.into_iter().filter(|engine| engine.name == "sqlite") {
        insert_one(&engine.db, 1).await;
        let done = engine.db.write(async |tx: &Tx| {
            let taken = tx.execute("INSERT INTO t (a) VALUES (2), (1)", vec![]).await;
            assert!(matches!(taken, Err(Error::Unique { .. })));
            insert(tx, 3).await
        });
        done.await.unwrap();
        assert_eq!(values(&engine.db).await, [1, 3]);
    }
}

pub(crate) async fn insert_one(db: &Db, value: i64) {
    db.write(async move |tx: &Tx| insert(tx, value).await).await.unwrap();
}

#[tokio::test]
async fn a_write_whose_rows_cannot_be_read_is_undone_on_sqlite() {
    for engine in fresh().await.into_iter().filter(|engine| engine.name == "sqlite") {
        let insert = "INSERT INTO t (a) VALUES (?1) RETURNING a";
        let unread = engine.db.write_fold(insert, params![1_i64], (), |(), _| Err(Error::ReadOnly), |()| ()).await;
        assert!(matches!(unread, Err(Error::ReadOnly)));
        assert!(values(&engine.db).await.is_empty());
    }
}

#[tokio::test]
async fn the_job_that_ends_the_group_gets_its_own_error() {
    for engine in fresh().await.into_iter().filter(|engine| engine.name == "sqlite") {
        insert_one(&engine.db, 1).await;
        let ended = engine.db.execute("INSERT OR ROLLBACK INTO t (a) VALUES (1)", vec![]).await;
        assert!(matches!(ended, Err(Error::Unique { .. })), "{ended:?}");
    }
}

#[tokio::test]
async fn a_committed_write_runs_its_action_even_if_the_caller_left() {
    for engine in fresh().await {
        let told = Arc::new(AtomicUsize::new(0));
        let calls: Vec<_> = (0..200_i64)
            .map(|value| {
                let (db, told) = (engine.db.clone(), told.clone());
                tokio::spawn(async move {
                    db.write(async move |tx: &Tx| {
                        insert(tx, value).await?;
                        let told = told.clone();
                        tx.after_commit(move || {
                            told.fetch_add(1, Ordering::Relaxed);
                        });
                        Ok::<_, Error>(())
                    })
                    .await
                })
            })
            .collect();
        for (number, call) in calls.iter().enumerate() {
            if number % 7 == 0 {
                tokio::task::yield_now().await;
            }
            call.abort();
        }
        for call in calls {
            let _outcome = call.await;
        }
        // On SQLite writes run in order: when this one is done, earlier ones are too. On Postgres they finish soon.
        insert_one(&engine.db, -1).await;
        let mut rounds = 0;
        while values(&engine.db).await.len() - 1 != told.load(Ordering::Relaxed) {
            rounds += 1;
            assert!(rounds < 1_000, "{}: every row has had its action", engine.name);
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn lost_updates_do_not_happen() {
    for engine in fresh().await {
        insert_one(&engine.db, 1).await;
        let runs = Arc::new(AtomicUsize::new(0));
        let writes: Vec<_> = (0..40)
            .map(|_| {
                let (db, runs) = (engine.db.clone(), runs.clone());
                tokio::spawn(async move {
                    db.write(async move |tx: &Tx| {
                        runs.fetch_add(1, Ordering::Relaxed);
                        tx.execute("UPDATE t SET b = b + 1 WHERE a = 1", vec![]).await
                    })
                    .await
                })
            })
            .collect();
        for write in writes {
            write.await.unwrap().unwrap();
        }
        let row = engine.db.query_opt("SELECT b FROM t WHERE a = 1", vec![]).await.unwrap().unwrap();
        assert_eq!(row.get::<i64>("b").unwrap(), 40, "{}", engine.name);
        assert!(runs.load(Ordering::Relaxed) >= 40);
    }
}

#[tokio::test]
async fn a_serialization_failure_is_retried() {
    for engine in fresh().await.into_iter().filter(|engine| engine.name == "postgres") {
        insert_one(&engine.db, 1).await;
        insert_one(&engine.db, 2).await;
        // Two transactions that lock the same rows in opposite order deadlock; the server ends one, which runs again.
        let barrier = Arc::new(tokio::sync::Barrier::new(2));
        let first = Arc::new(AtomicUsize::new(0));
        let both: Vec<_> = [[1_i64, 2], [2, 1]]
            .into_iter()
            .map(|order| {
                let (db, barrier, first) = (engine.db.clone(), barrier.clone(), first.clone());
                tokio::spawn(async move {
                    db.write(async move |tx: &Tx| {
                        let update = "UPDATE t SET b = b + 1 WHERE a = ?1";
                        tx.execute(update, params![order[0]]).await?;
                        if first.fetch_add(1, Ordering::Relaxed) < 2 {
                            barrier.wait().await;
                        }
                        tx.execute(update, params![order[1]]).await
                    })
                    .await
                })
            })
            .collect();
        for write in both {
            write.await.unwrap().unwrap();
        }
        assert!(first.load(Ordering::Relaxed) >= 3, "the loser ran again");
        let rows = engine.db.query("SELECT b FROM t", vec![]).await.unwrap();
        assert!(rows.iter().all(|row| row.get::<i64>("b").unwrap() == 2));
    }
}

#[tokio::test]
async fn a_lost_connection_is_reported_and_replaced() {
    for engine in fresh().await.into_iter().filter(|engine| engine.name == "postgres") {
        let other = Db::open(&engine.url, Options::default()).await.unwrap();
        let kill = "SELECT pg_terminate_backend(pid)::text AS x FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid()";
        insert_one(&engine.db, 1).await;
        for round in 2..5_i64 {
            other.query(kill, vec![]).await.unwrap();
            // Whatever the running write reports, later ones get a new connection.
            let mut tries = 0;
            while engine.db.write(async move |tx: &Tx| insert(tx, round).await).await.is_err() {
                tries += 1;
                assert!(tries < 20, "the pool recovers");
            }
            assert!(engine.db.query("SELECT a FROM t", vec![]).await.is_ok(), "a read is sent again by itself");
        }
    }
}

#[tokio::test]
async fn two_handles_on_one_sqlite_file_take_turns() {
    for engine in fresh().await.into_iter().filter(|engine| engine.name == "sqlite") {
        let second = Db::open(&engine.url, Options::default()).await.unwrap();
        let writes: Vec<_> = (0..100_i64)
            .map(|value| {
                let db = if value % 2 == 0 { engine.db.clone() } else { second.clone() };
                tokio::spawn(async move { insert_one(&db, value).await })
            })
            .collect();
        for write in writes {
            write.await.unwrap();
        }
        assert_eq!(values(&second).await.len(), 100);
    }
}

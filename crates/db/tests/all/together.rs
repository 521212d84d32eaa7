//! Single writing statements of one caller on Postgres: those that wait are committed together, and no caller notices it.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{Db, Engine, Error, Options, RowRef, Share, ValueRef, params};
use tokio::task::JoinHandle;

/// Three of them for single statements that write.
const SIXTEEN: NonZeroUsize = NonZeroUsize::new(16).unwrap();
const INSERT: &str = "INSERT INTO items (id, note) VALUES (?1, ?2) RETURNING id";

async fn postgres() -> Option<(TestDb, Db)> {
    let options = Options { busy_timeout: Duration::from_mins(1), max_connections: SIXTEEN, ..Options::default() };
    let engine = engines().await.into_iter().find(|engine| engine.db.engine() == Engine::Postgres)?;
    let create = "CREATE TABLE items (id BIGINT PRIMARY KEY, note TEXT NOT NULL CHECK (note <> 'bad'))";
    engine.db.execute(create, vec![]).await.unwrap();
    // The handle of the engine has fewer connections.
    let db = Db::open(&engine.url, options).await.unwrap();
    Some((engine, db))
}

fn id_of(id: &mut i64, row: &RowRef<'_>) -> Result<(), Error> {
    if let ValueRef::Int(value) = row.value(0)? {
        *id = value;
    }
    Ok(())
}

/// Inserts an item for a caller, and counts in `told` once it is durable.
fn insert(db: &Db, share: u64, id: i64, note: &str, told: &Arc<AtomicUsize>) -> JoinHandle<Result<i64, Error>> {
    let (db, told, params) = (db.writing_for(Share(share)), told.clone(), params![id, note]);
    tokio::spawn(async move {
        let after = move |_: &i64| {
            told.fetch_add(1, Ordering::Relaxed);
        };
        db.write_fold(INSERT, params, 0, id_of, after).await
    })
}

#[tokio::test]
async fn slow_statements_of_a_caller_do_not_keep_a_connection_from_others() {
    let Some((_engine, db)) = postgres().await else { return };
    let db = &db;
    // Almost as slow as a statement among others may be.
    let slow = "INSERT INTO items (id, note) SELECT ?1, 'slow' FROM pg_sleep(0.008) RETURNING id";
    let write = |id: i64| {
        let db = db.writing_for(Share(1));
        tokio::spawn(async move { db.write_fold(slow, params![id], 0, id_of, |_| ()).await })
    };
    let flood: Vec<_> = (0..128).map(write).collect();
    // All of them have begun, or wait.
    tokio::time::sleep(Duration::from_millis(30)).await;
    let before = flood.iter().filter(|write| write.is_finished()).count();
    for id in 1_000..1_003 {
        insert(db, 2, id, "good", &Arc::default()).await.unwrap().unwrap();
    }
    let meanwhile = flood.iter().filter(|write| write.is_finished()).count() - before;
    assert!(meanwhile < 16, "{meanwhile} of 128 went before three of another caller");
    for write in flood {
        write.await.unwrap().unwrap();
    }
}

async fn count(db: &Db, sql: &'static str) -> i64 {
    db.query(sql, vec![]).await.unwrap()[0].get("n").unwrap()
}

#[tokio::test]
async fn waiting_statements_of_a_caller_share_commits_and_each_gets_its_own_answer() {
    let Some((_engine, db)) = postgres().await else { return };
    let (db, told) = (&db, Arc::default());
    let writes: Vec<_> = (0..200).map(|id| insert(db, 1, id, "good", &told)).collect();
    for (id, write) in (0_i64..).zip(writes) {
        assert_eq!(write.await.unwrap().unwrap(), id);
    }
    assert_eq!(count(db, "SELECT COUNT(*) AS n FROM items").await, 200);
    assert_eq!(told.load(Ordering::Relaxed), 200);
    let commits = count(db, "SELECT COUNT(DISTINCT xmin::text) AS n FROM items").await;
    assert!(commits < 100, "{commits} transactions");
}

#[tokio::test]
async fn a_statement_that_fails_takes_no_other_with_it() {
    let Some((_engine, db)) = postgres().await else { return };
    let (db, told) = (&db, Arc::default());
    // Each id twice, in the same batch and in different ones, and some refused by a constraint.
    let note = |id: i64| if id % 10 == 3 { "bad" } else { "good" };
    let ids = (0..100).flat_map(|id| [id, (id + 30) % 100]);
    let writes: Vec<_> = ids.map(|id| insert(db, 1, id, note(id), &told)).collect();
    let (mut inserted, mut taken, mut refused) = (0, 0, 0);
    for write in writes {
        match write.await.unwrap() {
            Ok(_) => inserted += 1,
            Err(Error::Unique { .. }) => taken += 1,
            Err(_) => refused += 1,
        }
    }
    assert_eq!((inserted, taken, refused), (90, 90, 20));
    assert_eq!(count(db, "SELECT COUNT(*) AS n FROM items").await, 90);
    assert_eq!(told.load(Ordering::Relaxed), 90, "only committed ones are announced");
}

#[tokio::test]
async fn a_statement_that_waits_for_a_lock_delays_neither_its_callers_other_statements_nor_another_callers() {
    let Some((_engine, db)) = postgres().await else { return };
    let (db, told) = (&db, Arc::default());
    let (release, released) = tokio::sync::oneshot::channel::<()>();
    let (locked, is_locked) = tokio::sync::oneshot::channel::<()>();
    let parts = Arc::new(parking_lot::Mutex::new(Some((locked, released))));
    let holder = db.clone();
    let holding = tokio::spawn(async move {
        let hold = async move |tx: &gatewright_db::Tx| -> Result<(), Error> {
            tx.execute(INSERT.trim_end_matches(" RETURNING id"), params![0_i64, "held"]).await?;
            let taken = parts.lock().take();
            if let Some((locked, released)) = taken {
                locked.send(()).unwrap();
                let _released = released.await;
            }
            Ok(())
        };
        holder.write(hold).await
    });
    is_locked.await.unwrap();
    // The first waits for the lock on its id as long as the transaction is open.
    let waits = insert(db, 1, 0, "good", &told);
    let others: Vec<_> = (1..100).map(|id| insert(db, 1, id, "good", &told)).collect();
    let another = insert(db, 2, 1_000, "good", &told);
    for write in others.into_iter().chain([another]) {
        write.await.unwrap().unwrap();
    }
    assert!(!waits.is_finished());
    release.send(()).unwrap();
    holding.await.unwrap().unwrap();
    assert!(matches!(waits.await.unwrap(), Err(Error::Unique { .. })));
}

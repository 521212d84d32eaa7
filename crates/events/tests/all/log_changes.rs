//! What the log tells of the number of a table's rows.

use gatewright_base::Ambient;
use gatewright_db::testing::engines;
use gatewright_db::{Changes, Db, Engine, Error, Tx, Value, params};
use gatewright_events::{EntityEvent, EventKind, EventLog, LogOptions};

async fn append(log: &EventLog, db: &Db, kind: EventKind, table: &'static str) -> i64 {
    let log = log.clone();
    let written = db.write(async move |tx: &Tx| -> Result<i64, Error> {
        log.append(tx, EntityEvent::new(kind, table, table, "{}"), None).await?;
        let last = tx.query_opt("SELECT MAX(position) AS last FROM event_log", vec![]).await?;
        last.expect("a maximum is one row").get("last")
    });
    written.await.unwrap()
}

/// The change since a position, if at most so many rows tell it, and the position that it reaches.
async fn since(db: &Db, changes: &Changes, position: i64, most: i64) -> (Option<i64>, i64) {
    let mut params = changes.params.clone();
    params.extend([Value::Int(position), Value::Int(most)]);
    let sql = changes.since.clone();
    let read = db.read(async move |tx: &Tx| -> Result<_, Error> {
        tx.fold(sql.clone(), params.clone(), (None, 0), |read, row| {
            *read = (row.get(0)?, row.get(1)?);
            Ok(())
        })
        .await
    });
    read.await.unwrap()
}

#[tokio::test]
async fn the_log_tells_a_change_unless_rows_are_too_many_or_were_removed() {
    for engine in engines().await {
        let db = &engine.db;
        let log = EventLog::open(db.clone(), Ambient::system(), LogOptions::default()).await.unwrap();
        let (Some(all), Some(some)) = (log.changes_of("posts", None), log.changes_within("posts")) else {
            assert_eq!(db.engine(), Engine::Postgres, "positions are in the order of the commits elsewhere");
            continue;
        };
        let start = append(&log, db, EventKind::Created, "posts").await;
        assert_eq!(since(db, &all, start, 10).await, (Some(0), start));
        assert_eq!(since(db, &some, start, 10).await, (Some(0), start));
        append(&log, db, EventKind::Created, "others").await;
        assert_eq!(since(db, &some, start, 10).await, (Some(0), start), "another table has changed");
        for kind in [EventKind::Created, EventKind::Updated, EventKind::Deleted, EventKind::Created] {
            append(&log, db, kind, "posts").await;
        }
        let last = start + 5;
        assert_eq!(since(db, &all, start, 10).await, (Some(1), last));
        assert_eq!(since(db, &all, start, 4).await.0, None, "as many rows as the limit: there may be more");
        assert_eq!(since(db, &some, start, 10).await.0, None, "some row has changed");
        db.execute("UPDATE event_log_state SET swept_to = ?1", params![start + 1]).await.unwrap();
        for changes in [&all, &some] {
            assert_eq!(since(db, changes, start, 10).await.0, None, "rows after the position were removed");
        }
        assert_eq!(since(db, &all, start + 1, 10).await, (Some(1), last), "none after this one");
    }
}

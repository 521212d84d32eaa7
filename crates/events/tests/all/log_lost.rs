//! A database that has lost its last commits: the log assigns the positions of the lost events to other events.

use gatewright_db::testing::TestDb;
use gatewright_db::{Db, Engine};

use crate::log::{Listener, Replica, each_engine};

/// Removes the events after the first `kept`, as if they had never been committed.
async fn lose(db: &Db, kept: i64) {
    let position =
        "SELECT MAX(position) AS last FROM (SELECT position FROM event_log ORDER BY position LIMIT ?1) AS kept";
    let last: i64 = db.query_opt(position, vec![kept.into()]).await.unwrap().unwrap().get("last").unwrap();
    db.execute("DELETE FROM event_log WHERE position > ?1", vec![last.into()]).await.unwrap();
    let back = match db.engine() {
        Engine::Sqlite => format!("UPDATE sqlite_sequence SET seq = {last} WHERE name = 'event_log'"),
        Engine::Postgres => format!("ALTER TABLE event_log ALTER COLUMN position RESTART WITH {}", last + 1),
    };
    db.execute(back, vec![]).await.unwrap();
}

async fn until_gap(listener: &mut Listener) -> String {
    loop {
        let frame = listener.next().await.unwrap();
        if frame.kind == "gap" {
            assert_eq!(frame.data["reason"], "expired");
            return frame.id;
        }
    }
}

/// The kind of the first frame after `ready`.
async fn first_kind(listener: &mut Listener) -> String {
    assert_eq!(listener.next().await.unwrap().kind, "ready");
    listener.next().await.unwrap().kind
}

fn without_check(cursor: &str) -> String {
    let (log, position) = cursor.split_once('-').unwrap();
    format!("{}-{position}", &log[..16])
}

#[tokio::test(flavor = "multi_thread")]
async fn every_stream_gets_a_gap_when_the_log_has_lost_events_that_a_server_has_seen() {
    each_engine(async |engine: &TestDb| {
        let replicas = [Replica::start(&engine.db).await, Replica::start(&engine.db).await];
        let mut open = replicas.each_ref().map(|replica| replica.open(None));
        let before = open[0].next().await.unwrap().id;
        for n in 1..=5 {
            replicas[n % 2].write("r1", n, true).await.unwrap();
        }
        let seen = open[0].events(5).await;
        assert_eq!(open[1].numbers(5).await, [1, 2, 3, 4, 5]);
        lose(&engine.db, 2).await;
        // At the positions of lost events, and beyond.
        for n in 6..=14 {
            replicas[n % 2].write("r1", n, true).await.unwrap();
        }
        for listener in &mut open {
            until_gap(listener).await;
        }
        replicas[0].write("r1", 15, true).await.unwrap();
        for listener in &mut open {
            let last = loop {
                let frame = listener.events(1).await.remove(0);
                if frame.n() == 15 {
                    break frame.id;
                }
            };
            // Every replica accepts it, and so does one in which nobody has seen anything.
            let fresh = Replica::start(&engine.db).await;
            for replica in [&replicas[0], &replicas[1], &fresh] {
                for since in [last.clone(), without_check(&last)] {
                    let mut resumed = replica.open(Some(&since));
                    replica.write("r1", 16, true).await.unwrap();
                    assert_eq!(first_kind(&mut resumed).await, "entity.updated", "on {}", engine.name);
                }
            }
        }
        for since in [before, seen[2].id.clone(), seen[4].id.clone(), without_check(&seen[4].id)] {
            for replica in &replicas {
                assert_eq!(first_kind(&mut replica.open(Some(&since))).await, "gap", "{since} on {}", engine.name);
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_of_a_lost_event_is_a_gap_although_no_server_has_seen_the_loss() {
    each_engine(async |engine: &TestDb| {
        let replica = Replica::start(&engine.db).await;
        let mut open = replica.open(None);
        for n in 1..=5 {
            replica.write("r1", n, true).await.unwrap();
        }
        let seen = open.events(5).await;
        let listed = replica.log.cursor().to_string();
        drop((open, replica));
        lose(&engine.db, 2).await;
        let replica = Replica::start(&engine.db).await;
        for n in 6..=14 {
            replica.write("r1", n, true).await.unwrap();
        }
        for since in [&seen[2].id, &seen[4].id, &listed] {
            assert_eq!(first_kind(&mut replica.open(Some(since))).await, "gap", "{since} on {}", engine.name);
        }
        // What it has seen is all there.
        let mut resumed = replica.open(Some(&seen[1].id));
        assert_eq!(resumed.numbers(9).await, (6..=14).collect::<Vec<_>>());
    })
    .await;
}

//! The outbox on every engine, through its public interface.
//!
//! It is long because every row of the delivery states has its test here.

use std::sync::Arc;
use std::time::Duration;

use gatewright_base::testing::Log;
use gatewright_base::{Ambient, UserId};
use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{Db, Options, Share, Tx, params};
use gatewright_events::outbox::{
    Backoff, Consumer, ConsumerError, DeliveryStatus, Event, Facts, InitError, ListRows, Outbox, OutboxOptions, Relay,
    ReplayError, RowStatus, StageError,
};
use gatewright_events::{EntityEvent, EventKind, Forget};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

/// Short intervals, so that tests do not wait. Leases are long: on a busy machine a short one ends before a handled
/// delivery is settled, and it is handled again.
fn quick() -> OutboxOptions {
    OutboxOptions {
        poll_interval: Duration::from_millis(20),
        backoff: Backoff { first: Duration::from_millis(2), cap: Duration::from_millis(20) },
        ..OutboxOptions::default()
    }
}

/// The same with leases whose end a test waits for.
fn brief() -> OutboxOptions {
    OutboxOptions { lease: Duration::from_millis(300), ..quick() }
}

/// No polling: only notifications cause work.
fn slow_polling() -> OutboxOptions {
    OutboxOptions { poll_interval: Duration::from_hours(1), ..quick() }
}

async fn open(db: &Db, options: OutboxOptions) -> Outbox {
    Outbox::open(db.clone(), Ambient::system(), options).await.unwrap()
}

/// The same database as another process would open it.
async fn again(engine: &TestDb, options: OutboxOptions) -> Outbox {
    let db = Db::open(&engine.url, Options { max_connections: 4.try_into().unwrap(), ..Options::default() });
    open(&db.await.unwrap(), options).await
}

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

async fn append(outbox: &Outbox, db: &Db, event_type: &'static str, payload: Value) -> String {
    let (outbox, payload) = (outbox.clone(), map(&payload));
    db.write(async move |tx: &Tx| outbox.append(tx, event_type, &payload).await).await.unwrap()
}

type Heard = mpsc::UnboundedReceiver<Event>;

/// A consumer that reports its events.
fn telling(name: &str, event_type: &str) -> (Consumer, Heard) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let consumer = Consumer::new(name, event_type, move |event: Event| {
        let sender = sender.clone();
        async move { sender.send(event).map_err(|_| "nobody listens") }
    });
    (consumer.unwrap(), receiver)
}

async fn heard(receiver: &mut Heard) -> Event {
    tokio::time::timeout(Duration::from_mins(1), receiver.recv()).await.expect("an event comes").unwrap()
}

/// Asks until it holds.
async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), wait).await.expect("it holds in the end");
}

async fn status_of(outbox: &Outbox, row: &str, consumer: &str) -> Option<DeliveryStatus> {
    let deliveries = outbox.list_deliveries(row).await.unwrap()?;
    deliveries.into_iter().find(|delivery| delivery.consumer == consumer).map(|delivery| delivery.status)
}

async fn becomes(outbox: &Outbox, row: &str, consumer: &str, status: DeliveryStatus) {
    until(async || status_of(outbox, row, consumer).await == Some(status)).await;
}

async fn stop(relay: Relay) {
    relay.stop(Duration::from_secs(20)).await;
}

#[tokio::test]
async fn a_staged_event_is_delivered_only_if_it_is_committed() {
    for engine in engines().await {
        let outbox = open(&engine.db, slow_polling()).await;
        let (consumer, mut events) = telling("mailer", "order.placed");
        let relay = outbox.relay().declare(consumer).unwrap().start();
        let rolled_back = outbox.clone();
        let result = engine.db.write(async move |tx: &Tx| -> Result<(), StageError> {
            rolled_back.append(tx, "order.placed", &map(&json!({"number": 1}))).await?;
            Err(StageError::Type)
        });
        assert!(result.await.is_err());
        let id = append(&outbox, &engine.db, "order.placed", json!({"number": 2, "list": [1, {"deep": 3}]})).await;
        let event = heard(&mut events).await;
        assert_eq!((event.id(), event.event_type(), event.attempt()), (&*id, "order.placed", 1));
        assert_eq!(Value::from(event.payload().unwrap()), json!({"number": 2.0, "list": [1.0, {"deep": 3.0}]}));
        becomes(&outbox, &id, "mailer", DeliveryStatus::Dispatched).await;
        until(async || outbox.counts().consumers["mailer"].delivered == 1).await;
        assert_eq!(outbox.counts().staged, 1);
        assert_eq!(outbox.list(ListRows::default()).await.unwrap().len(), 1, "{}", engine.name);
        stop(relay).await;
    }
}

#[tokio::test]
async fn an_entity_event_is_staged_in_its_public_form() {
    for engine in engines().await {
        let outbox = open(&engine.db, slow_polling()).await;
        let (consumer, mut events) = telling("crm", "entity.created");
        let _relay = outbox.relay().declare(consumer).unwrap().start();
        let staging = outbox.clone();
        let record = format!(r#"{{"text":"{}","n":9007199254740993}}"#, "ä".repeat(50_000));
        let event = EntityEvent::new(EventKind::Created, "posts", "blog_posts", record.clone())
            .with_tenant("t1")
            .with_owner("canary-owner");
        engine
            .db
            .write(async move |tx: &Tx| staging.stage(tx, Share::default(), &event, Facts::default()).await)
            .await
            .unwrap();
        let event = heard(&mut events).await;
        let expected = format!(r#"{{"entity":"posts","table":"blog_posts","record":{record},"tenantId":"t1"}}"#);
        assert_eq!(event.json(), expected, "100 kB, byte for byte, on {}", engine.name);
    }
}

/// A deletion names the account whose deletion it is part of. It may be delivered before earlier events.
#[tokio::test]
async fn contents_deleted_with_an_account_are_removed_once_no_consumer_waits_for_them() {
    for engine in engines().await {
        for owner in [None, Some("ann")] {
            let db = &engine.db;
            let outbox = open(db, quick()).await;
            let stage = async |kind: EventKind, record: &'static str, owner: Option<&'static str>, status: &str| {
                let event = EntityEvent::new(kind, "tasks", "tasks", record);
                let event = owner.into_iter().fold(event, EntityEvent::with_owner);
                let staging = outbox.clone();
                let id = db
                    .write(async move |tx: &Tx| staging.stage(tx, Share::default(), &event, Facts::default()).await)
                    .await
                    .unwrap();
                db.execute("UPDATE event_outbox SET status = ?2 WHERE id = ?1", params![&id, status]).await.unwrap();
                id
            };
            let made = r#"{"id":"1","title":"canary"}"#;
            let waited_for = stage(EventKind::Created, made, owner, "pending").await;
            stage(EventKind::Updated, made, owner, "done").await;
            stage(EventKind::Deleted, made, Some("ann"), "done").await;
            stage(EventKind::Created, r#"{"id":"2","title":"of somebody else"}"#, None, "done").await;
            let (ann, found) = (UserId::parse("ann").unwrap(), async |condition: &str| {
                let sql = format!("SELECT id FROM event_outbox WHERE {condition}");
                db.query(sql, vec![]).await.unwrap().len()
            });
            assert!(!outbox.forget_owner(&ann, Forget::Owner).await.unwrap(), "{}", engine.name);
            assert!(found("payload LIKE '%canary%' AND status = 'pending'").await == 1, "{}", engine.name);
            db.execute("UPDATE event_outbox SET status = 'done' WHERE id = ?1", params![&waited_for]).await.unwrap();
            assert!(outbox.forget_owner(&ann, Forget::Owner).await.unwrap(), "{}", engine.name);
            assert_eq!(found("payload LIKE '%canary%' OR owner_id IS NOT NULL").await, 0, "{} {owner:?}", engine.name);
            assert_eq!(found("payload LIKE '%of somebody else%'").await, 1);
            db.execute("DELETE FROM event_outbox", vec![]).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_failing_consumer_ends_dead_without_affecting_its_sibling() {
    for engine in engines().await {
        let outbox = open(&engine.db, OutboxOptions { max_attempts: 3, ..quick() }).await;
        let (good, mut events) = telling("good", "a");
        let (attempts, mut tried) = mpsc::unbounded_channel();
        let relay = outbox
            .relay()
            .declare(good)
            .unwrap()
            .consumer("bad", "a", move |event: Event| {
                attempts.send(event.attempt()).unwrap();
                async move {
                    // Alternately an error and a panic, and an error too long to store.
                    assert!(event.attempt() != 2, "no second time");
                    Err::<(), _>(format!("no\0 {}", "x".repeat(5_000)))
                }
            })
            .unwrap()
            .start();
        let mut ids = Vec::new();
        for number in 0..20 {
            ids.push(append(&outbox, &engine.db, "a", json!({ "n": number })).await);
        }
        for _ in &ids {
            heard(&mut events).await;
        }
        for id in &ids {
            becomes(&outbox, id, "bad", DeliveryStatus::Dead).await;
            becomes(&outbox, id, "good", DeliveryStatus::Dispatched).await;
        }
        let deliveries = outbox.list_deliveries(&ids[0]).await.unwrap().unwrap();
        assert_eq!(deliveries[0].attempts, 3);
        let error = deliveries[0].last_error.as_deref().unwrap();
        assert!(error.starts_with("no xxx") && error.len() <= 1_000, "{error}");
        assert_eq!(deliveries[1].last_error, None);
        // A delivery is counted once it is settled.
        until(async || {
            let counts = outbox.counts().consumers;
            (counts["bad"].dead, counts["good"].delivered) == (20, 20)
        })
        .await;
        let counts = outbox.counts().consumers;
        assert_eq!((counts["bad"].failed, counts["bad"].delivered), (60, 0));
        stop(relay).await;
        let mut seen = 0;
        while tried.try_recv().is_ok() {
            seen += 1;
        }
        assert_eq!(seen, 60, "three attempts each on {}", engine.name);
    }
}

#[tokio::test]
async fn a_dead_delivery_is_replayed_alone_or_with_its_row() {
    for engine in engines().await {
        let outbox = open(&engine.db, OutboxOptions { max_attempts: 1, ..quick() }).await;
        let healthy = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let mut builder = outbox.relay();
        for name in ["one", "two"] {
            let healthy = healthy.clone();
            let handler = move |_| {
                let healthy = healthy.load(std::sync::atomic::Ordering::Relaxed);
                async move { if healthy { Ok(()) } else { Err("down") } }
            };
            builder = builder.consumer(name, "a", handler).unwrap();
        }
        let _relay = builder.start();
        let id = append(&outbox, &engine.db, "a", json!({})).await;
        becomes(&outbox, &id, "one", DeliveryStatus::Dead).await;
        becomes(&outbox, &id, "two", DeliveryStatus::Dead).await;
        healthy.store(true, std::sync::atomic::Ordering::Relaxed);
        // As an operator's command does it, in another process.
        let operator = again(&engine, quick()).await;
        assert_eq!(operator.replay_consumer(&id, "one").await.unwrap(), 1);
        becomes(&outbox, &id, "one", DeliveryStatus::Dispatched).await;
        assert_eq!(status_of(&outbox, &id, "two").await, Some(DeliveryStatus::Dead));
        assert_eq!(operator.replay_consumer(&id, "one").await.unwrap(), 0, "what was delivered stays so");
        assert_eq!(operator.replay(&id).await.unwrap(), 1);
        becomes(&outbox, &id, "two", DeliveryStatus::Dispatched).await;
        assert!(matches!(operator.replay("nothing").await, Err(ReplayError::NoRow(_))));
        assert!(matches!(operator.replay_consumer(&id, "three").await, Err(ReplayError::NoDelivery { .. })));
        assert_eq!(operator.list_deliveries("nothing").await.unwrap(), None);
    }
}

#[tokio::test]
async fn rows_are_dispatched_after_the_grace_and_purged_after_the_retention_unless_dead() {
    for engine in engines().await {
        let (ambient, clock) = Ambient::manual("2026-01-01T00:00:00Z".parse().unwrap(), 7);
        let grace = Duration::from_mins(15);
        let retention = Some(Duration::from_hours(24));
        let options = OutboxOptions { max_attempts: 1, retention, handler_grace: grace, ..quick() };
        let outbox = Outbox::open(engine.db.clone(), ambient, options).await.unwrap();
        let relay = outbox
            .relay()
            .consumer("c", "good", async |_| Ok::<_, String>(()))
            .unwrap()
            .consumer("c", "bad", async |_| Err::<(), _>("no"))
            .unwrap()
            .start();
        let good = append(&outbox, &engine.db, "good", json!({})).await;
        let bad = append(&outbox, &engine.db, "bad", json!({})).await;
        let unhandled = append(&outbox, &engine.db, "nobody", json!({})).await;
        becomes(&outbox, &good, "c", DeliveryStatus::Dispatched).await;
        becomes(&outbox, &bad, "c", DeliveryStatus::Dead).await;
        let with = async |status| {
            let rows = outbox.list(ListRows { status: Some(status), ..ListRows::default() }).await.unwrap();
            let mut ids: Vec<String> = rows.into_iter().map(|row| row.id).collect();
            ids.sort();
            ids
        };
        assert_eq!(with(RowStatus::Dispatched).await.len(), 0, "not before the grace");
        clock.advance(grace.try_into().unwrap());
        let mut all = vec![good.clone(), bad.clone(), unhandled.clone()];
        all.sort();
        // Rounds come a tenth of the grace apart: a new relay begins with one.
        stop(relay).await;
        let relay = outbox.relay().consumer("c", "nobody", async |_| Ok::<_, String>(())).unwrap();
        let relay = relay.consumer("c", "good", async |_| Ok::<_, String>(())).unwrap().start();
        // Until it is abandoned, an event is delivered to a consumer that starts late.
        until(async || {
            let done = with(RowStatus::Dispatched).await;
            let found = status_of(&outbox, &unhandled, "c").await == Some(DeliveryStatus::Dispatched);
            done == all || (done.len() >= 2 && found)
        })
        .await;
        stop(relay).await;
        let relay = outbox.relay().start();
        until(async || with(RowStatus::Dispatched).await == all).await;
        stop(relay).await;
        clock.advance(Duration::from_hours(24).try_into().unwrap());
        let relay = outbox.relay().start();
        until(async || outbox.list(ListRows::default()).await.unwrap().len() == 1).await;
        assert_eq!(with(RowStatus::Dispatched).await, std::slice::from_ref(&bad), "a dead delivery keeps its row");
        stop(relay).await;
        assert_eq!(outbox.replay(&bad).await.unwrap(), 1);
        assert_eq!(with(RowStatus::Pending).await, [bad], "a replay makes the row pending, on {}", engine.name);
    }
}

#[tokio::test]
async fn deliveries_of_a_removed_consumer_are_abandoned_after_the_grace_and_can_be_replayed() {
    for engine in engines().await {
        let (ambient, clock) = Ambient::manual("2026-01-01T00:00:00Z".parse().unwrap(), 7);
        let grace = Duration::from_millis(100);
        let options = OutboxOptions { handler_grace: grace, ..quick() };
        let outbox = Outbox::open(engine.db.clone(), ambient.clone(), options.clone()).await.unwrap();
        let relay = outbox.relay().consumer("gone", "a", async |_| Err::<(), _>("no")).unwrap().start();
        let id = append(&outbox, &engine.db, "a", json!({})).await;
        becomes(&outbox, &id, "gone", DeliveryStatus::Pending).await;
        stop(relay).await;
        // A delivery that another replica handled recently is not touched; with a stopped clock, never.
        let relay = outbox.relay().start();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(status_of(&outbox, &id, "gone").await, Some(DeliveryStatus::Pending));
        let step = Duration::from_millis(101);
        until(async || {
            clock.advance(step.try_into().unwrap());
            tokio::time::sleep(Duration::from_millis(30)).await;
            status_of(&outbox, &id, "gone").await == Some(DeliveryStatus::Abandoned)
        })
        .await;
        stop(relay).await;
        let (back, mut events) = telling("gone", "a");
        let _relay = outbox.relay().declare(back).unwrap().start();
        assert_eq!(outbox.replay(&id).await.unwrap(), 1);
        assert_eq!(heard(&mut events).await.id(), id, "{}", engine.name);
    }
}

#[tokio::test]
async fn events_staged_while_no_relay_ran_are_delivered_when_one_starts() {
    for engine in engines().await {
        let staging = again(&engine, slow_polling()).await;
        let mut ids = std::collections::BTreeSet::new();
        for number in 0..30 {
            ids.insert(append(&staging, &engine.db, "a", json!({ "n": number })).await);
        }
        let outbox = open(&engine.db, slow_polling()).await;
        let (consumer, mut events) = telling("late", "a");
        let _relay = outbox.relay().declare(consumer.concurrency(1)).unwrap().start();
        let mut numbers = Vec::new();
        for _ in 0..30 {
            let event = heard(&mut events).await;
            assert!(ids.remove(event.id()));
            numbers.push(event.payload().unwrap()["n"].as_f64().unwrap());
        }
        assert!(numbers.is_sorted(), "one at a time, in the order of rows, on {}: {numbers:?}", engine.name);
    }
}

#[tokio::test]
async fn another_replica_is_notified_on_postgres() {
    for engine in engines().await.into_iter().filter(|engine| engine.name == "postgres") {
        let outbox = open(&engine.db, slow_polling()).await;
        let (consumer, mut events) = telling("c", "a");
        let _relay = outbox.relay().declare(consumer).unwrap().start();
        let writer = again(&engine, slow_polling()).await;
        // The first may come before the relay listens, and is found by the next read of the table.
        for _ in 0..3 {
            let id = append(&writer, &engine.db, "a", json!({})).await;
            assert_eq!(heard(&mut events).await.id(), id);
        }
        let end = "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity
                   WHERE query LIKE 'LISTEN%' AND datname = current_database()";
        assert_eq!(engine.db.query(end, params![]).await.unwrap().len(), 1);
        let id = append(&writer, &engine.db, "a", json!({})).await;
        assert_eq!(heard(&mut events).await.id(), id, "the connection is made again");
    }
}

#[tokio::test]
async fn a_relay_takes_over_what_a_crashed_one_held() {
    for engine in engines().await {
        let crashing = again(&engine, brief()).await;
        let (starting, mut begun) = mpsc::unbounded_channel();
        let relay = crashing
            .relay()
            .consumer("c", "a", move |event: Event| {
                starting.send(event.id().to_owned()).unwrap();
                std::future::pending::<Result<(), String>>()
            })
            .unwrap()
            .start();
        let mut ids = std::collections::BTreeSet::new();
        for _ in 0..20 {
            ids.insert(append(&crashing, &engine.db, "a", json!({})).await);
        }
        for _ in 0..8 {
            begun.recv().await.unwrap();
        }
        drop(relay);
        let outbox = open(&engine.db, quick()).await;
        let (consumer, mut events) = telling("c", "a");
        let _relay = outbox.relay().declare(consumer).unwrap().start();
        for _ in 0..20 {
            assert!(ids.remove(heard(&mut events).await.id()), "each once, on {}", engine.name);
        }
        assert!(ids.is_empty());
    }
}

#[tokio::test]
async fn a_slow_handler_keeps_its_delivery_from_a_second_relay() {
    for engine in engines().await {
        let (ambient, clock) = Ambient::manual("2026-01-01T00:00:00Z".parse().unwrap(), 7);
        let replica = async || {
            let db = Db::open(&engine.url, Options { max_connections: 4.try_into().unwrap(), ..Options::default() });
            Outbox::open(db.await.unwrap(), ambient.clone(), brief()).await.unwrap()
        };
        let slow = replica().await;
        let (starting, mut begun) = mpsc::unbounded_channel();
        let (finish, gate) = tokio::sync::watch::channel(false);
        let _slow = slow
            .relay()
            .consumer("c", "a", move |_| {
                let mut gate = gate.clone();
                starting.send(()).unwrap();
                async move { gate.wait_for(|open| *open).await.map(|_| ()) }
            })
            .unwrap()
            .start();
        let id = append(&slow, &engine.db, "a", json!({})).await;
        begun.recv().await.unwrap();
        let other = replica().await;
        let (consumer, mut events) = telling("c", "a");
        let _other = other.relay().declare(consumer).unwrap().start();
        // Several leases, each renewed in time however slow the machine is.
        let lease = brief().lease;
        for _ in 0..9 {
            clock.advance((lease / 3).try_into().unwrap());
            let kept = ambient.now() + lease;
            until(async || slow.list_deliveries(&id).await.unwrap().unwrap()[0].claimed_until == Some(kept)).await;
            // The other relay reads the table more than once meanwhile.
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(events.try_recv().is_err(), "the lease was renewed on {}", engine.name);
        }
        finish.send(true).unwrap();
        becomes(&slow, &id, "c", DeliveryStatus::Dispatched).await;
        assert!(events.try_recv().is_err());
    }
}

#[tokio::test]
async fn two_relays_share_the_work_and_deliver_nothing_twice() {
    const ROWS: usize = 400;
    for engine in engines().await {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let mut relays = Vec::new();
        let first = again(&engine, quick()).await;
        for (index, outbox) in [first.clone(), again(&engine, quick()).await].into_iter().enumerate() {
            let sender = sender.clone();
            let handler = move |event: Event| {
                let sender = sender.clone();
                async move { sender.send((index, event.id().to_owned())) }
            };
            relays.push(outbox.relay().consumer("c", "a", handler).unwrap().start());
        }
        let staging = first.clone();
        for _ in 0..4 {
            let staging = staging.clone();
            let work = engine.db.write(async move |tx: &Tx| -> Result<(), StageError> {
                for number in 0..ROWS / 4 {
                    staging.append(tx, "a", &map(&json!({ "n": number }))).await?;
                }
                Ok(())
            });
            work.await.unwrap();
        }
        let mut ids = std::collections::BTreeSet::new();
        for _ in 0..ROWS {
            let (_, id) = tokio::time::timeout(Duration::from_mins(1), receiver.recv()).await.unwrap().unwrap();
            assert!(ids.insert(id), "twice on {}", engine.name);
        }
        for relay in relays {
            stop(relay).await;
        }
        assert!(receiver.try_recv().is_err());
        let pending = "SELECT COUNT(*) AS n FROM event_outbox_delivery WHERE status <> 'dispatched'";
        let row = engine.db.query_opt(pending, params![]).await.unwrap().unwrap();
        assert_eq!(row.get::<i64>("n").unwrap(), 0);
    }
}

#[tokio::test]
async fn an_orderly_stop_releases_unstarted_deliveries_and_finishes_the_others() {
    for engine in engines().await {
        // A lease that would exclude others for long.
        let options = OutboxOptions { lease: Duration::from_hours(1), ..quick() };
        let outbox = open(&engine.db, options).await;
        let (starting, mut begun) = mpsc::unbounded_channel();
        let (finish, gate) = tokio::sync::watch::channel(false);
        let slow = Consumer::new("c", "a", move |event: Event| {
            let mut gate = gate.clone();
            starting.send(event.id().to_owned()).unwrap();
            async move { gate.wait_for(|open| *open).await.map(|_| ()) }
        });
        let mut ids = Vec::new();
        for _ in 0..4 {
            ids.push(append(&outbox, &engine.db, "a", json!({})).await);
        }
        let relay = outbox.relay().declare(slow.unwrap().concurrency(1)).unwrap().start();
        let first = begun.recv().await.unwrap();
        let stopping = tokio::spawn(stop(relay));
        tokio::task::yield_now().await;
        finish.send(true).unwrap();
        stopping.await.unwrap();
        becomes(&outbox, &first, "c", DeliveryStatus::Dispatched).await;
        let (consumer, mut events) = telling("c", "a");
        let _relay = outbox.relay().declare(consumer).unwrap().start();
        let left = 3 - std::iter::from_fn(|| begun.try_recv().ok()).count();
        for _ in 0..left {
            assert_ne!(heard(&mut events).await.id(), first, "{}", engine.name);
        }
    }
}

#[tokio::test]
async fn a_row_that_no_relay_has_seen_counts_as_pending_in_all_of_the_stats() {
    for engine in engines().await {
        let outbox = open(&engine.db, quick()).await;
        assert_eq!(outbox.stats().await.unwrap().oldest_pending_seconds, None);
        append(&outbox, &engine.db, "a", json!({})).await;
        let stats = outbox.stats().await.unwrap();
        assert_eq!(stats.rows.get("pending"), Some(&1), "{}", engine.name);
        assert!(stats.oldest_pending_seconds.is_some(), "{}", engine.name);
    }
}

#[tokio::test]
async fn stats_count_rows_and_deliveries_by_status() {
    for engine in engines().await {
        let outbox = open(&engine.db, OutboxOptions { max_attempts: 1, ..quick() }).await;
        let relay = outbox
            .relay()
            .consumer("bad", "a", async |_| Err::<(), _>("no"))
            .unwrap()
            .consumer("stuck", "a", |_| std::future::pending::<Result<(), String>>())
            .unwrap()
            .start();
        let id = append(&outbox, &engine.db, "a", json!({})).await;
        becomes(&outbox, &id, "bad", DeliveryStatus::Dead).await;
        let stats = serde_json::to_value(outbox.stats().await.unwrap()).unwrap();
        assert_eq!(stats["rows"], json!({"pending": 1}));
        assert_eq!(stats["consumers"], json!({"bad": {"dead": 1}, "stuck": {"pending": 1}}));
        assert!(stats["lagSeconds"]["stuck"].is_i64() && stats["lagSeconds"]["bad"].is_null());
        drop(relay);
    }
}

#[tokio::test]
async fn without_create_tables_the_missing_table_is_named() {
    for engine in engines().await {
        let options = OutboxOptions { create_tables: false, ..quick() };
        let opened = Outbox::open(engine.db.clone(), Ambient::system(), options.clone()).await;
        assert!(matches!(&opened, Err(InitError::Missing(what)) if what == "the table event_outbox"), "{opened:?}");
        open(&engine.db, quick()).await;
        Outbox::open(engine.db.clone(), Ambient::system(), options.clone()).await.unwrap();
        engine.db.execute("ALTER TABLE event_outbox_delivery DROP COLUMN last_error", params![]).await.unwrap();
        let opened = Outbox::open(engine.db.clone(), Ambient::system(), options).await;
        assert!(matches!(&opened, Err(InitError::Missing(what)) if what.contains("last_error")), "{opened:?}");
    }
}

#[tokio::test]
async fn tables_of_an_earlier_program_are_used_as_they_are() {
    for engine in engines().await {
        let make = |sql: &str| gatewright_db::column_types(sql, engine.db.engine());
        for sql in [
            "CREATE TABLE event_outbox (id {text} PRIMARY KEY, type {text} NOT NULL, payload {text},
             status {text} NOT NULL DEFAULT 'pending', attempts {int} NOT NULL DEFAULT 0, last_error {text},
             next_attempt_at {time}, claimed_until {time}, created_at {time} NOT NULL, dispatched_at {time})",
            "CREATE TABLE event_outbox_delivery (row_id {text} NOT NULL, consumer {text} NOT NULL,
             status {text} NOT NULL DEFAULT 'pending', attempts {int} NOT NULL DEFAULT 0, last_error {text},
             created_at {time} NOT NULL, next_attempt_at {time}, claimed_until {time}, dispatched_at {time},
             PRIMARY KEY (row_id, consumer))",
            "INSERT INTO event_outbox (id, type, payload, created_at)
             VALUES ('old', 'a', '{\"n\":1}', '2026-01-01T00:00:00.000000Z')",
            "INSERT INTO event_outbox_delivery (row_id, consumer, created_at)
             VALUES ('old', 'c', '2026-01-01T00:00:00.000000Z')",
        ] {
            engine.db.execute(make(sql), params![]).await.unwrap();
        }
        let outbox = open(&engine.db, quick()).await;
        let (consumer, mut events) = telling("c", "a");
        let _relay = outbox.relay().declare(consumer).unwrap().start();
        assert_eq!(heard(&mut events).await.id(), "old", "{}", engine.name);
    }
}

#[tokio::test]
async fn invalid_names_are_refused() {
    let handler = async |_| Ok::<_, String>(());
    for name in ["", "a b", "a\n", &"x".repeat(101)] {
        assert_eq!(Consumer::new(name, "a", handler).unwrap_err(), ConsumerError::Name, "{name}");
    }
    assert!(matches!(Consumer::new("c", "a b", handler), Err(ConsumerError::EventType(_))));
    for engine in engines().await {
        let outbox = open(&engine.db, quick()).await;
        let twice = outbox.relay().consumer("c", "a", handler).unwrap().consumer("c", "a", handler);
        assert!(matches!(twice, Err(ConsumerError::Twice { .. })));
        for event_type in ["", "a b", "a\0"] {
            let outbox = outbox.clone();
            let result = engine.db.write(async move |tx: &Tx| outbox.append(tx, event_type, &Map::new()).await);
            assert!(matches!(result.await, Err(StageError::Type)));
        }
    }
}

#[tokio::test]
async fn an_outage_is_logged_once_when_it_begins_and_once_when_it_ends() {
    for engine in engines().await {
        let log = Log::default();
        let _recording = log.record();
        let outbox = open(&engine.db, quick()).await;
        let (one, mut events) = telling("one", "a");
        let (two, _more) = telling("two", "a");
        let _relay = outbox.relay().declare(one).unwrap().declare(two).unwrap().start();
        let id = append(&outbox, &engine.db, "a", json!({})).await;
        assert_eq!(heard(&mut events).await.id(), id);
        // Deliveries that are not settled when the tables are dropped would be delivered again when they are restored.
        becomes(&outbox, &id, "one", DeliveryStatus::Dispatched).await;
        becomes(&outbox, &id, "two", DeliveryStatus::Dispatched).await;
        let rename = |from: &str, to: &str| format!("ALTER TABLE {from} RENAME TO {to}");
        engine.db.execute(rename("event_outbox_delivery", "away"), params![]).await.unwrap();
        let id = append(&outbox, &engine.db, "a", json!({})).await;
        until(async || log.count("relay failed") > 0).await;
        // Many polls of several tasks.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!((log.count("relay failed"), log.count("works again")), (1, 0), "{}", engine.name);
        engine.db.execute(rename("away", "event_outbox_delivery"), params![]).await.unwrap();
        assert_eq!(heard(&mut events).await.id(), id, "{}", engine.name);
        until(async || log.count("works again") == 1).await;
        assert_eq!(log.count("relay failed"), 1);
    }
}

#[tokio::test]
async fn a_relay_without_consumers_logs_that_at_its_start() {
    for engine in engines().await {
        let log = Log::default();
        let _recording = log.record();
        let outbox = open(&engine.db, quick()).await;
        let _relay = outbox.relay().start();
        assert_eq!(log.count("the outbox has no consumer"), 1);
    }
}

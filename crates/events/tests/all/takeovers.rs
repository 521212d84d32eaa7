//! A dead relay loses its deliveries within seconds, whatever the lease; a live one keeps them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gatewright_base::Ambient;
use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{Db, Options, Tx};
use gatewright_events::outbox::{DeliveryStatus, Event, Outbox, OutboxOptions, Relay};

/// Much longer than a takeover takes.
const LEASE: Duration = Duration::from_hours(1);

async fn open(db: Db) -> Outbox {
    let options = OutboxOptions { poll_interval: Duration::from_millis(50), lease: LEASE, ..OutboxOptions::default() };
    Outbox::open(db, Ambient::system(), options).await.unwrap()
}

/// The same database as another process would open it.
async fn again(engine: &TestDb) -> Outbox {
    open(Db::open(&engine.url, Options { max_connections: 4.try_into().unwrap(), ..Options::default() }).await.unwrap())
        .await
}

/// A relay whose handler counts its calls, and never ends if it is stuck.
fn relay(outbox: &Outbox, stuck: bool) -> (Relay, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let handler = move |_: Event| {
        counter.fetch_add(1, Ordering::SeqCst);
        async move {
            if stuck {
                std::future::pending::<()>().await;
            }
            Ok::<_, String>(())
        }
    };
    (outbox.relay().consumer("c", "a", handler).unwrap().start(), calls)
}

async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), wait).await.expect("it holds in the end");
}

#[tokio::test]
async fn deliveries_of_a_dead_relay_are_taken_over_long_before_their_lease_ends() {
    for engine in engines().await {
        let (dying, living) = (open(engine.db.clone()).await, again(&engine).await);
        let staging = dying.clone();
        let id = engine.db.write(async move |tx: &Tx| staging.append(tx, "a", &serde_json::Map::new()).await);
        let id = id.await.unwrap();
        let (holder, held) = relay(&dying, true);
        until(async || held.load(Ordering::SeqCst) == 1).await;
        let (_other, calls) = relay(&living, false);
        // For longer than a dead relay would keep its deliveries.
        let beats = async || {
            let row = engine.db.query_opt("SELECT MAX(beats) AS beats FROM event_outbox_relay", vec![]).await.unwrap();
            row.and_then(|row| row.get::<Option<i64>>("beats").unwrap()).unwrap_or(0)
        };
        until(async || beats().await >= 6).await;
        assert_eq!(calls.load(Ordering::SeqCst), 0, "nobody takes what a living relay holds, on {}", engine.name);
        // Without an orderly stop, like a killed process.
        drop(holder);
        until(async || calls.load(Ordering::SeqCst) == 1).await;
        until(async || {
            let deliveries = living.list_deliveries(&id).await.unwrap().unwrap();
            deliveries[0].status == DeliveryStatus::Dispatched
        })
        .await;
        assert_eq!(held.load(Ordering::SeqCst), 1);
    }
}

//! The limit of the outbox's bytes.

use std::time::Duration;

use gatewright_base::Ambient;
use gatewright_base::testing::Log;
use gatewright_db::testing::engines;
use gatewright_db::{Db, Share, Tx};
use gatewright_events::outbox::{
    Backoff, Consumer, Event, Facts, ListRows, Outbox, OutboxFull, OutboxOptions, RowStatus, StageError,
};
use gatewright_events::{EntityEvent, EventKind};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

const EVE: Share = Share(7);
const BOB: Share = Share(8);

/// Ten events of [`large`] reach the limit. No retention, so that delivered events are kept without a limit of time.
fn options() -> OutboxOptions {
    OutboxOptions {
        poll_interval: Duration::from_millis(20),
        handler_grace: Duration::from_millis(100),
        backoff: Backoff { first: Duration::from_millis(2), cap: Duration::from_millis(20) },
        max_bytes: 100_000,
        ..OutboxOptions::default()
    }
}

fn large() -> Map<String, Value> {
    json!({ "text": "x".repeat(10_000) }).as_object().unwrap().clone()
}

async fn append(outbox: &Outbox, db: &Db) -> Result<String, StageError> {
    let outbox = outbox.clone();
    db.write(async move |tx: &Tx| outbox.append(tx, "order.placed", &large()).await).await
}

/// Stages the event of a caller's write, as the entities do.
async fn stage(outbox: &Outbox, db: &Db, share: Share) -> Result<(), OutboxFull> {
    outbox.admit(share)?;
    let (outbox, record) = (outbox.clone(), Value::from(large()).to_string());
    let event = EntityEvent::new(EventKind::Updated, "notes", "notes", record);
    db.write(async move |tx: &Tx| outbox.stage(tx, share, &event, Facts::default()).await).await.unwrap();
    Ok(())
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..3_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what}");
}

#[tokio::test]
async fn a_full_outbox_refuses_writes_and_loses_nothing() {
    for engine in engines().await {
        let log = Log::default();
        let _recording = log.record();
        let outbox = Outbox::open(engine.db.clone(), Ambient::system(), options()).await.unwrap();
        let mut staged = Vec::new();
        let refused = loop {
            match append(&outbox, &engine.db).await {
                Ok(id) => staged.push(id),
                Err(refused) => break refused,
            }
            assert!(staged.len() < 20, "{}", engine.name);
        };
        assert!(matches!(refused, StageError::Full(_)), "{refused}");
        assert!(staged.len() >= 9, "{} events, {}", staged.len(), engine.name);
        assert_eq!((stage(&outbox, &engine.db, EVE).await, outbox.counts().refused), (Err(OutboxFull), 2));
        until("the log says that it is full", async || log.text().contains("the outbox is full")).await;
        let rows = || outbox.list(ListRows { limit: 500, ..ListRows::default() });
        assert_eq!(rows().await.unwrap().len(), staged.len(), "nothing is removed: {}", engine.name);
        assert!(outbox.stats().await.unwrap().bytes >= 90_000);

        let (sender, mut receiver) = mpsc::unbounded_channel();
        let consumer = Consumer::new("shop", "order.placed", move |event: Event| {
            let sent = sender.send(event.id().to_owned());
            async move { sent }
        });
        let relay = outbox.relay().declare(consumer.unwrap()).unwrap().start();
        let mut delivered = Vec::new();
        for _ in &staged {
            delivered.push(tokio::time::timeout(Duration::from_mins(1), receiver.recv()).await.unwrap().unwrap());
        }
        delivered.sort();
        staged.sort();
        assert_eq!(delivered, staged, "{}", engine.name);
        until("there is room again", async || outbox.admit(EVE).is_ok()).await;
        append(&outbox, &engine.db).await.unwrap();
        let left = rows().await.unwrap();
        assert!(left.iter().filter(|row| row.status == RowStatus::Dispatched).count() <= 5, "{}", engine.name);
        relay.stop(Duration::from_secs(10)).await;
    }
}

#[tokio::test]
async fn a_caller_who_fills_the_outbox_is_refused_before_others() {
    for engine in engines().await {
        let outbox = Outbox::open(engine.db.clone(), Ambient::system(), options()).await.unwrap();
        let mut eves = 0;
        while stage(&outbox, &engine.db, EVE).await.is_ok() {
            eves += 1;
            assert!(eves < 10, "{}", engine.name);
        }
        assert!(eves >= 5, "{eves} events, {}", engine.name);
        assert_eq!(stage(&outbox, &engine.db, BOB).await, Ok(()), "{}", engine.name);
        assert_eq!(stage(&outbox, &engine.db, EVE).await, Err(OutboxFull), "{}", engine.name);
    }
}

/// Another process has staged them.
#[tokio::test]
async fn what_other_processes_have_staged_counts() {
    for engine in engines().await {
        let open = async || Outbox::open(engine.db.clone(), Ambient::system(), options()).await.unwrap();
        let (one, other) = (open().await, open().await);
        for _ in 0..9 {
            append(&one, &engine.db).await.unwrap();
        }
        assert_eq!(other.bytes(), None);
        append(&other, &engine.db).await.unwrap();
        until("it counts the table", async || other.bytes().is_some_and(|bytes| bytes >= 100_000)).await;
        assert!(matches!(append(&other, &engine.db).await, Err(StageError::Full(_))), "{}", engine.name);
    }
}

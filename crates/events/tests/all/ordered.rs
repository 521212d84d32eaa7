//! Consumers that get the events of a record one after the other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Ambient;
use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{Db, Options, Share, Tx};
use gatewright_events::outbox::{
    Appending, Backoff, Consumer, DeliveryStatus, Event, Facts, Hopeless, Outbox, OutboxOptions, Relay,
};
use gatewright_events::{EntityEvent, EventKind};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

fn quick() -> OutboxOptions {
    OutboxOptions {
        poll_interval: Duration::from_millis(20),
        backoff: Backoff { first: Duration::from_millis(2), cap: Duration::from_millis(20) },
        max_attempts: 5,
        ..OutboxOptions::default()
    }
}

async fn again(engine: &TestDb) -> Outbox {
    let db = Db::open(&engine.url, Options { max_connections: 4.try_into().unwrap(), ..Options::default() });
    Outbox::open(db.await.unwrap(), Ambient::system(), quick()).await.unwrap()
}

async fn stage(outbox: &Outbox, db: &Db, entity: &'static str, id: &str, n: u64) -> String {
    let (outbox, id) = (outbox.clone(), id.to_owned());
    db.write(async move |tx: &Tx| {
        let record = format!(r#"{{"id":"{id}","n":{n}}}"#);
        let event = EntityEvent::new(EventKind::Updated, entity, entity, record);
        outbox.stage(tx, Share::default(), &event, Facts { record: Some(&id), ..Facts::default() }).await
    })
    .await
    .unwrap()
}

fn of(event: &Event) -> (String, u64) {
    let json: Value = serde_json::from_str(event.json()).unwrap();
    (json["record"]["id"].as_str().unwrap().to_owned(), json["record"]["n"].as_u64().unwrap())
}

/// Hears every event, and fails as often as `failing` says.
fn consumer(name: &str, failing: impl Fn(&str, u64, u32) -> bool + Send + Sync + 'static) -> (Consumer, Heard) {
    let (tell, heard) = mpsc::unbounded_channel();
    let failing = Arc::new(failing);
    let consumer = Consumer::new(name, "entity.updated", move |event: Event| {
        let (tell, failing) = (tell.clone(), failing.clone());
        async move {
            let (id, n) = of(&event);
            tokio::time::sleep(Duration::from_millis(3)).await;
            let fails = failing(&id, n, event.attempt());
            tell.send((id, n, fails)).unwrap();
            if fails { Err("not yet") } else { Ok(()) }
        }
    });
    (consumer.unwrap().ordered(), heard)
}

type Heard = mpsc::UnboundedReceiver<(String, u64, bool)>;

async fn next(heard: &mut Heard) -> (String, u64, bool) {
    tokio::time::timeout(Duration::from_mins(1), heard.recv()).await.expect("in time").unwrap()
}

fn start(outbox: &Outbox, consumer: Consumer) -> Relay {
    outbox.relay().declare(consumer).unwrap().start()
}

#[tokio::test]
async fn a_failed_event_holds_back_later_ones_of_its_record_and_no_others() {
    for engine in engines().await {
        let outbox = again(&engine).await;
        for n in 0..4 {
            for id in ["a", "b"] {
                stage(&outbox, &engine.db, "posts", id, n).await;
            }
        }
        let (consumer, mut heard) = consumer("ordered", |id, n, attempt| id == "a" && n == 1 && attempt < 4);
        let _relay = start(&outbox, consumer);
        let (mut of_a, mut failed) = (Vec::new(), 0);
        let mut of_b = Vec::new();
        while of_a.len() < 4 || of_b.len() < 4 {
            let (id, n, fails) = next(&mut heard).await;
            match (id.as_str(), fails) {
                (_, true) => failed += 1,
                ("a", false) => of_a.push(n),
                (_, false) => of_b.push(n),
            }
        }
        assert_eq!((of_a, of_b, failed), (vec![0, 1, 2, 3], vec![0, 1, 2, 3], 3), "{}", engine.name);
    }
}

#[tokio::test]
async fn later_events_go_on_after_a_dead_one_which_can_be_replayed() {
    for engine in engines().await {
        let outbox = again(&engine).await;
        let dead = stage(&outbox, &engine.db, "posts", "a", 0).await;
        stage(&outbox, &engine.db, "posts", "a", 1).await;
        let poison = Arc::new(Mutex::new(true));
        let is_poisoned = poison.clone();
        let (consumer, mut heard) = consumer("ordered", move |_, n, _| n == 0 && *is_poisoned.lock());
        let _relay = start(&outbox, consumer);
        for _ in 0..5 {
            assert_eq!(next(&mut heard).await, ("a".to_owned(), 0, true), "{}", engine.name);
        }
        assert_eq!(next(&mut heard).await, ("a".to_owned(), 1, false));
        *poison.lock() = false;
        assert_eq!(outbox.replay(&dead).await.unwrap(), 1);
        assert_eq!(next(&mut heard).await, ("a".to_owned(), 0, false));
    }
}

#[tokio::test]
async fn two_relays_keep_the_order_and_deliver_each_event_once() {
    for engine in engines().await {
        let (one, two) = (again(&engine).await, again(&engine).await);
        let (first, mut heard) = consumer("ordered", |_, _, _| false);
        let _relays = (start(&one, first.clone()), start(&two, first));
        for n in 0..12 {
            for id in ["a", "b", "c"] {
                stage(if n % 2 == 0 { &one } else { &two }, &engine.db, "posts", id, n).await;
            }
        }
        let mut all: HashMap<String, Vec<u64>> = HashMap::new();
        for _ in 0..36 {
            let (id, n, _) = next(&mut heard).await;
            all.entry(id).or_default().push(n);
        }
        for (id, heard) in all {
            assert_eq!(heard, (0..12).collect::<Vec<_>>(), "{id} on {}", engine.name);
        }
    }
}

#[tokio::test]
async fn many_events_of_a_failing_record_do_not_hold_back_others() {
    for engine in engines().await {
        let options = OutboxOptions {
            backoff: Backoff { first: Duration::from_mins(1), cap: Duration::from_mins(1) },
            ..quick()
        };
        let outbox = Outbox::open(engine.db.clone(), Ambient::system(), options).await.unwrap();
        let staging = outbox.clone();
        engine
            .db
            .write(async move |tx: &Tx| -> Result<(), gatewright_db::Error> {
                for n in 0..1500 {
                    let event =
                        EntityEvent::new(EventKind::Updated, "posts", "posts", format!(r#"{{"id":"a","n":{n}}}"#));
                    let facts = Facts { record: Some("a"), ..Facts::default() };
                    staging.stage(tx, Share::default(), &event, facts).await?;
                }
                Ok(())
            })
            .await
            .unwrap();
        let (consumer, mut heard) = consumer("ordered", |id, _, _| id == "a");
        let _relay = start(&outbox, consumer);
        assert_eq!(next(&mut heard).await, ("a".to_owned(), 0, true));
        stage(&outbox, &engine.db, "posts", "b", 7).await;
        assert_eq!(next(&mut heard).await, ("b".to_owned(), 7, false), "{}", engine.name);
    }
}

#[tokio::test]
async fn a_consumer_of_an_entity_gets_no_events_of_others() {
    for engine in engines().await {
        let outbox = again(&engine).await;
        let other = stage(&outbox, &engine.db, "comments", "a", 0).await;
        stage(&outbox, &engine.db, "posts", "a", 1).await;
        let (consumer, mut heard) = consumer("ordered", |_, _, _| false);
        let _relay = start(&outbox, consumer.entity("posts"));
        assert_eq!(next(&mut heard).await, ("a".to_owned(), 1, false), "{}", engine.name);
        assert_eq!(outbox.list_deliveries(&other).await.unwrap(), Some(Vec::new()), "no delivery is made");
    }
}

#[tokio::test]
async fn a_hopeless_delivery_is_dead_at_once_and_a_delayed_event_waits() {
    for engine in engines().await {
        let outbox = again(&engine).await;
        let (tell, mut heard) = mpsc::unbounded_channel();
        let hopeless = Consumer::new("hopeless", "a", |_| async { Err::<(), _>(Hopeless("too long".to_owned())) });
        let later = Consumer::new("later", "b", move |event: Event| {
            let tell = tell.clone();
            async move { tell.send(event.chain()).map_err(|error| error.to_string()) }
        });
        let relay = outbox.relay().declare(hopeless.unwrap()).unwrap();
        let _relay = relay.declare(later.unwrap()).unwrap().start();
        let append = async |event_type: &'static str, appending: Appending| {
            let staging = outbox.clone();
            let staged =
                engine.db.write(async move |tx: &Tx| staging.append_with(tx, event_type, &Map::new(), appending).await);
            staged.await
        };
        let row = append("a", Appending::default()).await.unwrap();
        let began = std::time::Instant::now();
        let delay = Duration::from_millis(700);
        append("b", Appending { delay, chain: 3, ..Appending::default() }).await.unwrap();
        let heard = tokio::time::timeout(Duration::from_mins(1), heard.recv()).await.unwrap();
        assert_eq!(heard, Some(3));
        assert!(began.elapsed() >= delay, "{}", engine.name);
        let [delivery] = outbox.list_deliveries(&row).await.unwrap().unwrap().try_into().unwrap();
        assert_eq!((delivery.status, delivery.attempts), (DeliveryStatus::Dead, 1));
        assert_eq!(delivery.last_error.as_deref(), Some("too long"));
        let too_long = Appending { delay: Duration::from_hours(24 * 31), ..Appending::default() };
        assert!(append("b", too_long).await.is_err());
    }
}

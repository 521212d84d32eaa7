//! Consumers that pull, on every engine, through the public interface.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Ambient, ManualClock, TokenId};
use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{Db, Options, Tx};
use gatewright_events::outbox::pull::{PullError, Receipt};
use gatewright_events::outbox::{Backoff, DeliveryStatus, Outbox, OutboxOptions, PullConsumer, Pulls, Relay};
use jiff::SignedDuration;
use serde_json::json;

const LEASE: Duration = Duration::from_mins(1);

/// An outbox with one consumer that pulls, on a clock that the test moves.
struct World {
    db: Db,
    outbox: Outbox,
    pulls: Pulls,
    clock: Arc<ManualClock>,
    _relay: Relay,
}

impl World {
    async fn open(engine: &TestDb) -> Self {
        let consumer = PullConsumer::new("worker", "a").unwrap();
        Self::with(engine.db.clone(), consumer).await
    }

    async fn with(db: Db, consumer: PullConsumer) -> Self {
        let (ambient, clock) = Ambient::manual("2026-01-01T00:00:00Z".parse().unwrap(), 3);
        let options = OutboxOptions {
            poll_interval: Duration::from_millis(20),
            max_attempts: 3,
            lease: LEASE,
            backoff: Backoff { first: Duration::from_secs(10), cap: Duration::from_secs(10) },
            ..OutboxOptions::default()
        };
        let outbox = Outbox::open(db.clone(), ambient, options).await.unwrap();
        let pulls = Pulls::new(&outbox, vec![consumer]);
        let relay = outbox.relay().pulled(&pulls).unwrap().start();
        Self { db, outbox, pulls, clock, _relay: relay }
    }

    async fn append(&self, payload: serde_json::Value) -> String {
        let (outbox, payload) = (self.outbox.clone(), payload.as_object().unwrap().clone());
        self.db.write(async move |tx: &Tx| outbox.append(tx, "a", &payload).await).await.unwrap()
    }

    /// The ids and attempts of what a token gets; it waits for the first event.
    async fn pull(&self, token: &TokenId, limit: usize) -> Vec<(String, u32)> {
        let events = self.pulls.pull("worker", token, limit, Duration::from_secs(20)).await.unwrap();
        events.iter().map(|event| (event.id().to_owned(), event.attempt())).collect()
    }

    /// The events for a token now.
    async fn look(&self, token: &TokenId) -> Vec<(String, u32)> {
        let events = self.pulls.pull("worker", token, 1_000, Duration::ZERO).await.unwrap();
        events.iter().map(|event| (event.id().to_owned(), event.attempt())).collect()
    }

    async fn acknowledge(&self, token: &TokenId, ids: &[&str]) -> Vec<String> {
        self.pulls.acknowledge("worker", token, &receipts(ids)).await.unwrap()
    }

    async fn status(&self, row: &str) -> Option<DeliveryStatus> {
        self.outbox.list_deliveries(row).await.unwrap().unwrap().first().map(|delivery| delivery.status)
    }

    fn later(&self, time: Duration) {
        self.clock.advance(SignedDuration::try_from(time).unwrap());
    }
}

fn receipts(ids: &[&str]) -> Vec<Receipt> {
    ids.iter().map(|id| Receipt { id: (*id).to_owned(), attempt: None }).collect()
}

fn token(name: &str) -> TokenId {
    TokenId::parse(name).unwrap()
}

#[tokio::test]
async fn an_acknowledged_event_is_never_pulled_again() {
    for engine in engines().await {
        let world = World::open(&engine).await;
        let me = token("me");
        let waiting = { world.pulls.clone() };
        let asked = tokio::spawn({
            let me = me.clone();
            async move { waiting.pull("worker", &me, 10, Duration::from_secs(20)).await.unwrap() }
        });
        let id = world.append(json!({ "n": 1, "text": "ä" })).await;
        let events = asked.await.unwrap();
        let [event] = &events[..] else { panic!("one event: {events:?}") };
        assert_eq!((event.id(), event.event_type(), event.attempt()), (&*id, "a", 1));
        assert_eq!(event.json(), r#"{"n":1,"text":"ä"}"#);
        assert_eq!(world.look(&me).await, [], "it is leased");
        assert_eq!(world.acknowledge(&me, &[&id]).await, [""; 0]);
        assert_eq!(world.acknowledge(&me, &[&id]).await, [""; 0], "the first answer may have been lost");
        world.later(LEASE * 10);
        assert_eq!(world.look(&me).await, []);
        assert_eq!(world.status(&id).await, Some(DeliveryStatus::Dispatched));
        assert_eq!(world.outbox.counts().consumers["worker"].delivered, 1, "{}", engine.name);
    }
}

#[tokio::test]
async fn a_lease_belongs_to_the_token_that_pulled_and_to_its_attempt() {
    for engine in engines().await {
        let world = World::open(&engine).await;
        let (me, other) = (token("me"), token("other"));
        let id = world.append(json!({})).await;
        assert_eq!(world.pull(&me, 1).await, [(id.clone(), 1)]);
        assert_eq!(world.acknowledge(&other, &[&id]).await, std::slice::from_ref(&id), "another token holds it");
        let refused = world.pulls.refuse("worker", &other, &receipts(&[&id]), None).await.unwrap();
        assert_eq!(refused, std::slice::from_ref(&id));
        world.later(LEASE);
        assert_eq!(world.acknowledge(&me, &[&id]).await, std::slice::from_ref(&id), "the lease has ended");
        assert_eq!(world.pull(&other, 1).await, [(id.clone(), 2)], "an expired lease was an attempt");
        assert_eq!(world.acknowledge(&me, &[&id]).await, std::slice::from_ref(&id), "it was taken over");
        let first = [Receipt { id: id.clone(), attempt: Some(1) }];
        let refused = world.pulls.acknowledge("worker", &other, &first).await.unwrap();
        assert_eq!(refused, std::slice::from_ref(&id), "the receipt is for another attempt");
        assert_eq!(world.acknowledge(&other, &[&id, "unknown", "' OR 1=1 --"]).await, ["' OR 1=1 --", "unknown"]);
        assert_eq!(world.status(&id).await, Some(DeliveryStatus::Dispatched), "the rest is acknowledged");
        assert_eq!(world.acknowledge(&me, &[&id]).await, [id], "and not for a token that did not do it");
    }
}

#[tokio::test]
async fn an_event_refused_or_expired_too_often_is_dead_until_it_is_replayed() {
    for engine in engines().await {
        let world = World::open(&engine).await;
        let me = token("me");
        let id = world.append(json!({})).await;
        assert_eq!(world.pull(&me, 1).await, [(id.clone(), 1)]);
        let refused = world.pulls.refuse("worker", &me, &receipts(&[&id]), Some(Duration::from_secs(30))).await;
        assert_eq!(refused.unwrap(), [""; 0]);
        world.later(Duration::from_secs(29));
        assert_eq!(world.look(&me).await, [], "not before the delay");
        world.later(Duration::from_secs(1));
        assert_eq!(world.look(&me).await, [(id.clone(), 2)]);
        world.later(LEASE);
        assert_eq!(world.look(&me).await, [(id.clone(), 3)]);
        world.later(LEASE);
        assert_eq!(world.look(&me).await, [], "the third attempt was the last");
        assert_eq!(world.status(&id).await, Some(DeliveryStatus::Dead));
        let deliveries = world.outbox.list_deliveries(&id).await.unwrap().unwrap();
        assert_eq!(deliveries[0].attempts, 3);
        assert!(deliveries[0].last_error.as_deref().is_some_and(|error| error.contains("lease")), "{deliveries:?}");
        let counts = world.outbox.counts().consumers["worker"];
        assert_eq!((counts.failed, counts.dead, counts.delivered), (3, 1, 0));
        assert_eq!(world.outbox.replay(&id).await.unwrap(), 1);
        assert_eq!(world.pull(&me, 1).await, [(id.clone(), 1)]);
        // Without a delay the outbox's own backoff applies.
        assert_eq!(world.pulls.refuse("worker", &me, &receipts(&[&id]), None).await.unwrap(), [""; 0]);
        assert_eq!(world.look(&me).await, []);
        world.later(Duration::from_secs(10));
        assert_eq!(world.look(&me).await, [(id, 2)], "{}", engine.name);
    }
}

#[tokio::test]
async fn each_event_goes_to_one_of_twenty_parallel_pulls() {
    for engine in engines().await {
        let world = World::open(&engine).await;
        let mut ids = BTreeSet::new();
        for n in 0..60 {
            ids.insert(world.append(json!({ "n": n })).await);
        }
        let pulling: Vec<_> = (0..20)
            .map(|n| {
                let (pulls, token) = (world.pulls.clone(), token(&format!("t{n}")));
                tokio::spawn(async move { pulls.pull("worker", &token, 3, Duration::from_secs(20)).await.unwrap() })
            })
            .collect();
        let mut taken = Vec::new();
        for pull in pulling {
            taken.extend(pull.await.unwrap().into_iter().map(|event| event.id().to_owned()));
        }
        let rest = world.look(&token("rest")).await;
        taken.extend(rest.into_iter().map(|(id, _)| id));
        assert_eq!(taken.len(), 60, "no event came twice on {}", engine.name);
        assert_eq!(taken.into_iter().collect::<BTreeSet<_>>(), ids, "and none was lost");
    }
}

#[tokio::test]
async fn waiting_callers_hold_no_connection_and_are_woken() {
    for engine in engines().await {
        // Fewer connections than callers.
        let options = Options { max_connections: 3.try_into().unwrap(), ..Options::default() };
        let db = Db::open(&engine.url, options).await.unwrap();
        let world = World::with(db, PullConsumer::new("worker", "a").unwrap()).await;
        let waiting: Vec<_> = (0..30)
            .map(|n| {
                let (pulls, token) = (world.pulls.clone(), token(&format!("t{n}")));
                tokio::spawn(async move { pulls.pull("worker", &token, 1, Duration::from_secs(25)).await.unwrap() })
            })
            .collect();
        for n in 0..30 {
            world.append(json!({ "n": n })).await;
        }
        let mut ids = BTreeSet::new();
        for pull in waiting {
            ids.extend(pull.await.unwrap().into_iter().map(|event| event.id().to_owned()));
        }
        assert_eq!(ids.len(), 30, "each got one, on {}", engine.name);
    }
}

#[tokio::test]
async fn waiting_callers_are_limited_per_token_and_closing_answers_them() {
    for engine in engines().await {
        let world = World::open(&engine).await;
        let waiting: Vec<_> = (0..40)
            .map(|_| {
                let pulls = world.pulls.clone();
                tokio::spawn(async move { pulls.pull("worker", &token("me"), 1, Duration::from_secs(25)).await })
            })
            .collect();
        let answered = async |count: usize| {
            let wait = async {
                while waiting.iter().filter(|pull| pull.is_finished()).count() < count {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(Duration::from_mins(1), wait).await.expect("so many are answered");
        };
        answered(8).await;
        world.append(json!({})).await;
        answered(9).await;
        world.pulls.close();
        let (mut refused, mut events) = (0, 0);
        for pull in waiting {
            match pull.await.unwrap() {
                Ok(pulled) => events += pulled.len(),
                Err(PullError::TooManyWaiting(_)) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((refused, events), (8, 1), "{}", engine.name);
        assert!(matches!(
            world.pulls.pull("nobody", &token("me"), 1, Duration::ZERO).await,
            Err(PullError::Unknown(_))
        ));
    }
}

#[tokio::test]
async fn events_pulled_for_a_caller_who_left_are_released() {
    for engine in engines().await {
        let world = World::open(&engine).await;
        let id = world.append(json!({})).await;
        // Callers who disconnect in the middle, at different points.
        for round in 0..20 {
            let gone = token("gone");
            let pull = world.pulls.pull("worker", &gone, 1, Duration::from_secs(5));
            let _left = tokio::time::timeout(Duration::from_micros(round * 150), pull).await;
        }
        // A pull that returned in time has the event; no other caller gets it before its lease ends.
        let found = async {
            loop {
                if let [(found, attempt)] = &world.look(&token("me")).await[..] {
                    return (found.clone(), *attempt);
                }
                world.later(LEASE);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let (found, _) = tokio::time::timeout(Duration::from_mins(1), found).await.expect("it comes again");
        assert_eq!(found, id, "{}", engine.name);
    }
}

#[tokio::test]
async fn only_events_of_the_consumers_entities_are_pulled_and_large_ones_in_several_answers() {
    for engine in engines().await {
        let consumer = PullConsumer::new("worker", "a").unwrap().entities(vec!["posts".to_owned()]);
        let world = World::with(engine.db.clone(), consumer).await;
        let me = token("me");
        for _ in 0..120 {
            world.append(json!({ "entity": "notes" })).await;
        }
        let text = "x".repeat(1 << 20);
        let mut ids = BTreeSet::new();
        for _ in 0..10 {
            ids.insert(world.append(json!({ "entity": "posts", "text": text })).await);
        }
        let mut got = BTreeSet::new();
        while got.len() < 10 {
            let events = world.pulls.pull("worker", &me, 7, Duration::from_secs(20)).await.unwrap();
            assert!(!events.is_empty() && events.len() <= 4, "{} MiB in one answer", events.len());
            got.extend(events.into_iter().map(|event| event.id().to_owned()));
        }
        assert_eq!(got, ids, "{}", engine.name);
        assert_eq!(world.look(&me).await, []);
        let stats = world.outbox.stats().await.unwrap();
        assert_eq!(stats.consumers["worker"]["dispatched"], 120, "what nobody wants is done with");
    }
}

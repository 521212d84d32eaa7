//! The SQL statements have the same effect as the transitions.

use std::time::Duration;

use gatewright_base::Ambient;
use gatewright_db::Row;
use gatewright_db::testing::engines;
use jiff::SignedDuration;

use super::super::transition::{Backoff, Delivery, Outcome, failed};
use super::super::{Outbox, OutboxOptions};
use super::*;

const POLICY: Policy = Policy {
    max_attempts: 3,
    lease: Duration::from_secs(4),
    grace: Duration::from_secs(20),
    backoff: Backoff { first: Duration::from_secs(2), cap: Duration::from_secs(2) },
};

/// Steps in each database.
const STEPS: u64 = 400;

async fn stored(db: &Db) -> Delivery {
    let sql = "SELECT status, attempts, created_at, next_attempt_at, claimed_until FROM event_outbox_delivery";
    let row: Row = db.query_opt(sql, params![]).await.unwrap().unwrap();
    Delivery {
        status: row.get("status").unwrap(),
        attempts: row.get::<i64>("attempts").unwrap().try_into().unwrap(),
        created_at: row.get("created_at").unwrap(),
        next_attempt_at: row.get("next_attempt_at").unwrap(),
        claimed_until: row.get("claimed_until").unwrap(),
    }
}

#[tokio::test]
async fn statements_and_transitions_agree_in_any_order() {
    for engine in engines().await {
        let (ambient, clock) = Ambient::manual("2026-01-01T00:00:00.123456Z".parse().unwrap(), 11);
        let options = OutboxOptions { max_attempts: POLICY.max_attempts, ..OutboxOptions::default() };
        let outbox = Outbox::open(engine.db.clone(), ambient.clone(), options).await.unwrap();
        let consumer = Consumer::new("c", "a", async |_| Ok::<_, String>(())).unwrap();
        let deliveries =
            Deliveries::new(engine.db.clone(), "r".to_owned(), &[Declared::of(&consumer)], Budget::unlimited());
        let staging = outbox.clone();
        let id =
            engine.db.write(async move |tx: &gatewright_db::Tx| staging.append(tx, "a", &serde_json::Map::new()).await);
        let id: Arc<str> = id.await.unwrap().into();
        let ids = [id.clone()];
        let staged = outbox.now();
        clock.advance(SignedDuration::from_secs(1));
        assert_eq!(deliveries.expand(&[id.to_string()], outbox.now()).await.unwrap(), 1);
        assert_eq!(deliveries.expand(&[id.to_string()], outbox.now()).await.unwrap(), 0, "once is enough");
        let mut model = Delivery::new(staged, outbox.now());
        assert_eq!(stored(&engine.db).await, model);
        // Every lease that was ever assigned, so that stale owners try too.
        let mut leases = vec![outbox.now()];
        let mut taken = [0_u32; 8];
        for step in 0..STEPS {
            let [kind, pick, wait, ..] = ambient.bytes::<8>();
            clock.advance(SignedDuration::from_millis(i64::from(wait) * 12));
            let now = outbox.now();
            // Mostly the newest lease, sometimes one of long ago.
            let newest = leases.len() - 1;
            let lease = leases[if pick < 200 { newest } else { usize::from(pick) % leases.len() }];
            let kind = usize::from(kind % 8);
            let (expected, done) = match kind {
                0 | 1 => {
                    let claimed = deliveries.claim(&consumer, 10, now, &POLICY).await.unwrap();
                    leases.extend(claimed.claimed.iter().map(|claimed| claimed.lease));
                    (model.claim(now, &POLICY), !claimed.claimed.is_empty())
                }
                2 => {
                    let (new, kept) = deliveries.renew("c", lease, &ids, now, &POLICY).await.unwrap();
                    leases.extend(kept.iter().map(|_| new));
                    (model.renew(lease, now, &POLICY), !kept.is_empty())
                }
                3 => {
                    // Rarely, or little else would happen.
                    if pick % 4 > 0 {
                        continue;
                    }
                    let settled = deliveries.succeeded("c", lease, &ids, now).await.unwrap();
                    (model.settle(lease, Outcome::Succeeded, now, &POLICY, 0), !settled.is_empty())
                }
                4 => {
                    let (attempts, retry) = failed(model.attempts, now, &POLICY, 0);
                    let settled = deliveries.failed("c", lease, &id, attempts, retry, "no").await.unwrap();
                    (model.settle(lease, Outcome::Failed, now, &POLICY, 0), settled)
                }
                5 => {
                    let released = deliveries.release("c", lease, &ids).await.unwrap();
                    (model.release(lease), !released.is_empty())
                }
                6 => {
                    let cutoff = super::super::transition::earlier(now, POLICY.grace);
                    let unknown = super::super::rows::Unknown {
                        consumer: "c".to_owned(),
                        event_type: "a".to_owned(),
                        trace: (0, None, String::new(), String::new()),
                    };
                    let abandoned = deliveries.abandon(&unknown, cutoff, now).await.unwrap();
                    (model.abandon(now, &POLICY), abandoned > 0)
                }
                _ => {
                    let replayed = outbox.replay_consumer(&id, "c").await.unwrap();
                    (model.replay(now), replayed > 0)
                }
            };
            assert_eq!(expected.is_some(), done, "step {step} of kind {kind} on {}: {model:?} at {now}", engine.name);
            taken[kind] += u32::from(done);
            model = expected.unwrap_or(model);
            assert_eq!(stored(&engine.db).await, model, "step {step} of kind {kind} on {}", engine.name);
            if model.status == DeliveryStatus::Dispatched {
                // Nothing leads on from here: begin again.
                let again = "UPDATE event_outbox_delivery SET status = 'dead'";
                engine.db.execute(again, params![]).await.unwrap();
                model.status = DeliveryStatus::Dead;
            }
        }
        assert!(taken.iter().all(|count| *count > 0), "every step was taken on {}: {taken:?}", engine.name);
    }
}

#[tokio::test]
async fn a_dead_relay_loses_its_deliveries_and_a_live_one_keeps_them() {
    for engine in engines().await {
        let (ambient, _clock) = Ambient::manual("2026-01-01T00:00:00Z".parse().unwrap(), 5);
        let outbox = Outbox::open(engine.db.clone(), ambient, OutboxOptions::default()).await.unwrap();
        let consumer = Consumer::new("c", "a", async |_| Ok::<_, String>(())).unwrap();
        let declared = || [Declared::of(&consumer)];
        let [dead, other] = ["dead", "other"]
            .map(|name| Deliveries::new(engine.db.clone(), name.to_owned(), &declared(), Budget::unlimited()));
        let staging = outbox.clone();
        let id =
            engine.db.write(async move |tx: &gatewright_db::Tx| staging.append(tx, "a", &serde_json::Map::new()).await);
        let id: Arc<str> = id.await.unwrap().into();
        let (ids, now) = ([id.clone()], outbox.now());
        dead.expand(&[id.to_string()], now).await.unwrap();
        let lease = dead.claim(&consumer, 1, now, &POLICY).await.unwrap().claimed[0].lease;
        assert_eq!(dead.holders().await.unwrap(), [], "its own are nobody else's business");
        assert_eq!(other.holders().await.unwrap(), [("dead".to_owned(), 0)]);
        dead.beat(1).await.unwrap();
        assert_eq!(other.take_over("dead", 0).await.unwrap(), 0, "it has given a sign of life since");
        assert_eq!(other.forget_idle_relays().await.unwrap(), 0);
        assert_eq!(other.holders().await.unwrap(), [("dead".to_owned(), 1)]);
        assert_eq!(other.take_over("dead", 1).await.unwrap(), 1);
        assert_eq!(other.take_over("dead", 1).await.unwrap(), 0);
        // The clock does not advance: the new owner's lease has the same end.
        let again = other.claim(&consumer, 1, now, &POLICY).await.unwrap().claimed;
        assert_eq!(again[0].lease, lease);
        assert_eq!(dead.succeeded("c", lease, &ids, now).await.unwrap(), [""; 0], "a stale owner settles nothing");
        assert_eq!(dead.renew("c", lease, &ids, now, &POLICY).await.unwrap().1, [""; 0]);
        assert_eq!(dead.release("c", lease, &ids).await.unwrap(), [""; 0]);
        assert!(!dead.failed("c", lease, &id, 1, None, "no").await.unwrap());
        assert_eq!(other.succeeded("c", lease, &ids, now).await.unwrap(), [&*id], "{}", engine.name);
        assert_eq!(dead.holders().await.unwrap(), []);
        dead.beat(2).await.unwrap();
        assert_eq!(other.forget_idle_relays().await.unwrap(), 1);
    }
}

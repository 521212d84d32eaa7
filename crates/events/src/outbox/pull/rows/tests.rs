//! The SQL statements have the same effect as the transitions.

use gatewright_base::Ambient;
use gatewright_db::testing::engines;
use jiff::SignedDuration;

use super::*;
use crate::outbox::deliveries::Deliveries;
use crate::outbox::transition::{Backoff, Delivery};
use crate::outbox::{Outbox, OutboxOptions};

const POLICY: Policy = Policy {
    max_attempts: 4,
    lease: Duration::from_secs(4),
    grace: Duration::from_secs(20),
    backoff: Backoff { first: Duration::from_secs(2), cap: Duration::from_secs(2) },
};

/// Steps in each database.
const STEPS: u64 = 600;

async fn stored(db: &Db) -> (Delivery, Option<String>) {
    let sql = "SELECT status, attempts, created_at, next_attempt_at, claimed_until, token FROM event_outbox_delivery";
    let row = db.query_opt(sql, vec![]).await.unwrap().unwrap();
    let delivery = Delivery {
        status: row.get("status").unwrap(),
        attempts: row.get::<i64>("attempts").unwrap().try_into().unwrap(),
        created_at: row.get("created_at").unwrap(),
        next_attempt_at: row.get("next_attempt_at").unwrap(),
        claimed_until: row.get("claimed_until").unwrap(),
    };
    (delivery, row.get("token").unwrap())
}

#[tokio::test]
async fn statements_and_transitions_agree_in_any_order() {
    for engine in engines().await {
        let (ambient, clock) = Ambient::manual("2026-01-01T00:00:00.123456Z".parse().unwrap(), 11);
        let options = OutboxOptions { max_attempts: POLICY.max_attempts, ..OutboxOptions::default() };
        let outbox = Outbox::open(engine.db.clone(), ambient.clone(), options).await.unwrap();
        let consumer = PullConsumer::new("c", "a").unwrap();
        let rows = Rows::new(engine.db.clone(), POLICY, Budget::unlimited());
        let deliveries =
            Deliveries::new(engine.db.clone(), "r".to_owned(), &[consumer.declared()], Budget::unlimited());
        let staging = outbox.clone();
        let id = engine.db.write(async move |tx: &Tx| staging.append(tx, "a", &serde_json::Map::new()).await);
        let id = id.await.unwrap();
        assert_eq!(deliveries.expand(std::slice::from_ref(&id), outbox.now()).await.unwrap(), 1);
        let (mut model, _) = stored(&engine.db).await;
        let tokens = ["one", "two"].map(|token| TokenId::parse(token).unwrap());
        let mut holder = 0;
        let mut taken = [0_u32; 7];
        for step in 0..STEPS {
            let [kind, pick, wait, ..] = ambient.bytes::<8>();
            clock.advance(SignedDuration::from_millis(i64::from(wait) * 12));
            let now = outbox.now();
            let kind = usize::from(kind % 7);
            let actor = usize::from(pick % 2);
            let attempt = (pick & 4 > 0).then(|| model.attempts + u32::from(pick & 8 == 0));
            let receipts = [Receipt { id: id.clone(), attempt }];
            let meant = attempt.is_none_or(|attempt| attempt == model.attempts + 1) && actor == holder;
            let (expected, done) = match kind {
                0..=2 => {
                    let claimed = rows.claim(&consumer, &tokens[actor], 10, now).await.unwrap();
                    let expected = model.pull(now, &POLICY);
                    if expected.is_some() {
                        holder = actor;
                    }
                    (expected, claimed.ids.len() + claimed.dead > 0)
                }
                3 => {
                    // Rarely, or little else would happen.
                    if wait % 2 > 0 {
                        continue;
                    }
                    let settled = rows.acknowledge("c", &tokens[actor], &receipts, now).await.unwrap();
                    assert_eq!(settled.refused.is_empty(), settled.changed > 0, "one or the other");
                    (model.acknowledge(now).filter(|_| meant), settled.changed > 0)
                }
                4 => {
                    let delay = (pick & 16 > 0).then_some(Duration::from_secs(1));
                    let settled = rows.refuse("c", &tokens[actor], &receipts, now, delay, 0).await.unwrap();
                    (model.refuse(now, &POLICY, delay, 0).filter(|_| meant), settled.changed > 0)
                }
                5 => {
                    let lease = model.claimed_until.unwrap_or(now);
                    rows.release("c", &tokens[actor], lease, std::slice::from_ref(&id), now).await.unwrap();
                    let held = model.release(lease).filter(|_| actor == holder);
                    let released = held.map(|held| Delivery { next_attempt_at: now, ..held });
                    let done = stored(&engine.db).await.0 != model;
                    (released, done)
                }
                _ => {
                    let replayed = outbox.replay_consumer(&id, "c").await.unwrap();
                    (model.replay(now), replayed > 0)
                }
            };
            assert_eq!(expected.is_some(), done, "step {step} of kind {kind} on {}: {model:?} at {now}", engine.name);
            taken[kind] += u32::from(done);
            model = expected.unwrap_or(model);
            let (delivery, holding) = stored(&engine.db).await;
            assert_eq!(delivery, model, "step {step} of kind {kind} on {}", engine.name);
            let held = model.claimed_until.is_some();
            assert!(!held || holding.as_deref() == Some(tokens[holder].as_str()), "whose lease it is, in step {step}");
            if model.status == DeliveryStatus::Dispatched {
                let receipts = [Receipt { id: id.clone(), attempt: None }];
                let again = rows.acknowledge("c", &tokens[holder], &receipts, now).await.unwrap();
                assert_eq!((again.changed, again.refused), (0, Vec::new()), "a repeated acknowledgement is no failure");
                // Nothing leads on from here: begin again.
                engine.db.execute("UPDATE event_outbox_delivery SET status = 'dead'", vec![]).await.unwrap();
                model.status = DeliveryStatus::Dead;
            }
        }
        assert!(taken.iter().all(|count| *count > 0), "every step was taken on {}: {taken:?}", engine.name);
    }
}

//! The transitions of pulled deliveries as SQL statements. Each checks the token that holds the delivery.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use gatewright_base::{Budget, TokenId};
use gatewright_db::{Db, Error, Sql, Tx, dialect, params};
use jiff::Timestamp;

use super::{PullConsumer, Receipt};
use crate::outbox::Event;
use crate::outbox::deliveries::{json, typed_time};
use crate::outbox::payloads::{Payloads, Read, Staged};
use crate::outbox::transition::{DeliveryStatus, Lease, Policy, later, refused};

/// Bytes of payloads after which an answer ends.
const ANSWER_BYTES: usize = 4 << 20;
/// The error that an operator sees for a delivery that was not acknowledged.
const EXPIRED: &str = "the lease ended before the event was acknowledged";
/// The error that an operator sees for a delivery that the consumer refused.
const REFUSED: &str = "the consumer refused the event";

/// The statements of pulls.
pub(super) struct Rows {
    db: Db,
    policy: Policy,
    claim: Sql,
    payloads: Payloads,
    release: Sql,
}

/// Deliveries that were claimed.
pub(super) struct Claimed {
    pub(super) lease: Lease,
    /// Their rows, and how often each failed.
    pub(super) ids: HashMap<String, u32>,
    /// Deliveries whose lease has expired, including those that are dead now. One that is released unread may count
    /// once more.
    pub(super) expired: usize,
    /// Deliveries that are not claimed, because the expired lease was their last attempt.
    pub(super) dead: usize,
}

/// What a pull may return, in the order of rows, and what does not fit into one answer.
pub(super) struct Candidates {
    pub(super) events: Vec<Event>,
    pub(super) rest: Vec<String>,
}

/// The result for the deliveries that a caller named.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// How many changed.
    pub(super) changed: usize,
    /// Of those: how many are dead.
    pub(super) dead: usize,
    /// The ids of those that the caller does not hold, in their order.
    pub(super) refused: Vec<String>,
}

/// A delivery that a token holds, or has acknowledged.
struct Held {
    attempts: u32,
    pending: bool,
}

impl Rows {
    pub(super) fn new(db: Db, policy: Policy, budget: Budget) -> Self {
        let engine = db.engine();
        let expired = "claimed_until IS NOT NULL AND token IS NOT NULL";
        let claim = format!(
            "WITH due AS MATERIALIZED (
                 SELECT d.row_id FROM event_outbox_delivery d
                 WHERE d.status = 'pending' AND d.consumer = ?1 AND d.next_attempt_at <= ?2
                   AND (d.claimed_until IS NULL OR d.claimed_until <= ?2)
                   AND EXISTS (SELECT 1 FROM event_outbox r WHERE r.id = d.row_id AND r.type = ?3)
                 ORDER BY d.next_attempt_at, d.row_id LIMIT ?4{lock})
             UPDATE event_outbox_delivery SET
                 attempts = CASE WHEN {expired} THEN attempts + 1 ELSE attempts END,
                 last_error = CASE WHEN {expired} THEN '{EXPIRED}' ELSE last_error END,
                 status = CASE WHEN {expired} AND attempts + 1 >= ?7 THEN 'dead' ELSE 'pending' END,
                 claimed_until = CASE WHEN {expired} AND attempts + 1 >= ?7 THEN NULL ELSE {lease} END,
                 next_attempt_at = CASE WHEN {expired} AND attempts + 1 >= ?7 THEN next_attempt_at ELSE {lease} END,
                 token = ?6, relay = NULL
             WHERE consumer = ?1 AND row_id IN (SELECT row_id FROM due)
             RETURNING row_id, attempts, status, CASE WHEN last_error = '{EXPIRED}' THEN 1 ELSE 0 END AS expired",
            lock = dialect::for_update_skip_locked(engine),
            lease = typed_time(engine, 5),
        );
        let release = format!(
            "UPDATE event_outbox_delivery SET claimed_until = NULL, token = NULL, next_attempt_at = ?5
             WHERE consumer = ?1 AND token = ?2 AND claimed_until = ?3 AND COALESCE(status, '') = 'pending' AND {}",
            dialect::is_among(engine, "row_id", "?4")
        );
        Self { policy, claim: claim.into(), payloads: Payloads::new(&db, budget), release: release.into(), db }
    }

    /// Takes up to `limit` deliveries that are due for `token`, those of the oldest rows first. Those whose lease has
    /// ended have failed once more.
    pub(super) async fn claim(
        &self,
        consumer: &PullConsumer,
        token: &TokenId,
        limit: usize,
        now: Timestamp,
    ) -> Result<Claimed, Error> {
        let lease = later(now, self.policy.lease);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let most = i64::from(self.policy.max_attempts);
        let params = params![consumer.name(), now, consumer.event_type(), limit, lease, token.as_str(), most];
        let mut claimed = Claimed { lease, ids: HashMap::new(), expired: 0, dead: 0 };
        for row in self.db.write_rows(&self.claim, params).await? {
            let attempts = row.get::<i64>("attempts")?;
            claimed.expired += usize::from(row.get::<i64>("expired")? > 0);
            if row.get::<DeliveryStatus>("status")? == DeliveryStatus::Pending {
                claimed.ids.insert(row.get("row_id")?, u32::try_from(attempts).unwrap_or(u32::MAX));
            } else {
                claimed.dead += 1;
            }
        }
        Ok(claimed)
    }

    /// The events of claimed deliveries, as many as fit into one answer and into the memory of the token.
    pub(super) async fn read(
        &self,
        consumer: &PullConsumer,
        token: &TokenId,
        claimed: &HashMap<String, u32>,
    ) -> Result<Candidates, Error> {
        let ids: Vec<&String> = claimed.keys().collect();
        let holder = format!("token {}", token.as_str());
        let Read { rows, rest } = self.payloads.read(&self.db, &ids, &holder, ANSWER_BYTES).await?;
        let event = |row: Staged| {
            let attempt = claimed.get(&row.id).map_or(1, |attempts| attempts.saturating_add(1));
            Event::of(row, consumer.shared_type().clone(), attempt)
        };
        Ok(Candidates { events: rows.into_iter().map(event).collect(), rest })
    }

    /// Gives deliveries back unread.
    pub(super) async fn release(
        &self,
        consumer: &str,
        token: &TokenId,
        lease: Lease,
        ids: &[String],
        now: Timestamp,
    ) -> Result<(), Error> {
        self.db.execute(&self.release, params![consumer, token.as_str(), lease, json(ids), now]).await?;
        Ok(())
    }

    /// Settles what `token` holds of `receipts` as delivered.
    pub(super) async fn acknowledge(
        &self,
        consumer: &str,
        token: &TokenId,
        receipts: &[Receipt],
        now: Timestamp,
    ) -> Result<Settled, Error> {
        let engine = self.db.engine();
        let sql = format!(
            "UPDATE event_outbox_delivery SET status = 'dispatched', dispatched_at = ?3, claimed_until = NULL
             WHERE consumer = ?1 AND COALESCE(status, '') = 'pending' AND {}",
            dialect::is_among(engine, "row_id", "?2")
        );
        let (consumer, token, receipts) = (consumer.to_owned(), token.clone(), receipts.to_vec());
        let acknowledge = async move |tx: &Tx| -> Result<Settled, Error> {
            let held = held(tx, &consumer, &token, &receipts, now).await?;
            let (mut ids, mut refused) = (BTreeSet::new(), BTreeSet::new());
            for receipt in &receipts {
                match held.get(&receipt.id).filter(|held| held.is_meant_by(receipt)) {
                    // Acknowledged before by the same token: the first answer may have been lost.
                    Some(held) if !held.pending => false,
                    Some(_) => ids.insert(receipt.id.as_str()),
                    None => refused.insert(receipt.id.clone()),
                };
            }
            let ids: Vec<&str> = ids.into_iter().collect();
            if !ids.is_empty() {
                tx.execute(sql.clone(), params![&consumer, json(&ids), now]).await?;
            }
            Ok(Settled { changed: ids.len(), dead: 0, refused: refused.into_iter().collect() })
        };
        self.db.write(acknowledge).await
    }

    /// Settles what `token` holds of `receipts` as failed.
    pub(super) async fn refuse(
        &self,
        consumer: &str,
        token: &TokenId,
        receipts: &[Receipt],
        now: Timestamp,
        delay: Option<Duration>,
        chance: u64,
    ) -> Result<Settled, Error> {
        let engine = self.db.engine();
        let sql = format!(
            "UPDATE event_outbox_delivery SET status = ?3, attempts = ?4, last_error = '{REFUSED}',
                 next_attempt_at = COALESCE(?5, next_attempt_at), claimed_until = NULL, token = NULL
             WHERE consumer = ?1 AND COALESCE(status, '') = 'pending' AND {}",
            dialect::is_among(engine, "row_id", "?2")
        );
        let (consumer, token, receipts, policy) = (consumer.to_owned(), token.clone(), receipts.to_vec(), self.policy);
        let refuse = async move |tx: &Tx| -> Result<Settled, Error> {
            let held = held(tx, &consumer, &token, &receipts, now).await?;
            let (mut by_attempts, mut unheld) = (BTreeMap::<u32, BTreeSet<&str>>::new(), BTreeSet::new());
            for receipt in &receipts {
                match held.get(&receipt.id).filter(|held| held.pending && held.is_meant_by(receipt)) {
                    Some(held) => by_attempts.entry(held.attempts).or_default().insert(&receipt.id),
                    None => unheld.insert(receipt.id.clone()),
                };
            }
            let mut settled = Settled { refused: unheld.into_iter().collect(), ..Settled::default() };
            for (attempts, ids) in by_attempts {
                let ids: Vec<&str> = ids.into_iter().collect();
                let (attempts, retry) = refused(attempts, now, &policy, delay, chance);
                let status = if retry.is_some() { DeliveryStatus::Pending } else { DeliveryStatus::Dead };
                settled.changed += ids.len();
                settled.dead += if retry.is_some() { 0 } else { ids.len() };
                let params = params![&consumer, json(&ids), status.as_str(), attempts, retry];
                tx.execute(sql.clone(), params).await?;
            }
            Ok(settled)
        };
        self.db.write(refuse).await
    }
}

impl Held {
    fn is_meant_by(&self, receipt: &Receipt) -> bool {
        receipt.attempt.is_none_or(|attempt| attempt == self.attempts.saturating_add(1))
    }
}

/// What `token` holds at `now` or has acknowledged of `receipts`, locked until the transaction ends.
async fn held(
    tx: &Tx,
    consumer: &str,
    token: &TokenId,
    receipts: &[Receipt],
    now: Timestamp,
) -> Result<HashMap<String, Held>, Error> {
    let engine = tx.engine();
    let sql = format!(
        "SELECT row_id, attempts, status FROM event_outbox_delivery
         WHERE consumer = ?1 AND token = ?2 AND {}
           AND (status = 'dispatched' OR (COALESCE(status, '') = 'pending' AND claimed_until > ?4))
         ORDER BY row_id{}",
        dialect::is_among(engine, "row_id", "?3"),
        dialect::for_update(engine)
    );
    let ids: Vec<&String> = receipts.iter().map(|receipt| &receipt.id).collect();
    let mut held = HashMap::new();
    for row in tx.query(sql, params![consumer, token.as_str(), json(&ids), now]).await? {
        let attempts = u32::try_from(row.get::<i64>("attempts")?).unwrap_or(u32::MAX);
        let pending = row.get::<DeliveryStatus>("status")? == DeliveryStatus::Pending;
        held.insert(row.get("row_id")?, Held { attempts, pending });
    }
    Ok(held)
}

#[cfg(test)]
mod tests;

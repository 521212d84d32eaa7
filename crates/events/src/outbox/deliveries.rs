//! The transitions of deliveries as statements. Each is one statement, so that it is atomic without a transaction
//! around it, and each that an owner runs asks for the owner's lease.

use std::collections::HashMap;
use std::sync::Arc;

use gatewright_base::Budget;
use gatewright_db::{Db, Engine, Error, Row, Sql, Value, dialect, params};
use jiff::Timestamp;

use super::consumer::Declared;
use super::payloads::{Payloads, Read};
use super::transition::{DeliveryStatus, Lease, Policy, later, renewed};
use super::{Consumer, Event, ordered};

/// Pending, written so that no index is used: a held delivery is found by its key. Without statistics, a planner would
/// otherwise read all pending deliveries of a consumer.
const PENDING: &str = "COALESCE(status, '') = 'pending'";

const FAILED: &str = "UPDATE event_outbox_delivery SET status = ?1, attempts = ?2, last_error = ?3,
    next_attempt_at = COALESCE(?4, next_attempt_at), claimed_until = NULL, relay = NULL
    WHERE row_id = ?5 AND consumer = ?6 AND COALESCE(status, '') = 'pending' AND claimed_until = ?7 AND relay = ?8";

/// The statements of a relay for its consumers.
pub(super) struct Deliveries {
    pub(super) db: Db,
    /// This relay's name in the deliveries that it holds. A lease is valid only together with it: a lease of a dead
    /// relay may be assigned again before its end.
    relay: String,
    /// Name, type, entity and order of each consumer. No entity and no order are empty texts.
    declared: Vec<Value>,
    missing: Sql,
    expand: Sql,
    claim: Sql,
    claim_ordered: Sql,
    defer: Sql,
    settle: Sql,
    renew: Sql,
    release: Sql,
    payloads: Payloads,
}

/// A delivery that was claimed.
#[derive(Debug, Clone)]
pub(super) struct Claimed {
    pub(super) event: Event,
    pub(super) attempts: u32,
    pub(super) lease: Lease,
}

/// Deliveries that were claimed at once.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) claimed: Vec<Claimed>,
    /// How many were given back, because their payloads do not fit into memory.
    pub(super) left: usize,
}

/// Bytes of payloads that are claimed at once, in addition to one of any size.
const CLAIMED_BYTES: usize = 1 << 20;

/// A row that is pending, and whether a consumer of this relay lacks its delivery.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PendingRow {
    pub(super) id: String,
    pub(super) created_at: Timestamp,
    pub(super) missing: bool,
}

impl Deliveries {
    pub(super) fn new(db: Db, relay: String, consumers: &[Declared], budget: Budget) -> Self {
        let engine = db.engine();
        let of = |consumer: &Declared| {
            let (entity, ordered) =
                (consumer.entity.as_deref().unwrap_or_default(), if consumer.ordered { "1" } else { "" });
            params![&*consumer.name, &*consumer.event_type, entity, ordered]
        };
        let declared: Vec<Value> = consumers.iter().flat_map(of).collect();
        let mine = declared_as_c(consumers.len());
        let after = declared.len();
        let (p1, p2, p3) = (after + 1, after + 2, after + 3);
        let missing = format!(
            "WITH {mine}
             SELECT r.id, r.created_at, EXISTS (SELECT 1 FROM c WHERE {TAKES} AND NOT EXISTS (
                 SELECT 1 FROM event_outbox_delivery d WHERE d.row_id = r.id AND d.consumer = c.consumer)) AS missing
             FROM event_outbox r WHERE r.status = 'pending' AND (r.created_at, r.id) > (?{p1}, ?{p2})
             ORDER BY r.created_at, r.id LIMIT ?{p3}"
        );
        // A relay that marks the row as dispatched has locked it. This statement waits for it, and then skips the row.
        let expand = format!(
            "WITH {mine}
             INSERT INTO event_outbox_delivery (row_id, consumer, status, attempts, created_at, next_attempt_at,
                 record_key, position)
             SELECT r.id, c.consumer, 'pending', 0, {now}, CASE
                 WHEN r.due_at > {now} THEN r.due_at WHEN r.created_at < {now} THEN r.created_at ELSE {now} END,
                 CASE WHEN c.ordered = '' THEN NULL ELSE r.record_key END, r.position
             FROM event_outbox r JOIN c ON {TAKES}
             WHERE COALESCE(r.status, '') = 'pending' AND {ids}{share}
             ON CONFLICT (row_id, consumer) DO NOTHING",
            now = typed_time(engine, p1),
            ids = dialect::is_among(engine, "r.id", &format!("?{p2}")),
            share = dialect::for_share(engine),
        );
        let claim = format!(
            "WITH due AS MATERIALIZED (
                 SELECT d.row_id FROM event_outbox_delivery d
                 WHERE d.status = 'pending' AND d.consumer = ?1 AND d.next_attempt_at <= ?2
                   AND (d.claimed_until IS NULL OR d.claimed_until <= ?2)
                   AND EXISTS (SELECT 1 FROM event_outbox r WHERE r.id = d.row_id AND r.type = ?3)
                 ORDER BY d.next_attempt_at, d.row_id LIMIT ?4{lock})
             UPDATE event_outbox_delivery SET claimed_until = ?5, relay = ?6
             WHERE consumer = ?1 AND row_id IN (SELECT row_id FROM due)
             RETURNING row_id, attempts",
            lock = dialect::for_update_skip_locked(engine),
        );
        let owned = |set: &str| {
            format!(
                "UPDATE event_outbox_delivery SET {set} WHERE consumer = ?1 AND claimed_until = ?2 AND relay = ?4
                 AND {PENDING} AND {} RETURNING row_id",
                dialect::is_among(engine, "row_id", "?3")
            )
        };
        Self {
            missing: missing.into(),
            expand: expand.into(),
            claim: claim.into(),
            claim_ordered: ordered::claim(engine).into(),
            defer: ordered::defer(engine).into(),
            settle: owned("status = 'dispatched', dispatched_at = ?5, claimed_until = NULL, relay = NULL").into(),
            renew: owned("claimed_until = ?5").into(),
            release: owned("claimed_until = NULL, relay = NULL").into(),
            payloads: Payloads::new(&db, budget),
            declared,
            relay,
            db,
        }
    }

    /// The next `limit` pending rows after the one at `created_at` with `id`.
    pub(super) async fn pending(
        &self,
        created_at: Timestamp,
        id: &str,
        limit: usize,
    ) -> Result<Vec<PendingRow>, Error> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.db.query(&self.missing, self.with_declared(params![created_at, id, limit])).await?;
        let read = |row: &Row| {
            Ok(PendingRow { id: row.get("id")?, created_at: row.get("created_at")?, missing: row.get("missing")? })
        };
        rows.iter().map(read).collect()
    }

    /// Creates the missing deliveries of the rows with these ids. Returns how many were created.
    pub(super) async fn expand(&self, ids: &[String], now: Timestamp) -> Result<u64, Error> {
        if self.declared.is_empty() || ids.is_empty() {
            return Ok(0);
        }
        self.db.execute(&self.expand, self.with_declared(params![now, json(ids)])).await
    }

    /// Takes up to `limit` deliveries that are due, those of the oldest rows first, and reads the payloads that fit into memory.
    /// The others are given back.
    pub(super) async fn claim(
        &self,
        consumer: &Consumer,
        limit: usize,
        now: Timestamp,
        policy: &Policy,
    ) -> Result<Batch, Error> {
        let lease = later(now, policy.lease);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params = params![&*consumer.name, now, &*consumer.event_type, limit, lease, &self.relay];
        let claim = if consumer.ordered { &self.claim_ordered } else { &self.claim };
        let claimed = self.db.write_rows(claim, params).await?;
        if consumer.ordered && claimed.len() < usize::try_from(limit).unwrap_or(usize::MAX) {
            let due = later(now, ordered::LATER);
            self.db.execute(&self.defer, params![&*consumer.name, now, &*consumer.event_type, due]).await?;
        }
        if claimed.is_empty() {
            return Ok(Batch::default());
        }
        let attempts: HashMap<String, i64> =
            claimed.iter().map(|row| Ok((row.get("row_id")?, row.get("attempts")?))).collect::<Result<_, Error>>()?;
        let ids: Vec<&String> = attempts.keys().collect();
        let holder = format!("consumer {}", consumer.name);
        let Read { rows, rest } = self.payloads.read(&self.db, &ids, &holder, CLAIMED_BYTES).await?;
        if !rest.is_empty() {
            self.release(&consumer.name, lease, &rest).await?;
        }
        let claimed = rows.into_iter().map(|row| {
            let attempts = attempts.get(&row.id).map_or(0, |attempts| u32::try_from(*attempts).unwrap_or(0));
            let event = Event::of(row, consumer.event_type.clone(), attempts.saturating_add(1));
            Claimed { event, attempts, lease }
        });
        Ok(Batch { claimed: claimed.collect(), left: rest.len() })
    }

    /// Settles deliveries whose handlers succeeded. Returns those that still belonged to the lease.
    pub(super) async fn succeeded(
        &self,
        consumer: &str,
        lease: Lease,
        ids: &[Arc<str>],
        now: Timestamp,
    ) -> Result<Vec<String>, Error> {
        self.owned(&self.settle, params![consumer, lease, json(ids), &self.relay, now]).await
    }

    /// Settles a delivery whose handler failed: at `retry` again, or dead. Returns whether it still belonged to the
    /// lease.
    pub(super) async fn failed(
        &self,
        consumer: &str,
        lease: Lease,
        id: &str,
        attempts: u32,
        retry: Option<Timestamp>,
        error: &str,
    ) -> Result<bool, Error> {
        let status = if retry.is_some() { DeliveryStatus::Pending } else { DeliveryStatus::Dead };
        let params = params![status.as_str(), attempts, error, retry, id, consumer, lease, &self.relay];
        let changed = self.db.execute(FAILED, params).await?;
        Ok(changed > 0)
    }

    /// Renews leases. Returns the new lease and the deliveries that still belonged to the old one.
    pub(super) async fn renew(
        &self,
        consumer: &str,
        lease: Lease,
        ids: &[Arc<str>],
        now: Timestamp,
        policy: &Policy,
    ) -> Result<(Lease, Vec<String>), Error> {
        let new = renewed(lease, now, policy);
        Ok((new, self.owned(&self.renew, params![consumer, lease, json(ids), &self.relay, new]).await?))
    }

    /// Gives deliveries back unhandled.
    pub(super) async fn release(
        &self,
        consumer: &str,
        lease: Lease,
        ids: &[impl AsRef<str>],
    ) -> Result<Vec<String>, Error> {
        self.owned(&self.release, params![consumer, lease, json(ids), &self.relay]).await
    }

    /// Writes a sign of life: a number that this relay has not written before.
    pub(super) async fn beat(&self, beats: i64) -> Result<(), Error> {
        const BEAT: &str = "INSERT INTO event_outbox_relay (id, beats) VALUES (?1, ?2)
            ON CONFLICT (id) DO UPDATE SET beats = excluded.beats";
        self.db.execute(BEAT, params![&self.relay, beats]).await.map(|_| ())
    }

    /// The other relays that hold deliveries, each with its last number.
    pub(super) async fn holders(&self) -> Result<Vec<(String, i64)>, Error> {
        const HOLDERS: &str = "SELECT h.relay, COALESCE(r.beats, 0) AS beats FROM (
                SELECT DISTINCT relay FROM event_outbox_delivery WHERE relay IS NOT NULL AND relay <> ?1) h
            LEFT JOIN event_outbox_relay r ON r.id = h.relay";
        let rows = self.db.query(HOLDERS, params![&self.relay]).await?;
        rows.iter().map(|row| Ok((row.get("relay")?, row.get("beats")?))).collect()
    }

    /// Releases the deliveries of a relay that has written no other number than `beats`. Returns how many.
    pub(super) async fn take_over(&self, relay: &str, beats: i64) -> Result<u64, Error> {
        const GIVE_BACK: &str = "UPDATE event_outbox_delivery SET claimed_until = NULL, relay = NULL WHERE relay = ?1
            AND NOT EXISTS (SELECT 1 FROM event_outbox_relay r WHERE r.id = ?1 AND r.beats <> ?2)";
        const FORGET: &str = "DELETE FROM event_outbox_relay WHERE id = ?1 AND beats = ?2";
        let deliveries = self.db.execute(GIVE_BACK, params![relay, beats]).await?;
        self.db.execute(FORGET, params![relay, beats]).await?;
        Ok(deliveries)
    }

    /// Removes this relay's row.
    pub(super) async fn forget_relay(&self) -> Result<(), Error> {
        self.db.execute("DELETE FROM event_outbox_relay WHERE id = ?1", params![&self.relay]).await.map(|_| ())
    }

    /// Removes the rows of relays that hold nothing: dead ones, and idle ones that write a new row as soon as they hold a
    /// delivery again.
    pub(super) async fn forget_idle_relays(&self) -> Result<u64, Error> {
        const IDLE: &str = "DELETE FROM event_outbox_relay WHERE id NOT IN (
            SELECT relay FROM event_outbox_delivery WHERE relay IS NOT NULL)";
        self.db.execute(IDLE, vec![]).await
    }

    async fn owned(&self, sql: &Sql, params: Vec<Value>) -> Result<Vec<String>, Error> {
        self.db.write_rows(sql, params).await?.iter().map(|row| row.get("row_id")).collect()
    }

    fn with_declared(&self, params: Vec<Value>) -> Vec<Value> {
        self.declared.iter().cloned().chain(params).collect()
    }

    /// Name, type, entity and order of each consumer, for statements that begin with [`declared_as_c`].
    pub(super) fn declared(&self) -> &[Value] {
        &self.declared
    }
}

/// Whether the consumer `c` takes the row `r`. Rows of earlier servers do not name their entity.
pub(super) const TAKES: &str = "c.type = r.type AND (c.entity = '' OR r.entity IS NULL OR c.entity = r.entity)";

/// The parameters of one consumer in [`declared_as_c`].
pub(super) const PARAMETERS: usize = 4;

/// The declared consumers as the common table `c (consumer, type, entity, ordered)`, in the first placeholders.
pub(super) fn declared_as_c(consumers: usize) -> String {
    if consumers == 0 {
        return "c (consumer, type, entity, ordered) AS (SELECT id, type, type, type FROM event_outbox WHERE 1 = 0)"
            .to_owned();
    }
    let first = |index: usize| PARAMETERS * index + 1;
    let values: Vec<_> = (0..consumers)
        .map(|index| {
            format!("(?{}, ?{}, ?{}, ?{})", first(index), first(index) + 1, first(index) + 2, first(index) + 3)
        })
        .collect();
    format!("c (consumer, type, entity, ordered) AS (VALUES {})", values.join(", "))
}

/// Texts as one JSON array.
pub(super) fn json<T: AsRef<str>>(texts: &[T]) -> String {
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    serde_json::to_string(&texts).expect("texts can be written as JSON")
}

/// A placeholder with the type of a time, even if the context does not determine the type.
pub(super) fn typed_time(engine: Engine, placeholder: usize) -> String {
    gatewright_db::column_types(&format!("CAST(?{placeholder} AS {{time}})"), engine)
}

#[cfg(test)]
mod tests;

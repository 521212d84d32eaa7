//! The transitions of rows, and of deliveries without a handler.

use gatewright_db::{Error, Tx, Value, dialect, params};
use jiff::Timestamp;

use super::deliveries::{Deliveries, PARAMETERS, TAKES, declared_as_c, json};

/// Rows in one transaction.
pub(super) const BATCH: usize = 500;

/// Old deliveries of a consumer and type that this relay does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unknown {
    pub(super) consumer: String,
    pub(super) event_type: String,
    /// Changes with everything that a replica with a handler does with one of them.
    pub(super) trace: (i64, Option<Timestamp>, String, String),
}

impl Deliveries {
    /// Marks rows as dispatched that were staged at or before `cutoff` and have no delivery pending, nor one to come for
    /// a consumer of this relay. Returns how many.
    pub(super) async fn complete(&self, cutoff: Timestamp, now: Timestamp) -> Result<u64, Error> {
        let engine = self.db.engine();
        let after = self.declared().len();
        let mine = declared_as_c(after / PARAMETERS);
        let open = format!(
            "EXISTS (SELECT 1 FROM event_outbox_delivery d WHERE d.row_id = r.id AND d.status = 'pending')
             OR EXISTS (SELECT 1 FROM c WHERE {TAKES} AND NOT EXISTS (
                 SELECT 1 FROM event_outbox_delivery d WHERE d.row_id = r.id AND d.consumer = c.consumer))"
        );
        let (p1, p2) = (after + 1, after + 2);
        let candidates = format!(
            "WITH {mine} SELECT r.id FROM event_outbox r WHERE r.status = 'pending' AND r.created_at <= ?{p1}
             AND (r.due_at IS NULL OR r.due_at <= ?{p1}) AND NOT ({open}) ORDER BY r.created_at LIMIT ?{p2}"
        );
        let limit = i64::try_from(BATCH).unwrap_or(i64::MAX);
        let with = |params: Vec<Value>| self.declared().iter().cloned().chain(params).collect::<Vec<_>>();
        let found = self.db.query(candidates, with(params![cutoff, limit])).await?;
        let ids: Vec<String> = found.iter().map(|row| row.get("id")).collect::<Result<_, Error>>()?;
        if ids.is_empty() {
            return Ok(0);
        }
        // Locks the rows first; the next statement sees everything that was committed before: an earlier expansion or
        // replay is seen, and a later one waits.
        let hold = format!(
            "SELECT id FROM event_outbox WHERE COALESCE(status, '') = 'pending' AND {}{}",
            dialect::is_among(engine, "id", "?1"),
            dialect::for_update_skip_locked(engine)
        );
        let mark = format!(
            "WITH {mine} UPDATE event_outbox AS r SET status = 'dispatched', dispatched_at = ?{p1}
             WHERE COALESCE(r.status, '') = 'pending' AND {} AND NOT ({open})",
            dialect::is_among(engine, "r.id", &format!("?{p2}"))
        );
        let declared = self.declared().to_vec();
        let ids = json(&ids);
        self.db
            .write(async move |tx: &Tx| -> Result<u64, Error> {
                let rows = tx.query(hold.clone(), params![&ids]).await?;
                let ids: Vec<String> = rows.iter().map(|row| row.get("id")).collect::<Result<_, Error>>()?;
                let params = declared.iter().cloned().chain(params![now, json(&ids)]).collect();
                tx.execute(mark.clone(), params).await
            })
            .await
    }

    /// Deletes rows that were dispatched at or before `cutoff`, with their deliveries, if all of these were delivered.
    /// Returns how many.
    pub(super) async fn purge(&self, cutoff: Timestamp) -> Result<u64, Error> {
        let engine = self.db.engine();
        let old = format!(
            "SELECT r.id FROM event_outbox r
             WHERE r.status = 'dispatched' AND r.created_at <= ?1 AND COALESCE(r.dispatched_at, r.created_at) <= ?1
             AND NOT EXISTS (SELECT 1 FROM event_outbox_delivery d WHERE d.row_id = r.id AND d.status <> 'dispatched')
             ORDER BY r.created_at LIMIT ?2{}",
            dialect::for_update_skip_locked(engine)
        );
        let delete = |table: &str, column: &str| {
            format!("DELETE FROM {table} WHERE {}", dialect::is_among(engine, column, "?1"))
        };
        let (deliveries, rows) = (delete("event_outbox_delivery", "row_id"), delete("event_outbox", "id"));
        let limit = i64::try_from(BATCH).unwrap_or(i64::MAX);
        self.db
            .write(async move |tx: &Tx| -> Result<u64, Error> {
                let old = tx.query(old.clone(), params![cutoff, limit]).await?;
                let ids: Vec<String> = old.iter().map(|row| row.get("id")).collect::<Result<_, Error>>()?;
                if ids.is_empty() {
                    return Ok(0);
                }
                tx.execute(deliveries.clone(), params![json(&ids)]).await?;
                tx.execute(rows.clone(), params![json(&ids)]).await
            })
            .await
    }

    /// Sets the due time of deliveries that an earlier program created without one.
    pub(super) async fn set_due(&self) -> Result<(), Error> {
        const WHERE: &str = "WHERE status = 'pending' AND next_attempt_at IS NULL";
        let first = format!("SELECT row_id FROM event_outbox_delivery {WHERE} LIMIT 1");
        if self.db.query_opt(first, vec![]).await?.is_some() {
            let set = format!("UPDATE event_outbox_delivery SET next_attempt_at = created_at {WHERE}");
            self.db.execute(set, vec![]).await?;
        }
        Ok(())
    }

    /// The consumers that this relay does not know and that have deliveries pending since `cutoff`.
    pub(super) async fn unknown(&self, cutoff: Timestamp) -> Result<Vec<Unknown>, Error> {
        let after = self.declared().len();
        let sql = format!(
            "WITH {} SELECT d.consumer, r.type, COUNT(*) AS pending, MAX(d.claimed_until) AS claimed_until,
                 MIN(d.row_id) AS first, MAX(d.row_id) AS last
             FROM event_outbox_delivery d JOIN event_outbox r ON r.id = d.row_id
             WHERE d.status = 'pending' AND d.next_attempt_at <= ?{p} AND d.created_at <= ?{p}
               AND NOT EXISTS (SELECT 1 FROM c WHERE c.consumer = d.consumer AND c.type = r.type)
             GROUP BY d.consumer, r.type",
            declared_as_c(after / PARAMETERS),
            p = after + 1
        );
        let params = self.declared().iter().cloned().chain(params![cutoff]).collect();
        let rows = self.db.query(sql, params).await?;
        let read = |row: &gatewright_db::Row| {
            Ok(Unknown {
                consumer: row.get("consumer")?,
                event_type: row.get("type")?,
                trace: (row.get("pending")?, row.get("claimed_until")?, row.get("first")?, row.get("last")?),
            })
        };
        rows.iter().map(read).collect()
    }

    /// Abandons deliveries of `unknown` that were made at or before `cutoff` and are not claimed, at most [`BATCH`].
    /// Returns how many.
    pub(super) async fn abandon(&self, unknown: &Unknown, cutoff: Timestamp, now: Timestamp) -> Result<u64, Error> {
        self.db
            .execute(
                format!(
                    "UPDATE event_outbox_delivery SET status = 'abandoned', claimed_until = NULL, relay = NULL
                     WHERE consumer = ?1 AND status = 'pending' AND (claimed_until IS NULL OR claimed_until <= ?3)
                     AND row_id IN (
                         SELECT d.row_id FROM event_outbox_delivery d JOIN event_outbox r ON r.id = d.row_id
                         WHERE d.consumer = ?1 AND d.status = 'pending' AND d.created_at <= ?2
                         AND d.next_attempt_at <= ?2 AND (d.claimed_until IS NULL OR d.claimed_until <= ?3)
                         AND r.type = ?4 LIMIT {BATCH})"
                ),
                params![&unknown.consumer, cutoff, now, &unknown.event_type],
            )
            .await
    }
}

//! The operators' interface.

use std::collections::BTreeMap;

use gatewright_db::{Error, Row, Tx, Value, dialect, params, readable};
use jiff::Timestamp;
use serde::Serialize;

use super::{DeliveryStatus, Outbox, RowStatus, room};

/// The rows to list.
#[derive(Debug, Clone, Copy)]
pub struct ListRows {
    /// Rows with this status; absent: all.
    pub status: Option<RowStatus>,
    /// The most rows to return, 1 to 500.
    pub limit: u32,
    /// How many rows to skip.
    pub offset: u32,
}

impl Default for ListRows {
    fn default() -> Self {
        Self { status: None, limit: 50, offset: 0 }
    }
}

/// A row, without its payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RowRecord {
    /// Its id.
    pub id: String,
    /// Its event type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Its status.
    pub status: RowStatus,
    /// When it was staged.
    pub created_at: Timestamp,
    /// When it was marked as dispatched.
    pub dispatched_at: Option<Timestamp>,
}

/// A delivery of a row to a consumer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryRecord {
    /// The row.
    pub row_id: String,
    /// The consumer.
    pub consumer: String,
    /// Its status.
    pub status: DeliveryStatus,
    /// How often its handler failed.
    pub attempts: i64,
    /// The text of the last failure.
    pub last_error: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// The time of the next attempt.
    pub next_attempt_at: Option<Timestamp>,
    /// The end of the lease of a relay.
    pub claimed_until: Option<Timestamp>,
    /// When its handler returned without an error.
    pub dispatched_at: Option<Timestamp>,
}

/// Counts of rows and deliveries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// The bytes of all rows.
    pub bytes: u64,
    /// Rows by status.
    pub rows: BTreeMap<String, i64>,
    /// Deliveries by consumer and status.
    pub consumers: BTreeMap<String, BTreeMap<String, i64>>,
    /// For each consumer with pending deliveries, the age of their oldest row, in seconds.
    pub lag_seconds: BTreeMap<String, i64>,
    /// The age of the oldest row with a pending delivery, or that no relay has seen, in seconds. `None` if nothing is
    /// to be delivered. A row itself stays pending for a while after its last delivery.
    pub oldest_pending_seconds: Option<i64>,
}

/// Why nothing was replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// There is no such row.
    #[error("there is no outbox row {0}")]
    NoRow(String),
    /// The row has no delivery for the consumer.
    #[error("the outbox row {row} has no delivery for {consumer}")]
    NoDelivery {
        /// The row.
        row: String,
        /// The consumer.
        consumer: String,
    },
    /// The database refused.
    #[error(transparent)]
    Database(#[from] Error),
}

impl Outbox {
    /// Rows, newest first.
    pub async fn list(&self, list: ListRows) -> Result<Vec<RowRecord>, Error> {
        const COLUMNS: &str = "SELECT id, type, status, created_at, dispatched_at FROM event_outbox";
        const ORDER: &str = "ORDER BY created_at DESC, id DESC";
        let (limit, offset) = (i64::from(list.limit.clamp(1, 500)), i64::from(list.offset));
        let rows = match list.status {
            None => self.0.db.query(format!("{COLUMNS} {ORDER} LIMIT ?1 OFFSET ?2"), params![limit, offset]).await?,
            Some(status) => {
                let sql = format!("{COLUMNS} WHERE status = ?1 {ORDER} LIMIT ?2 OFFSET ?3");
                self.0.db.query(sql, params![status.as_str(), limit, offset]).await?
            }
        };
        readable("event_outbox", &rows, row_record)
    }

    /// The deliveries of a row, by consumer; `None` when there is no such row.
    pub async fn list_deliveries(&self, row_id: &str) -> Result<Option<Vec<DeliveryRecord>>, Error> {
        let row_id = row_id.to_owned();
        self.0
            .db
            .read(async move |tx: &Tx| -> Result<_, Error> {
                let row = tx.query_opt("SELECT id FROM event_outbox WHERE id = ?1", params![&row_id]).await?;
                if row.is_none() {
                    return Ok(None);
                }
                let deliveries = tx
                    .query(
                        "SELECT row_id, consumer, status, attempts, last_error, created_at, next_attempt_at,
                             claimed_until, dispatched_at
                         FROM event_outbox_delivery WHERE row_id = ?1 ORDER BY consumer",
                        params![&row_id],
                    )
                    .await?;
                readable("event_outbox_delivery", &deliveries, delivery_record).map(Some)
            })
            .await
    }

    /// Delivers all dead and abandoned deliveries of a row again, with the full number of attempts. Returns how many.
    pub async fn replay(&self, row_id: &str) -> Result<u64, ReplayError> {
        self.reset(row_id, None).await
    }

    /// Delivers a row's dead or abandoned delivery to one consumer again. Returns 0 if it is neither.
    pub async fn replay_consumer(&self, row_id: &str, consumer: &str) -> Result<u64, ReplayError> {
        self.reset(row_id, Some(consumer)).await
    }

    async fn reset(&self, row_id: &str, consumer: Option<&str>) -> Result<u64, ReplayError> {
        const RESET: &str = "UPDATE event_outbox_delivery
            SET status = 'pending', attempts = 0, last_error = NULL, next_attempt_at = ?1, claimed_until = NULL,
                dispatched_at = NULL, token = NULL, relay = NULL
            WHERE row_id = ?2 AND status IN ('dead', 'abandoned')";
        let (row_id, consumer, now) = (row_id.to_owned(), consumer.map(str::to_owned), self.now());
        let reset = self.0.db.write(async move |tx: &Tx| -> Result<u64, ReplayError> {
            let hold = format!("SELECT id FROM event_outbox WHERE id = ?1{}", dialect::for_update(tx.engine()));
            if tx.query_opt(hold, params![&row_id]).await?.is_none() {
                return Err(ReplayError::NoRow(row_id.clone()));
            }
            let reset = match &consumer {
                None => tx.execute(RESET, params![now, &row_id]).await?,
                Some(consumer) => {
                    let known = tx
                        .query_opt(
                            "SELECT status FROM event_outbox_delivery WHERE row_id = ?1 AND consumer = ?2",
                            params![&row_id, consumer],
                        )
                        .await?;
                    if known.is_none() {
                        return Err(ReplayError::NoDelivery { row: row_id.clone(), consumer: consumer.clone() });
                    }
                    tx.execute(format!("{RESET} AND consumer = ?3"), params![now, &row_id, consumer]).await?
                }
            };
            if reset > 0 {
                tx.execute(
                    "UPDATE event_outbox SET status = 'pending', dispatched_at = NULL WHERE id = ?1",
                    params![&row_id],
                )
                .await?;
            }
            Ok(reset)
        });
        let reset = reset.await?;
        if reset > 0
            && let Err(error) = self.notify_relays().await
        {
            tracing::debug!(%error, "other replicas were not notified of a replay");
        }
        Ok(reset)
    }

    /// Counts of rows and deliveries. Reads both tables whole.
    pub async fn stats(&self) -> Result<Stats, Error> {
        let (rows, deliveries, unseen) = self
            .0
            .db
            .read(async move |tx: &Tx| -> Result<_, Error> {
                let rows = "SELECT status, COUNT(*) AS rows FROM event_outbox GROUP BY status";
                let deliveries = "SELECT consumer, status, COUNT(*) AS rows FROM event_outbox_delivery
                     GROUP BY consumer, status";
                // If no relay has expanded a row yet, it has no deliveries.
                let unseen = "SELECT MIN(r.created_at) AS oldest FROM event_outbox r WHERE r.status = 'pending'
                     AND NOT EXISTS (SELECT 1 FROM event_outbox_delivery d WHERE d.row_id = r.id)";
                let unseen = tx.query_opt(unseen, vec![]).await?;
                Ok((tx.query(rows, vec![]).await?, tx.query(deliveries, vec![]).await?, unseen))
            })
            .await?;
        let bytes = room::table(&self.0.db).await?;
        let mut stats = Stats { bytes, lag_seconds: self.lag_seconds().await?, ..Stats::default() };
        let unseen = unseen.map(|row| row.get::<Option<Timestamp>>("oldest")).transpose()?.flatten();
        let unseen = unseen.map(|oldest| self.now().duration_since(oldest).as_secs().max(0));
        stats.oldest_pending_seconds = stats.lag_seconds.values().copied().chain(unseen).max();
        for row in &rows {
            stats.rows.insert(row.get("status")?, row.get("rows")?);
        }
        for row in &deliveries {
            let consumer: String = row.get("consumer")?;
            stats.consumers.entry(consumer).or_default().insert(row.get("status")?, row.get("rows")?);
        }
        Ok(stats)
    }

    /// For each consumer with pending deliveries, the age of their oldest row, in seconds. Reads only pending
    /// deliveries, so it can be called often.
    pub async fn lag_seconds(&self) -> Result<BTreeMap<String, i64>, Error> {
        let oldest = "SELECT d.consumer, MIN(COALESCE(r.due_at, r.created_at)) AS oldest FROM event_outbox_delivery d
             JOIN event_outbox r ON r.id = d.row_id WHERE d.status = 'pending' GROUP BY d.consumer";
        let now = self.now();
        let lag = |row: &Row| {
            let oldest: Timestamp = row.get("oldest")?;
            Ok((row.get("consumer")?, now.duration_since(oldest).as_secs().max(0)))
        };
        self.0.db.query(oldest, Vec::<Value>::new()).await?.iter().map(lag).collect()
    }
}

fn row_record(row: &Row) -> Result<RowRecord, Error> {
    Ok(RowRecord {
        id: row.get("id")?,
        event_type: row.get("type")?,
        status: row.get("status")?,
        created_at: row.get("created_at")?,
        dispatched_at: row.get("dispatched_at")?,
    })
}

pub(super) fn delivery_record(row: &Row) -> Result<DeliveryRecord, Error> {
    Ok(DeliveryRecord {
        row_id: row.get("row_id")?,
        consumer: row.get("consumer")?,
        status: row.get("status")?,
        attempts: row.get("attempts")?,
        last_error: row.get("last_error")?,
        created_at: row.get("created_at")?,
        next_attempt_at: row.get("next_attempt_at")?,
        claimed_until: row.get("claimed_until")?,
        dispatched_at: row.get("dispatched_at")?,
    })
}

//! Deliveries that are not dispatched, for operators who search for failures.

use std::collections::BTreeMap;

use gatewright_db::{Error, Lane, ReadablePage, Share, Tx, Value};

use super::admin::{DeliveryRecord, delivery_record};
use super::{DeliveryStatus, Outbox};

/// The deliveries to list. They must meet all given conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListDeliveries {
    /// Deliveries with this status; absent: those that failed at least once and are not done.
    pub status: Option<DeliveryStatus>,
    /// Deliveries to this consumer.
    pub consumer: Option<String>,
    /// Deliveries after this one in the list, by row and consumer.
    pub after: Option<(String, String)>,
    /// The most deliveries to return, 1 to 200.
    pub limit: u32,
}

impl Outbox {
    /// For each consumer, how many deliveries are pending, dead and abandoned. Reads only those, by an index.
    pub async fn unsettled(&self) -> Result<BTreeMap<String, BTreeMap<String, i64>>, Error> {
        let sql = "SELECT consumer, status, COUNT(*) AS deliveries FROM event_outbox_delivery
             WHERE status IN ('pending', 'dead', 'abandoned') GROUP BY consumer, status";
        let mut consumers = BTreeMap::<String, BTreeMap<String, i64>>::new();
        for row in &self.bounded(sql.to_owned(), Vec::new()).await? {
            let consumer: String = row.get("consumer")?;
            consumers.entry(consumer).or_default().insert(row.get("status")?, row.get("deliveries")?);
        }
        Ok(consumers)
    }

    /// Deliveries, those of the newest rows first.
    pub async fn list_unsettled(&self, list: &ListDeliveries) -> Result<Vec<DeliveryRecord>, Error> {
        let mut params: Vec<Value> = Vec::new();
        let mut conditions = vec![match list.status {
            Some(status) => {
                params.push(status.as_str().into());
                "status = ?1".to_owned()
            }
            None => "(status = 'dead' OR (status = 'pending' AND attempts > 0))".to_owned(),
        }];
        if let Some(consumer) = &list.consumer {
            params.push(consumer.as_str().into());
            conditions.push(format!("consumer = ?{}", params.len()));
        }
        if let Some((row, consumer)) = &list.after {
            params.extend([row.as_str().into(), consumer.as_str().into()]);
            conditions.push(format!("(row_id, consumer) < (?{}, ?{})", params.len() - 1, params.len()));
        }
        let sql = format!(
            "SELECT row_id, consumer, status, attempts, last_error, created_at, next_attempt_at, claimed_until,
                 dispatched_at
             FROM event_outbox_delivery WHERE {} ORDER BY row_id DESC, consumer DESC LIMIT ?{}",
            conditions.join(" AND "),
            params.len() + 1
        );
        let mut page = ReadablePage::new("event_outbox_delivery", list.limit.clamp(1, 200));
        loop {
            let params = params.iter().cloned().chain([Value::Int(page.asked())]).collect();
            page.add_all(&self.bounded(sql.clone(), params).await?, delivery_record)?;
            match page.finish()? {
                Ok(found) => return Ok(found),
                Err(longer) => page = longer,
            }
        }
    }

    /// A read with a time limit that delays no other caller.
    async fn bounded(&self, sql: String, params: Vec<Value>) -> Result<Vec<gatewright_db::Row>, Error> {
        let db = self.0.db.clone().lane(Lane::Lists(Share(u64::MAX)));
        db.read(async move |tx: &Tx| -> Result<_, Error> { tx.query(sql.clone(), params.clone()).await }).await
    }
}

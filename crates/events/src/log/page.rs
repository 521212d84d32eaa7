use gatewright_db::{Db, Error, Lane, Row, Share, Tx, Value, params};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::EventLog;
use crate::{EntityEvent, EventKind};

/// Rows read at a time.
pub(super) const PAGE: usize = 256;
/// Bytes of records after which a page ends.
const PAGE_BYTES: usize = 4 << 20;

/// Some of a table's events, in the order of their positions.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) events: Vec<EntityEvent>,
    /// The last position that was read.
    pub(crate) next: i64,
    /// There may be more after it.
    pub(crate) more: bool,
    /// The last position that was removed from the log.
    pub(crate) swept_to: i64,
    /// The greatest position that is known.
    pub(crate) last: i64,
}

pub(super) const COLUMNS: &str = "l.position, l.id, l.type, l.entity, l.table_name, l.tenant_id, l.owner_id, l.origin,
    l.read_before, COALESCE(l.record, '') AS record";

/// The share of these reads in the lane of lists: together they count as one caller.
const CATCHING_UP: Share = Share(u64::MAX);

impl EventLog {
    /// The database in the lane of lists: pages are large, and must not delay sign-ins and reads of single records.
    fn lists(&self) -> Db {
        self.db().clone().lane(Lane::Lists(CATCHING_UP))
    }

    /// The events of `table` after `position` that have been committed.
    pub(crate) async fn page(&self, table: &str, position: i64) -> Result<Page, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM event_log l WHERE l.table_name = ?1 AND l.position > ?2 ORDER BY l.position LIMIT {PAGE}"
        );
        let table = table.to_owned();
        let (rows, swept_to, last) = self
            .lists()
            .read(async move |tx: &Tx| -> Result<_, Error> {
                let rows = tx.query(sql.clone(), params![&table, position]).await?;
                // After the rows, so that `swept_to` includes rows that were removed before they were read.
                let state = "SELECT swept_to, COALESCE((SELECT MAX(position) FROM event_log), swept_to) AS last
                             FROM event_log_state";
                let state = tx.query_opt(state, vec![]).await?;
                let (swept_to, last) = match &state {
                    Some(row) => (row.get::<i64>("swept_to")?, row.get::<i64>("last")?),
                    None => (0, 0),
                };
                Ok((rows, swept_to, last))
            })
            .await?;
        let full = rows.len() >= PAGE;
        let mut rows = self.with_staged(rows).await?;
        let mut bytes = 0;
        let fits = rows.iter().position(|(_, record)| {
            bytes += record.as_ref().map_or(0, String::len);
            bytes > PAGE_BYTES
        });
        let end = fits.map_or(rows.len(), |over| over.max(1));
        let more = full || end < rows.len();
        rows.truncate(end);
        // A missing record counts like a missing event.
        let gone = rows.iter().rev().find(|(_, record)| record.is_none());
        let swept_to = gone.map_or(Ok(swept_to), |(row, _)| row.get("position").map(|at: i64| at.max(swept_to)))?;
        let next = rows.last().map_or(Ok(position), |(row, _)| row.get("position"))?;
        let whole = rows.iter().filter_map(|(row, record)| Some((row, record.clone()?)));
        let events = whole.map(|(row, record)| event(row, record)).collect::<Result<_, Error>>()?;
        Ok(Page { events, next, more, swept_to, last: last.max(swept_to) })
    }

    /// The rows with their records. Records that are only in the outbox are read from there. Absent if the record was
    /// removed.
    pub(super) async fn with_staged(&self, rows: Vec<Row>) -> Result<Vec<(Row, Option<String>)>, Error> {
        let mut staged = Vec::new();
        for row in &rows {
            if row.get::<String>("record")?.is_empty() {
                staged.push(row.get::<String>("id")?);
            }
        }
        let mut payloads = std::collections::HashMap::new();
        if !staged.is_empty() {
            let among = gatewright_db::dialect::is_among(self.engine(), "id", "?1");
            let ids = Value::Text(serde_json::Value::from(staged).to_string());
            let sql = format!("SELECT id, payload FROM event_outbox WHERE {among}");
            for row in self.lists().query(sql, vec![ids]).await? {
                payloads.insert(row.get::<String>("id")?, row.get::<Option<String>>("payload")?.unwrap_or_default());
            }
        }
        let mut whole = Vec::with_capacity(rows.len());
        for row in rows {
            let record: String = row.get("record")?;
            let record = if record.is_empty() {
                payloads.get(&row.get::<String>("id")?).and_then(|payload| record_of(payload))
            } else {
                Some(record)
            };
            whole.push((row, record));
        }
        Ok(whole)
    }
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow)]
    record: &'a RawValue,
}

fn record_of(payload: &str) -> Option<String> {
    serde_json::from_str::<Payload<'_>>(payload).ok().map(|payload| payload.record.get().to_owned())
}

/// The event of a row.
pub(super) fn event(row: &Row, record: String) -> Result<EntityEvent, Error> {
    let kind: String = row.get("type")?;
    let kind = EventKind::parse(&kind).unwrap_or(EventKind::Updated);
    let event = EntityEvent::new(kind, row.get::<String>("entity")?, row.get::<String>("table_name")?, record);
    let event = match row.get::<Option<String>>("tenant_id")? {
        Some(tenant) => event.with_tenant(tenant),
        None => event,
    };
    let event = match row.get::<Option<String>>("owner_id")? {
        Some(owner) => event.with_owner(owner),
        None => event,
    };
    let event = match row.get::<Option<String>>("read_before")? {
        Some(before) => event.with_before(before),
        None => event,
    };
    Ok(event.with_place(row.get::<String>("id")?, row.get("position")?))
}

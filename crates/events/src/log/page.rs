//! Rows of the log: their sizes first, then the records that fit.

use std::collections::HashMap;
use std::sync::Arc;

use gatewright_base::{Fitting, Lease};
use gatewright_db::{Db, Error, Lane, RowRef, Share, Tx, Value, dialect, params};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::EventLog;
use crate::{EntityEvent, EventKind};

/// Rows examined at a time.
pub(super) const PAGE: usize = 256;
/// Bytes of records after which a page ends. The first record of a page may be larger.
pub(super) const PAGE_BYTES: usize = 1 << 20;
/// How often a record is in memory while its page is used: as read, and in the two forms of its frame.
const COPIES: usize = 3;
/// The approximate size of an event without its record.
pub(crate) const BESIDE: usize = 512;

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
    /// The bytes that the events take, with their frames.
    pub(crate) lease: Lease,
}

/// Why a page was not read.
#[derive(Debug)]
pub(crate) enum Unread {
    Database(Error),
    /// The budget of memory has no room for these bytes at the moment.
    NoRoom(usize),
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

/// A row whose record is not read yet.
#[derive(Debug, Clone)]
pub(super) struct SizedRow {
    pub(super) position: i64,
    pub(super) id: String,
    bytes: usize,
    /// The record is only in the outbox.
    is_staged: bool,
}

/// A row with its event; without one if the record was removed.
pub(super) struct Logged {
    pub(super) position: i64,
    pub(super) origin: String,
    pub(super) event: Option<EntityEvent>,
}

/// The share of these reads in the lane of lists: together they count as one caller.
const CATCHING_UP: Share = Share(u64::MAX);

impl EventLog {
    /// The database in the lane of lists: pages are large, and must not delay sign-ins and reads of single records.
    fn lists(&self) -> Db {
        self.db().clone().lane(Lane::Lists(CATCHING_UP))
    }

    /// The events of `tables` after `position` that have been committed, as many as fit. Their bytes are taken from the
    /// share of `holder` before they are read.
    pub(crate) async fn page(&self, tables: &Arc<[Arc<str>]>, position: i64, holder: &str) -> Result<Page, Unread> {
        let (log, tables, holder) = (self.clone(), tables.clone(), holder.to_owned());
        let read = async move |tx: &Tx| log.read_page(tx, &tables, position, &holder).await;
        self.lists().read(read).await
    }

    async fn read_page(&self, tx: &Tx, tables: &[Arc<str>], position: i64, holder: &str) -> Result<Page, Unread> {
        let (condition, after) = after(tables, position);
        let sized = self.sizes(tx, &condition, after, PAGE).await?;
        let is_full = sized.len() >= PAGE;
        let fitting = fitting(sized);
        let mut lease = self.0.options.budget.lease(Some(holder));
        let bytes = fitting.bytes.saturating_mul(COPIES);
        lease.grow_undivided(bytes).map_err(|_| Unread::NoRoom(bytes))?;
        let next = fitting.taken.last().map_or(position, |row| row.position);
        let more = is_full || !fitting.rest.is_empty();
        let rows = self.records(tx, &fitting.taken).await?;
        // After the rows, so that `swept_to` includes rows that were removed before they were read.
        let state = "SELECT swept_to, COALESCE((SELECT MAX(position) FROM event_log), swept_to) AS last
                     FROM event_log_state";
        let (swept_to, last) = match tx.query_opt(state, vec![]).await? {
            Some(row) => (row.get::<i64>("swept_to")?, row.get::<i64>("last")?),
            None => (0, 0),
        };
        // A missing record counts like a missing event.
        let gone = rows.iter().rev().find(|row| row.event.is_none());
        let swept_to = gone.map_or(swept_to, |row| row.position.max(swept_to));
        let events = rows.into_iter().filter_map(|row| row.event).collect();
        Ok(Page { events, next, more, swept_to, last: last.max(swept_to), lease })
    }

    /// The sizes of the first rows, at most `most`, that meet a condition.
    pub(super) async fn sizes(
        &self,
        tx: &Tx,
        condition: &str,
        params: Vec<Value>,
        most: usize,
    ) -> Result<Vec<SizedRow>, Error> {
        let [record, before] = ["l.record", "l.read_before"].map(|column| dialect::byte_length(self.engine(), column));
        let sql = format!(
            "SELECT l.position, l.id, COALESCE({record}, 0) AS record_bytes, COALESCE({before}, 0) AS before_bytes
             FROM event_log l WHERE {condition} ORDER BY l.position LIMIT {most}"
        );
        let each = |sized: &mut Vec<SizedRow>, row: &RowRef<'_>| {
            let (record, before) = (bytes(row.get(2)?), bytes(row.get(3)?));
            sized.push(SizedRow {
                position: row.get(0)?,
                id: row.get(1)?,
                bytes: record + before + BESIDE,
                is_staged: record == 0,
            });
            Ok(())
        };
        let mut sized = tx.fold(sql, params, Vec::new(), each).await?;
        let staged = staged(&sized);
        if !staged.is_empty() {
            let among = dialect::is_among(self.engine(), "id", "?1");
            let length = dialect::byte_length(self.engine(), "payload");
            let sql = format!("SELECT id, COALESCE({length}, 0) FROM event_outbox WHERE {among}");
            let each = |lengths: &mut HashMap<String, usize>, row: &RowRef<'_>| {
                lengths.insert(row.get(0)?, bytes(row.get(1)?));
                Ok(())
            };
            let lengths = tx.fold(sql, vec![json(&staged)], HashMap::new(), each).await?;
            for row in &mut sized {
                row.bytes += lengths.get(&row.id).copied().unwrap_or(0);
            }
        }
        Ok(sized)
    }

    /// Reads the records of rows whose sizes are known. Those that are only in the outbox are read from there.
    pub(super) async fn records(&self, tx: &Tx, rows: &[SizedRow]) -> Result<Vec<Logged>, Error> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let staged = staged(rows);
        let mut records = HashMap::new();
        if !staged.is_empty() {
            let among = dialect::is_among(self.engine(), "id", "?1");
            // Bytes: of rows that fit.
            let sql = format!("SELECT id, payload FROM event_outbox WHERE {among}");
            let each = |records: &mut HashMap<String, String>, row: &RowRef<'_>| {
                let payload: Option<String> = row.get(1)?;
                if let Some(record) = payload.as_deref().and_then(record_of) {
                    records.insert(row.get(0)?, record);
                }
                Ok(())
            };
            records = tx.fold(sql, vec![json(&staged)], records, each).await?;
        }
        let among = dialect::is_among_integers(self.engine(), "l.position", "?1");
        let positions: Vec<i64> = rows.iter().map(|row| row.position).collect();
        // Bytes: of rows that fit.
        let sql = format!(
            "SELECT l.position, l.origin, l.id, l.type, l.entity, l.table_name, l.tenant_id, l.owner_id, l.read_before,
                 COALESCE(l.record, '') AS record
             FROM event_log l WHERE {among} ORDER BY l.position"
        );
        let positions = Value::Text(serde_json::Value::from(positions).to_string());
        let rows = Vec::with_capacity(rows.len());
        let read = (rows, records);
        let (rows, _) = tx
            .fold(sql, vec![positions], read, |(rows, records), row| {
                rows.push(logged(row, records)?);
                Ok(())
            })
            .await?;
        Ok(rows)
    }
}

/// The condition of the first rows of these tables after a position, [`PAGE`] of each, and its parameters. Each table's are found in
/// its own part of an index.
fn after(tables: &[Arc<str>], position: i64) -> (String, Vec<Value>) {
    let mut params = params![position];
    params.extend(tables.iter().map(|table| Value::from(&**table)));
    let of = |number: usize| format!("table_name = ?{number} AND position > ?1");
    if tables.len() == 1 {
        return (of(2), params);
    }
    let first = |number: usize| {
        let of = of(number + 2);
        format!(
            "SELECT position FROM (SELECT position FROM event_log WHERE {of} ORDER BY position LIMIT {PAGE}) AS t{number}"
        )
    };
    let firsts: Vec<_> = (0..tables.len()).map(first).collect();
    (format!("l.position IN ({})", firsts.join(" UNION ALL ")), params)
}

/// The first rows whose records fit into a page.
pub(super) fn fitting(sized: Vec<SizedRow>) -> Fitting<SizedRow> {
    Fitting::of(sized.into_iter().map(|row| (row.clone(), row.bytes)), PAGE_BYTES)
}

fn bytes(length: i64) -> usize {
    usize::try_from(length).unwrap_or(0)
}

fn staged(rows: &[SizedRow]) -> Vec<&str> {
    rows.iter().filter(|row| row.is_staged).map(|row| &*row.id).collect()
}

fn json(ids: &[&str]) -> Value {
    Value::Text(serde_json::Value::from(ids).to_string())
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow)]
    record: &'a RawValue,
}

fn record_of(payload: &str) -> Option<String> {
    serde_json::from_str::<Payload<'_>>(payload).ok().map(|payload| payload.record.get().to_owned())
}

fn logged(row: &RowRef<'_>, staged: &mut HashMap<String, String>) -> Result<Logged, Error> {
    let (position, id) = (row.get(0)?, row.get::<String>(2)?);
    let record = Some(row.get::<String>(9)?).filter(|record| !record.is_empty()).or_else(|| staged.remove(&id));
    let event = match record {
        Some(record) => Some(event(row, record)?.with_place(id, position)),
        None => None,
    };
    Ok(Logged { position, origin: row.get(1)?, event })
}

/// The event of a row, without its place.
fn event(row: &RowRef<'_>, record: String) -> Result<EntityEvent, Error> {
    let kind = EventKind::parse(&row.get::<String>(3)?).unwrap_or(EventKind::Updated);
    let event = EntityEvent::new(kind, row.get::<String>(4)?, row.get::<String>(5)?, record);
    let event = match row.get::<Option<String>>(6)? {
        Some(tenant) => event.with_tenant(tenant),
        None => event,
    };
    let event = match row.get::<Option<String>>(7)? {
        Some(owner) => event.with_owner(owner),
        None => event,
    };
    Ok(match row.get::<Option<String>>(8)? {
        Some(before) => event.with_before(before),
        None => event,
    })
}

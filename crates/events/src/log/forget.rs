use std::collections::HashSet;
use std::ops::Range;

use gatewright_base::UserId;
use gatewright_db::{Error, RowRef, Tx, Value as Param, dialect, params};
use serde_json::{Value, json};

use super::EventLog;
use super::page::fitting;
use crate::forgotten::{RecordKey, emptied, gone_of};
use crate::{EventKind, Forget};

/// Positions that one statement looks through, and rows that it answers.
const RANGE: i64 = 5_000;
const ROWS: usize = 200;

impl EventLog {
    /// Removes a deleted account from the events of its records, and the contents of records that were deleted with it.
    /// Streams that resume from before these events get the rest. It reads the whole log, in short steps.
    pub async fn forget_owner(&self, user: &UserId, what: Forget) -> Result<(), Error> {
        let ends = "SELECT COALESCE(MIN(position), 0) AS first, COALESCE(MAX(position), 0) AS last FROM event_log";
        let ends = self.db().query_opt(ends, vec![]).await?;
        let (first, last) = ends.map_or(Ok((0, 0)), |row| Ok((row.get("first")?, row.get("last")?)))?;
        let ranges = || (first..=last).step_by(usize::try_from(RANGE).unwrap_or(usize::MAX));
        let mut deleted = HashSet::new();
        for first in ranges() {
            self.find_deleted(user, first, &mut deleted).await?;
            tokio::task::yield_now().await;
        }
        let gone = gone_of(self.db(), deleted).await?;
        let mut tables: Vec<&str> = gone.iter().map(|key| &*key.table).collect();
        tables.sort_unstable();
        tables.dedup();
        let tables = serde_json::json!(tables).to_string();
        // In this order, so that the delete event is changed last: it names the account, and is the last event of its
        // record.
        for first in ranges() {
            let mut from = Some(first);
            while let Some(first_left) = from {
                from = self.forget_range(user, what, (&gone, &tables), first_left..first + RANGE).await?;
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// The records whose delete event names the account.
    async fn find_deleted(&self, user: &UserId, first: i64, found: &mut HashSet<RecordKey>) -> Result<(), Error> {
        let condition = "l.position >= ?1 AND l.position < ?2 AND l.owner_id = ?3 AND l.type = ?4";
        let mut from = Some(first);
        while let Some(first_left) = from {
            let params = params![first_left, first + RANGE, user.as_str(), EventKind::Deleted.as_str()];
            let (rows, next) = self.some(condition, params).await?;
            found.extend(rows.iter().filter_map(Logged::key));
            from = next;
        }
        Ok(())
    }

    /// Removes the account's data from some rows. Returns the position from which there may be more.
    async fn forget_range(
        &self,
        user: &UserId,
        what: Forget,
        (gone, tables): (&HashSet<RecordKey>, &str),
        range: Range<i64>,
    ) -> Result<Option<i64>, Error> {
        let condition = format!(
            "l.position >= ?1 AND l.position < ?2 AND (l.owner_id = ?3 OR (l.owner_id IS NULL AND {}))",
            dialect::is_among(self.engine(), "l.table_name", "?4")
        );
        let (rows, next) = self.some(&condition, params![range.start, range.end, user.as_str(), tables]).await?;
        let next = next.filter(|next| *next < range.end);
        let mut changed = Vec::new();
        for logged in rows {
            let is_gone = logged.key().is_some_and(|key| gone.contains(&key));
            let is_emptied = is_gone || (logged.is_owned && what == Forget::Contents);
            if is_emptied || logged.is_owned {
                // A row without its own record uses that of the outbox.
                let record = logged.record.filter(|_| is_emptied).map(|record| emptied(&record).to_string());
                changed.push((logged.position, record));
            }
        }
        if changed.is_empty() {
            return Ok(next);
        }
        let forget = async move |tx: &Tx| -> Result<(), Error> {
            for (position, record) in &changed {
                let sql = "UPDATE event_log SET owner_id = NULL, read_before = NULL, record = COALESCE(?2, record) \
                           WHERE position = ?1";
                tx.execute(sql, params![*position, record.as_deref()]).await?;
            }
            Ok(())
        };
        self.db().write(forget).await?;
        Ok(next)
    }

    /// The first rows that meet a condition, as many as fit, and the position from which there may be more.
    async fn some(&self, condition: &str, params: Vec<Param>) -> Result<(Vec<Logged>, Option<i64>), Error> {
        let (log, condition) = (self.clone(), condition.to_owned());
        let read = async move |tx: &Tx| -> Result<_, Error> {
            let sized = log.sizes(tx, &condition, params.clone(), ROWS).await?;
            let is_full = sized.len() == ROWS;
            let fitting = fitting(sized);
            let is_cut = is_full || !fitting.rest.is_empty();
            let next = fitting.taken.last().filter(|_| is_cut).map(|row| row.position + 1);
            // Bytes: of rows that fit.
            let sql = format!(
                "SELECT l.position, l.table_name, COALESCE(l.record, ''),
                     CASE WHEN l.owner_id IS NULL THEN 0 ELSE 1 END
                 FROM event_log l WHERE {}",
                dialect::is_among_integers(log.engine(), "l.position", "?1")
            );
            let positions: Vec<i64> = fitting.taken.iter().map(|row| row.position).collect();
            let each = |rows: &mut Vec<Logged>, row: &RowRef<'_>| {
                rows.push(Logged::read(row)?);
                Ok(())
            };
            Ok((tx.fold(sql, params![json!(positions).to_string()], Vec::new(), each).await?, next))
        };
        self.db().read(read).await
    }
}

/// The record that a row is about.
#[derive(Clone)]
struct Logged {
    position: i64,
    table: String,
    record: Option<Value>,
    is_owned: bool,
}

impl Logged {
    fn read(row: &RowRef<'_>) -> Result<Self, Error> {
        let record: String = row.get(2)?;
        let record = serde_json::from_str(&record).ok();
        Ok(Self { position: row.get(0)?, table: row.get(1)?, record, is_owned: row.get::<i64>(3)? != 0 })
    }

    fn key(&self) -> Option<RecordKey> {
        RecordKey::of(&self.table, self.record.as_ref()?)
    }
}

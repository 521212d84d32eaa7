use std::collections::HashSet;
use std::ops::Range;

use gatewright_base::UserId;
use gatewright_db::{Error, Row, Tx, dialect, params};
use serde_json::Value;

use super::EventLog;
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
        let sql = "SELECT table_name, COALESCE(record, '') AS record FROM event_log \
                   WHERE position >= ?1 AND position < ?2 AND owner_id = ?3 AND type = ?4";
        let deleted = EventKind::Deleted.as_str();
        for row in self.db().query(sql, params![first, first + RANGE, user.as_str(), deleted]).await? {
            found.extend(Logged::read(&row)?.key());
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
        let sql = format!(
            "SELECT position, table_name, COALESCE(record, '') AS record, \
             CASE WHEN owner_id IS NULL THEN 0 ELSE 1 END AS is_owned FROM event_log \
             WHERE position >= ?1 AND position < ?2 AND (owner_id = ?3 OR (owner_id IS NULL AND {})) \
             ORDER BY position LIMIT {ROWS}",
            dialect::is_among(self.engine(), "table_name", "?4")
        );
        let (mut changed, mut next) = (Vec::new(), None);
        let rows = self.db().query(sql, params![range.start, range.end, user.as_str(), tables]).await?;
        let is_full = rows.len() == ROWS;
        for row in rows {
            next = Some(row.get::<i64>("position")? + 1).filter(|next| is_full && *next < range.end);
            let logged = Logged::read(&row)?;
            let is_gone = logged.key().is_some_and(|key| gone.contains(&key));
            let is_owned = row.get::<i64>("is_owned")? != 0;
            let is_emptied = is_gone || (is_owned && what == Forget::Contents);
            if is_emptied || is_owned {
                // A row without its own record uses that of the outbox.
                let record = logged.record.filter(|_| is_emptied).map(|record| emptied(&record).to_string());
                changed.push((row.get::<i64>("position")?, record));
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
}

/// The record that a row is about.
struct Logged {
    table: String,
    record: Option<Value>,
}

impl Logged {
    fn read(row: &Row) -> Result<Self, Error> {
        let record: String = row.get("record")?;
        Ok(Self { table: row.get("table_name")?, record: serde_json::from_str(&record).ok() })
    }

    fn key(&self) -> Option<RecordKey> {
        RecordKey::of(&self.table, self.record.as_ref()?)
    }
}

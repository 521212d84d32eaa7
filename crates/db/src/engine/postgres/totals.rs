//! Counts that connections for lists cache; the counting statement itself checks whether they are valid.
//!
//! A snapshot contains every transaction that it does not see, so two equal snapshots see the same rows. The statement
//! compares its own snapshot with that of the cached count, and counts only if they differ: one round trip in either case. A
//! cached count ends with its connection. So if a server was restored to an earlier state and reuses transaction numbers, it
//! counts again. For servers that are not PostgreSQL itself, are standbys, or may keep rows elsewhere, every request counts:
//! their snapshots do not contain all transactions.

use super::connection::Connection;
use super::decode;
use crate::engine::totals;
use crate::row::ValueRef;
use crate::{Error, Sql, Value};

/// Whether all rows are under the transactions of this server.
const IS_WHOLE: &str = "SELECT version() ~ '^PostgreSQL [0-9.]+ ' AND version() !~* 'greenplum' AND NOT pg_is_in_recovery() \
    AND NOT EXISTS (SELECT 1 FROM pg_am WHERE amtype = 't' AND amname <> 'heap') \
    AND NOT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus') AND NOT EXISTS (SELECT 1 FROM pg_foreign_table)";

impl Connection {
    /// The one number that `sql` selects.
    pub(super) async fn count(&self, sql: &Sql, params: &[Value]) -> Result<i64, Error> {
        let key = if self.has_whole_snapshots().await? { totals::key(sql, params) } else { None };
        let Some(key) = key else {
            return decode::fold(&self.query(sql, params).await?, 0, |number, row| {
                if let ValueRef::Int(value) = row.value(0)? {
                    *number = value;
                }
                Ok(())
            });
        };
        let known = self.totals().lock().known(&key).map(|(snapshot, count)| (snapshot.clone(), count));
        let mut params = params.to_vec();
        params.push(Value::Text(known.as_ref().map_or_else(String::new, |(snapshot, _)| snapshot.clone())));
        let rows = self.query(&unless_known(sql, params.len()), &params).await?;
        let (snapshot, counted) = decode::fold(&rows, (String::new(), None), |(snapshot, counted), row| {
            if let ValueRef::Text(text) = row.value(0)? {
                *snapshot = text.into_owned();
            }
            if let ValueRef::Int(value) = row.value(1)? {
                *counted = Some(value);
            }
            Ok(())
        })?;
        match known {
            Some((of, count)) if of == snapshot => Ok(count),
            _ => {
                let count = counted.unwrap_or_default();
                self.totals().lock().keep(snapshot, key, count);
                Ok(count)
            }
        }
    }

    /// Whether equal snapshots see the same rows. Behind a pooler, the server may be a different one in each
    /// transaction.
    async fn has_whole_snapshots(&self) -> Result<bool, Error> {
        if self.is_pooled() {
            return Ok(false);
        }
        let is_whole = self.is_whole().get_or_try_init(async || {
            let answer = self.simple(IS_WHOLE).await?;
            Ok::<_, Error>(answer.first().and_then(Option::as_deref) == Some("t"))
        });
        is_whole.await.copied()
    }
}

/// Selects the snapshot, and the number if the snapshot is another than the parameter at `place`. Postgres evaluates the
/// number's query only where CASE asks for it.
fn unless_known(sql: &Sql, place: usize) -> Sql {
    let snapshot = "pg_current_snapshot()::text";
    format!("SELECT {snapshot}, CASE WHEN {snapshot} = ?{place} THEN NULL ELSE ({sql}) END").into()
}

//! Histories in the database: shared by all replicas, kept across restarts.
//!
//! One statement per attempt inserts or updates the key's row by the rule of [`decide`](crate::policy::decide), with the
//! database's own clock; the row's lock makes parallel attempts take turns. Times are integers of microseconds, and a
//! row's marks are one text with [`DIGITS`] for each, since both engines handle these equally.

use std::fmt;
use std::time::Duration;

use gatewright_base::Ambient;
use gatewright_db::{Db, Engine, Error as DatabaseError, MigrateError, Sql, Step, Tx, dialect, migrate, params};

use super::blocks::Blocks;
use super::{Blocked, Store, StoreError, StoreFuture};
use crate::policy::{Counted, History, give_back};
use crate::{Key, Policy, Verdict};

/// A store in the table `rate_limits`.
///
/// A key that is blocked is refused from memory for up to a second at a time, so that hammering it costs the database
/// next to nothing.
pub struct SqlStore {
    db: Db,
    attempt: Sql,
    sweep: Sql,
    blocks: Blocks,
}

impl SqlStore {
    /// The component's name and the steps that make its table, for the program's schema plan.
    pub const SCHEMA: (&'static str, &'static [Step]) = ("limits", STEPS);

    /// A store in `db`, whose table must exist: see [`SqlStore::migrate`].
    pub fn new(db: Db, ambient: Ambient) -> Self {
        let engine = db.engine();
        Self { attempt: attempt_sql(engine).into(), sweep: sweep_sql(engine).into(), blocks: Blocks::new(ambient), db }
    }

    /// Makes the table, if it is not there.
    pub async fn migrate(db: &Db) -> Result<(), MigrateError> {
        let (component, steps) = Self::SCHEMA;
        migrate(db, component, steps).await.map(|_| ())
    }

    async fn decide(&self, key: &Key, policy: &Policy) -> Result<(Verdict, i64), StoreError> {
        if let Some(retry_after) = self.blocks.remaining(key) {
            return Ok((Verdict::Blocked { retry_after }, 0));
        }
        let params = params![
            key.as_str(),
            policy.window_micros(),
            policy.max_attempts(),
            policy.block_micros(),
            policy.attempts_per_mark(),
            policy.marks(),
        ];
        let rows = self.db.write_rows(&self.attempt, params).await.map_err(StoreError::new)?;
        let row = rows.first().ok_or_else(|| StoreError::new("the statement returned no row"))?;
        match row.get::<Option<i64>>("wait").map_err(StoreError::new)? {
            None => Ok((Verdict::Admitted, row.get("last_at").map_err(StoreError::new)?)),
            Some(wait) => {
                let retry_after = Duration::from_micros(u64::try_from(wait).unwrap_or_default());
                self.blocks.note(key, retry_after);
                Ok((Verdict::Blocked { retry_after }, 0))
            }
        }
    }

    /// Reads the row, and replaces it if it counts: under its lock, so that attempts in between are not lost.
    async fn take_back(&self, key: &Key, policy: Policy, at: i64) -> Result<(), DatabaseError> {
        let now = dialect::now_micros(self.db.engine());
        let lock = dialect::for_update(self.db.engine());
        let read: Sql = format!(
            "SELECT last_at, loose, marks, {now} AS now FROM rate_limits WHERE key = ?1 AND blocked_until IS NULL{lock}"
        )
        .into();
        let key = key.clone();
        let back = async move |tx: &Tx| -> Result<(), DatabaseError> {
            let Some(row) = tx.query_opt(&read, params![key.as_str()]).await? else { return Ok(()) };
            let marks: String = row.get("marks")?;
            let times = marks.as_bytes().chunks(DIGITS).map(|time| std::str::from_utf8(time).ok()?.parse().ok());
            // Anything else was not written by a limiter, and does not count back.
            let Some(times) = times.collect::<Option<Vec<i64>>>() else { return Ok(()) };
            let loose = u32::try_from(row.get::<i64>("loose")?).unwrap_or_default();
            let before = History::Counting(Counted::new(row.get("last_at")?, loose, &times));
            let after = give_back(&policy, before.clone(), at, row.get("now")?);
            let History::Counting(counted) = after.clone() else { return Ok(()) };
            if after != before {
                let marks = counted.marks().iter().fold(String::new(), |marks, time| format!("{marks}{time:0DIGITS$}"));
                tx.execute(
                    "UPDATE rate_limits SET loose = ?2, marks = ?3 WHERE key = ?1",
                    params![key.as_str(), counted.loose(), marks],
                )
                .await?;
            }
            Ok(())
        };
        self.db.write(back).await
    }
}

impl Store for SqlStore {
    fn count<'a>(&'a self, key: &'a Key, policy: &'a Policy) -> StoreFuture<'a, (Verdict, i64)> {
        Box::pin(self.decide(key, policy))
    }

    fn give_back<'a>(&'a self, key: &'a Key, policy: &'a Policy, at: i64) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.take_back(key, *policy, at).await.map_err(StoreError::new) })
    }

    fn forget<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let forgotten = self.db.execute("DELETE FROM rate_limits WHERE key = ?1", params![key.as_str()]).await;
            self.blocks.forget(key);
            forgotten.map(|_| ()).map_err(StoreError::new)
        })
    }

    fn sweep(&self) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let mut swept = 0;
            loop {
                let count = self.db.execute(&self.sweep, params![]).await.map_err(StoreError::new)?;
                swept += count;
                if count < SWEPT_AT_ONCE {
                    return Ok(swept);
                }
            }
        })
    }

    fn blocked(&self, limit: u32) -> StoreFuture<'_, Option<Vec<Blocked>>> {
        Box::pin(async move {
            // The end of a blocked row is that of its block, and `ends_at` has an index.
            let now = dialect::now_micros(self.db.engine());
            let sql = format!(
                "SELECT key, blocked_until - {now} AS remaining FROM rate_limits
                 WHERE ends_at > {now} AND blocked_until IS NOT NULL ORDER BY ends_at DESC LIMIT ?1"
            );
            let rows = self.db.query(sql, params![i64::from(limit)]).await.map_err(StoreError::new)?;
            let blocked = rows.iter().map(|row| {
                let remaining: i64 = row.get("remaining").map_err(StoreError::new)?;
                let remaining = Duration::from_micros(u64::try_from(remaining).unwrap_or_default());
                Ok(Blocked { key: row.get("key").map_err(StoreError::new)?, remaining })
            });
            blocked.collect::<Result<_, StoreError>>().map(Some)
        })
    }
}

impl fmt::Debug for SqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlStore").field("db", &self.db).finish_non_exhaustive()
    }
}

const STEPS: &[Step] = &[Step {
    version: 1,
    name: "rate limits",
    sql: "CREATE TABLE rate_limits (
              key {text} PRIMARY KEY,
              last_at {int} NOT NULL,
              loose {int} NOT NULL,
              marks {text} NOT NULL,
              blocked_until {int},
              ends_at {int} NOT NULL
          );
          CREATE INDEX rate_limits_ends_at ON rate_limits (ends_at)",
}];

/// How many digits a mark has: enough for any microsecond before the year 2286.
const DIGITS: usize = 16;

/// `?1` key, `?2` window, `?3` most attempts, `?4` block, `?5` attempts per mark, `?6` most marks. Returns how long the
/// key is blocked for, or null, and the time of the attempt.
///
/// The row `excluded` is that of a new key; the selects name the steps of the rule for a known one, from the innermost
/// outwards. A blocked row has no marks.
fn attempt_sql(engine: Engine) -> String {
    let now = dialect::now_micros(engine);
    let mark_of = |time: &str| format!("substr(CAST(1{:0DIGITS$} + {time} AS TEXT), 2)", 0);
    let fresh_marks = format!("CASE WHEN ?5 = 1 THEN {} ELSE '' END", mark_of(now));
    let newest = mark_of("at");
    let marked = format!("marks || {newest}");
    format!(
        "INSERT INTO rate_limits AS r (key, last_at, loose, marks, blocked_until, ends_at)
         VALUES (?1, {now}, CASE WHEN ?5 = 1 THEN 0 ELSE 1 END, {fresh_marks}, NULL, {now} + ?2)
         ON CONFLICT (key) DO UPDATE SET (last_at, loose, marks, blocked_until, ends_at) = (
             SELECT CASE WHEN until IS NULL THEN at ELSE now END,
                    CASE WHEN until IS NOT NULL OR loose + 1 = ?5 THEN 0 ELSE loose + 1 END,
                    CASE WHEN until IS NOT NULL THEN ''
                         WHEN loose + 1 < ?5 THEN marks
                         WHEN length(marks) < {DIGITS} * ?6 THEN {marked}
                         ELSE substr({marked}, length(marks) - {DIGITS} * (?6 - 1) + 1) END,
                    until,
                    CASE WHEN until IS NULL THEN at + ?2 ELSE until END
             FROM (SELECT now, at, loose, marks,
                          CASE WHEN blocked THEN CASE WHEN blocked_until < now + ?4 THEN blocked_until ELSE now + ?4 END
                               WHEN length(marks) < {DIGITS} * (back + 1) THEN NULL
                               WHEN CAST(substr(marks, length(marks) - {DIGITS} * (back + 1) + 1, {DIGITS}) AS BIGINT) + ?2 > at
                               THEN now + ?4 END AS until
                   FROM (SELECT now, at, loose, marks, blocked, blocked_until, CAST((CAST(?3 AS BIGINT) - 1 - loose) / ?5 AS INTEGER) AS back
                         FROM (SELECT now, blocked, blocked_until,
                                      CASE WHEN live AND last_at > now THEN last_at ELSE now END AS at,
                                      CASE WHEN NOT live THEN 0 WHEN loose < ?5 THEN loose ELSE ?5 - 1 END AS loose,
                                      CASE WHEN live THEN marks ELSE '' END AS marks
                               FROM (SELECT excluded.last_at AS now, r.last_at, r.loose, r.marks, r.blocked_until,
                                            r.blocked_until IS NOT NULL AND r.blocked_until > excluded.last_at AS blocked,
                                            r.blocked_until IS NULL AND r.last_at + ?2 > excluded.last_at
                                                AND r.last_at < excluded.last_at + ?2 AS live
                                    ) AS row
                              ) AS known
                        ) AS reach
                  ) AS decided)
         RETURNING blocked_until - {now} AS wait, last_at"
    )
}

const SWEPT_AT_ONCE: u64 = 1_000;

/// Removes some expired rows, and skips those that another replica is removing. The outer condition is checked again under the row's lock,
/// so that a key that became active again is kept.
fn sweep_sql(engine: Engine) -> String {
    let (now, lock) = (dialect::now_micros(engine), dialect::for_update_skip_locked(engine));
    format!(
        "DELETE FROM rate_limits WHERE ends_at <= {now} AND key IN
             (SELECT key FROM rate_limits WHERE ends_at <= {now} ORDER BY ends_at LIMIT {SWEPT_AT_ONCE}{lock})"
    )
}

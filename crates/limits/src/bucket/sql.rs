//! Buckets in the database, shared by all replicas: one statement per request, with the database's own clock.

use gatewright_db::{Db, Engine, MigrateError, Sql, Step, dialect, migrate, params};

use super::{BucketStore, Level, Rate};
use crate::{Key, StoreError, StoreFuture};

/// Buckets in the table `rate_buckets`.
#[derive(Debug)]
pub struct SqlBuckets {
    db: Db,
    take: Sql,
    sweep: Sql,
}

impl SqlBuckets {
    /// The component's name and the steps that make its table, for the program's schema plan.
    pub const SCHEMA: (&'static str, &'static [Step]) = ("buckets", STEPS);

    /// Buckets in `db`, whose table must exist: see [`SqlBuckets::migrate`].
    pub fn new(db: Db) -> Self {
        let (now, lock) = (dialect::now_micros(db.engine()), dialect::for_update_skip_locked(db.engine()));
        // The outer condition is checked again under the row's lock, so that a bucket in use again is kept.
        let sweep = format!(
            "DELETE FROM rate_buckets WHERE full_at <= {now} AND key IN
                 (SELECT key FROM rate_buckets WHERE full_at <= {now} ORDER BY full_at LIMIT {SWEPT_AT_ONCE}{lock})"
        );
        Self { take: take_sql(db.engine()).into(), sweep: sweep.into(), db }
    }

    /// Makes the table, if it is not there.
    pub async fn migrate(db: &Db) -> Result<(), MigrateError> {
        let (component, steps) = Self::SCHEMA;
        migrate(db, component, steps).await.map(|_| ())
    }
}

impl BucketStore for SqlBuckets {
    fn take<'a>(&'a self, key: &'a Key, rate: &'a Rate) -> StoreFuture<'a, Level> {
        Box::pin(async move {
            let params = params![key.as_str(), rate.interval(), rate.span()];
            let rows = self.db.write_rows(&self.take, params).await.map_err(StoreError::new)?;
            let row = rows.first().ok_or_else(|| StoreError::new("the statement returned no row"))?;
            let admitted = row.get("admitted").map_err(StoreError::new)?;
            Ok(rate.level(admitted, row.get("missing").map_err(StoreError::new)?))
        })
    }

    fn sweep(&self) -> StoreFuture<'_, u64> {
        Box::pin(async {
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
}

const SWEPT_AT_ONCE: u64 = 1_000;

const STEPS: &[Step] = &[Step {
    version: 1,
    name: "rate buckets",
    sql: "CREATE TABLE rate_buckets (
              key {text} PRIMARY KEY,
              asked_at {int} NOT NULL,
              full_at {int} NOT NULL,
              admitted {bool} NOT NULL
          );
          CREATE INDEX rate_buckets_full_at ON rate_buckets (full_at)",
}];

/// `?1` key, `?2` interval, `?3` span: [`Rate::take`] in SQL.
fn take_sql(engine: Engine) -> String {
    let now = dialect::now_micros(engine);
    let asked = "excluded.asked_at";
    let known = format!(
        "(CASE WHEN b.full_at < {asked} THEN {asked} WHEN b.full_at > {asked} + ?3 THEN {asked} + ?3 ELSE b.full_at END)"
    );
    let admitted = format!("({known} + ?2 <= {asked} + ?3)");
    format!(
        "INSERT INTO rate_buckets AS b (key, asked_at, full_at, admitted) VALUES (?1, {now}, {now} + ?2, TRUE)
         ON CONFLICT (key) DO UPDATE SET
             asked_at = {asked},
             full_at = CASE WHEN {admitted} THEN {known} + ?2 ELSE {known} END,
             admitted = {admitted}
         RETURNING admitted, full_at - asked_at AS missing"
    )
}

//! Files that the database and the store do not agree about.

use std::collections::HashSet;

use futures_util::StreamExt;
use gatewright_db::{Error as DatabaseError, params};

use crate::Files;
use crate::store::StoreError;

/// How many rows are read at a time.
const PAGE: i64 = 500;

/// Why files were not compared to their end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The store failed.
    #[error("[storage]: {0}")]
    Store(#[from] StoreError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl Files {
    /// Compares the rows of files with the store and with the records of `tables`. Calls `each` with the id of a file and what is
    /// wrong with it. Nothing is changed.
    pub async fn verify(
        &self,
        tables: &[String],
        mut each: impl FnMut(String, &'static str),
    ) -> Result<(), VerifyError> {
        let mut stored = HashSet::new();
        let mut all = self.0.store.list();
        while let Some(found) = all.next().await {
            let (key, _) = found?;
            let id = key.split('.').next().unwrap_or_default();
            if uuid::Uuid::try_parse(id).is_ok() {
                stored.insert(id.to_owned());
            }
        }
        let mut last = String::new();
        loop {
            let sql = format!("SELECT id, state FROM gatewright_files WHERE id > ?1 ORDER BY id LIMIT {PAGE}");
            let rows = self.0.db.query(sql, params![&last]).await?;
            for row in &rows {
                last = row.get("id")?;
                let is_there = stored.remove(&last);
                if !is_there && matches!(&*row.get::<String>("state")?, "attached" | "staged") {
                    each(last.clone(), "the store lacks its bytes");
                }
            }
            if rows.is_empty() {
                break;
            }
        }
        for id in stored {
            each(id, "the store has bytes that the database does not know");
        }
        for table in tables {
            let quoted = gatewright_db::dialect::quoted(table);
            let sql = format!(
                "SELECT id FROM gatewright_files WHERE state = 'attached' AND table_name = ?1 AND NOT EXISTS \
                 (SELECT 1 FROM {quoted} AS \"_t\" WHERE \"_t\".\"id\" = gatewright_files.record) AND NOT EXISTS \
                 (SELECT 1 FROM {} AS \"_r\" WHERE \"_r\".id = gatewright_files.id) ORDER BY id",
                gatewright_entities::files::RELEASED
            );
            for row in self.0.db.query(sql, params![table]).await? {
                each(row.get("id")?, "its record does not exist");
            }
        }
        Ok(())
    }
}

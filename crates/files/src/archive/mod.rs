//! Backups with files: a tar of the database, the files that it names, and their checksums.
//!
//! The tar has `manifest.json`, `database.db` and `files/ID` for each file, in this order. The files are those of the copied
//! database. While they are read, no server deletes one ([`Hold`]).

mod read;
mod write;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use gatewright_base::Ambient;
use gatewright_db::{Db, Error as DatabaseError, params};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::task::AbortHandle;

use crate::ledger;
use crate::store::StoreError;

pub use read::{Archived, copy_files, is_archive};
pub use write::Archive;

const MANIFEST: &str = "manifest.json";
const DATABASE: &str = "database.db";
const FILES: &str = "files/";
const FORMAT: &str = "gatewright backup";
const VERSION: u32 = 1;
/// The bytes of a block of a tar.
const BLOCK: usize = 512;
/// How long no file is deleted, unless it is extended.
const HELD: Duration = Duration::from_hours(1);

/// Why a backup with files cannot be made or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The store failed.
    #[error("[storage]: {0}")]
    Store(#[from] StoreError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The archive, or what is extracted of it, cannot be read or written.
    #[error("cannot read or write {}: {reason}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The archive is not what `backup` wrote.
    #[error("{} is not a sound backup: {reason}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The problem with it.
        reason: String,
    },
}

/// What an archive says about itself.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: String,
    version: u32,
    database: Content,
    files: Vec<StoredFile>,
    /// Files that the store had lost.
    missing: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Content {
    bytes: u64,
    sha256: String,
}

/// A file whose bytes are in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFile {
    /// Its id.
    pub id: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// Their SHA-256, in hexadecimal digits.
    pub sha256: String,
}

/// Whether a database has the tables of files. The first start with files creates them.
pub async fn has_tables(db: &Db) -> Result<bool, DatabaseError> {
    Ok(gatewright_db::schema::describe(db, "gatewright_files").await?.is_some())
}

/// The files that a database names: those of records, and those that can be attached.
pub async fn stored_files(db: &Db) -> Result<Vec<StoredFile>, DatabaseError> {
    let (mut all, mut last) = (Vec::new(), String::new());
    loop {
        let sql = "SELECT id, size, sha256 FROM gatewright_files WHERE id > ?1 AND state IN ('attached', 'staged') \
                   ORDER BY id LIMIT 1000";
        let rows = db.query(sql, params![&last]).await?;
        for row in &rows {
            last = row.get("id")?;
            let bytes = row.get::<i64>("size")?.unsigned_abs();
            all.push(StoredFile { id: last.clone(), bytes, sha256: row.get("sha256")? });
        }
        if rows.is_empty() {
            return Ok(all);
        }
    }
}

/// The store of the restored database is not taken for that of the database before: what only that one knows is not deleted.
pub async fn forget_store(db: &Db) -> Result<(), DatabaseError> {
    if gatewright_db::schema::describe(db, "gatewright_file_owners").await?.is_some() {
        db.execute("DELETE FROM gatewright_file_owners WHERE owner = 'store'", Vec::new()).await?;
        ledger::release_all(db).await?;
    }
    Ok(())
}

/// As long as this is there, no server deletes a file. Beside that of other backups: each has its own.
#[derive(Debug)]
pub struct Hold {
    db: Db,
    name: String,
    extending: AbortHandle,
    is_ended: bool,
}

impl Hold {
    /// Begins now. It is extended until its end, however long that takes.
    pub async fn begin(db: &Db, now: Timestamp) -> Result<Self, DatabaseError> {
        let name = Ambient::system().uuid().to_string();
        ledger::hold(db, &name, now, ledger::later(now, HELD)).await?;
        let (held, of, begun) = (db.clone(), name.clone(), Instant::now());
        let extending = tokio::spawn(async move {
            loop {
                tokio::time::sleep(HELD / 4).await;
                // What ends it is compared with the database's own times, which the clock of a test may move.
                let until = ledger::later(now, begun.elapsed() + HELD);
                if let Err(error) = ledger::extend_hold(&held, &of, until).await {
                    tracing::warn!(%error, "files are not held for longer; it is tried again");
                }
            }
        });
        Ok(Self { db: db.clone(), name, extending: extending.abort_handle(), is_ended: false })
    }

    /// Ends it.
    pub async fn end(mut self) -> Result<(), DatabaseError> {
        self.extending.abort();
        let ended = ledger::release_hold(&self.db, &self.name).await;
        self.is_ended = ended.is_ok();
        ended
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.extending.abort();
        if self.is_ended {
            return;
        }
        let (db, name) = (self.db.clone(), std::mem::take(&mut self.name));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = ledger::release_hold(&db, &name).await {
                    tracing::debug!(%error, "files are held for a while after a backup");
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn no_backup_ends_the_hold_of_another() {
        for opened in testing::opened().await {
            let (db, name) = (&opened.engine.db, opened.engine.name);
            let id = testing::gone(&opened.files).await;
            let now = Ambient::system().now();
            let (long, short) = (Hold::begin(db, now).await.unwrap(), Hold::begin(db, now).await.unwrap());
            short.end().await.unwrap();
            assert!(ledger::gone(db, now, now, 0).await.unwrap().is_empty(), "{name}");
            let expired = ledger::later(now, HELD);
            assert_eq!(
                ledger::gone(db, now, expired, 0).await.unwrap(),
                std::slice::from_ref(&id),
                "{name}: it expires by itself"
            );
            long.end().await.unwrap();
            assert_eq!(ledger::gone(db, now, now, 0).await.unwrap(), [id], "{name}");
            assert!(ledger::gone(db, now, now, 1).await.unwrap().is_empty(), "{name}");
        }
    }
}

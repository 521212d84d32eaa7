//! Backups with files: a tar of the database, the files that it names, and their checksums.
//!
//! The tar has `manifest.json`, `database.db` and `files/ID` for each file, in this order. The files are those of the copied
//! database. While they are read, no server deletes one ([`hold`](Hold)).

mod read;
mod write;

use std::path::PathBuf;
use std::time::Duration;

use gatewright_db::{Db, Error as DatabaseError, params};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

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
        db.execute("DELETE FROM gatewright_file_owners WHERE owner IN ('store', 'hold')", Vec::new()).await?;
    }
    Ok(())
}

/// As long as this is extended, no server deletes a file.
#[derive(Debug, Clone)]
pub struct Hold {
    db: Db,
    until: Timestamp,
}

impl Hold {
    /// Begins now.
    pub async fn begin(db: &Db, now: Timestamp) -> Result<Self, DatabaseError> {
        let until = ledger::later(now, HELD);
        ledger::hold(db, until).await?;
        Ok(Self { db: db.clone(), until })
    }

    /// Extends it if it ends soon.
    async fn extend(&mut self) -> Result<(), DatabaseError> {
        // What ends it is compared with the database's own times, which the clock of a test may move.
        let until = ledger::later(self.until, HELD / 2);
        ledger::hold(&self.db, until).await?;
        self.until = until;
        Ok(())
    }

    /// What [`extend`](Self::extend) of a copy of this does.
    fn advance(&mut self) {
        self.until = ledger::later(self.until, HELD / 2);
    }

    /// Ends it, unless another backup has extended it.
    pub async fn end(self) -> Result<(), DatabaseError> {
        ledger::release_hold(&self.db, self.until).await
    }
}

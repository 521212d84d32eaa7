//! The task that deletes the bytes of files that nothing has.

use std::time::Duration;

use futures_util::StreamExt;
use gatewright_db::Error as DatabaseError;
use jiff::Timestamp;
use tokio::task::AbortHandle;

use crate::store::StoreError;
use crate::{Files, ledger, resumable, thumbnail, upload};

/// How often the table is read.
const EACH: Duration = Duration::from_secs(5);
/// How often the store is compared with the table.
const COMPARED: Duration = Duration::from_hours(1);
/// How old bytes without a row are before they are deleted. A row is made before its bytes.
const STRAY: Duration = Duration::from_hours(12);

/// The running task. It ends when this is dropped.
#[derive(Debug)]
pub struct Sweeper(AbortHandle);

impl Sweeper {
    /// Starts it. The first sweep is at once.
    pub fn start(files: Files) -> Self {
        let sweep = async move {
            let mut compare_at = tokio::time::Instant::now();
            loop {
                files.sweep().await;
                if tokio::time::Instant::now() >= compare_at {
                    if let Err(error) = files.compare().await {
                        tracing::warn!(%error, "the store of files was not compared with the database");
                    }
                    compare_at = tokio::time::Instant::now() + COMPARED;
                }
                tokio::time::sleep(EACH).await;
            }
        };
        Self(tokio::spawn(sweep).abort_handle())
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why a file was not deleted.
#[derive(Debug, thiserror::Error)]
enum Undeleted {
    #[error("[storage]: {0}")]
    Store(#[from] StoreError),
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

/// The object that names the database of a store.
const MARKER: &str = "gatewright-store";

impl Files {
    /// Whether the store belongs to this database. One that belongs to none becomes its own.
    async fn is_own_store(&self) -> Result<bool, StoreError> {
        let fresh = self.new_id();
        let Ok(own) = ledger::name_of_store(&self.0.db, &fresh).await else { return Ok(false) };
        let mut marker = match self.0.store.read(MARKER, None).await {
            Ok(marker) => marker,
            Err(StoreError::NotFound) => {
                let mut writer = self.0.store.write(MARKER).await?;
                writer.write(own.as_bytes()).await?;
                writer.finish().await?;
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let mut name = Vec::new();
        while let Some(Ok(bytes)) = marker.next().await {
            name.extend_from_slice(&bytes[..bytes.len().min(own.len() + 1)]);
        }
        Ok(name == own.as_bytes())
    }

    /// Deletes the bytes of the files that nothing has. What the store does not delete is tried again next time.
    pub(crate) async fn sweep(&self) {
        let now = self.0.ambient.now();
        loop {
            match ledger::release(&self.0.db, now).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "files without a record were not released");
                    break;
                }
            }
        }
        self.sweep_pieces().await;
        // One file that cannot be deleted stops no other. If none of many can be, the store does not work.
        let mut skipped = 0;
        loop {
            let since = ledger::earlier(now, self.0.options.keep_deleted);
            let gone = match ledger::gone(&self.0.db, since, now, skipped).await {
                Ok(gone) if gone.is_empty() => return,
                Ok(gone) => gone,
                Err(error) => return tracing::warn!(%error, "files to delete were not read"),
            };
            let mut failed = 0;
            for id in &gone {
                if let Err(error) = self.delete(id).await {
                    failed += 1;
                    tracing::warn!(id, %error, "a file was not deleted; it is tried again");
                }
            }
            if failed == gone.len() {
                return;
            }
            skipped += failed as u64;
        }
    }

    /// Deletes the bytes of a file and what is beside them, and then its row.
    async fn delete(&self, id: &str) -> Result<(), Undeleted> {
        for key in self.beside(id).await? {
            self.0.store.delete(&key).await?;
        }
        self.0.store.delete(id).await?;
        Ok(ledger::forget(&self.0.db, id).await?)
    }

    /// Deletes what uploads left whose files are whole.
    async fn sweep_pieces(&self) {
        let mut skipped = 0;
        loop {
            let left = match resumable::left(&self.0.db, skipped).await {
                Ok(left) if left.is_empty() => return,
                Ok(left) => left,
                Err(error) => return tracing::warn!(%error, "uploads were not read"),
            };
            let mut failed = 0;
            for id in &left {
                if let Err(problem) = self.delete_pieces(id).await {
                    failed += 1;
                    tracing::warn!(id, code = problem.code(), "bytes of an upload were not deleted; it is tried again");
                }
            }
            if failed == left.len() {
                return;
            }
            skipped += failed as u64;
        }
    }

    /// The keys of what the store may have beside a file.
    async fn beside(&self, id: &str) -> Result<Vec<String>, DatabaseError> {
        let thumbnails = thumbnail::sizes(&self.0.db, id).await?;
        let thumbnails = thumbnails.iter().map(|size| thumbnail::key(id, size));
        let pieces = 1..=resumable::numbers(&self.0.db, id).await?;
        let pieces = pieces.map(|number| resumable::key(id, number));
        Ok(thumbnails.chain(pieces).chain([upload::raw(id)]).collect())
    }

    /// Deletes bytes that have no row, as after a database was restored.
    async fn compare(&self) -> Result<(), StoreError> {
        match self.is_own_store().await {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!(
                    "the store of files was used with another database: what this one does not know stays. To have it \
                     deleted, remove {MARKER} from the store"
                );
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let before = ledger::earlier(self.0.ambient.now(), STRAY.max(self.0.options.keep_deleted));
        let mut all = self.0.store.list();
        let mut stray = Vec::new();
        while let Some(found) = all.next().await {
            let (key, written) = found?;
            let is_old = Timestamp::from_second(written).is_ok_and(|written| written < before);
            let id = key.split('.').next().unwrap_or_default();
            if !is_old || uuid::Uuid::try_parse(id).is_err() {
                continue;
            }
            match ledger::is_known(&self.0.db, id).await {
                Ok(false) => stray.push(key),
                Ok(true) => {}
                Err(error) => {
                    tracing::warn!(%error, "the rows of files cannot be read");
                    return Ok(());
                }
            }
        }
        let mut compared = Ok(());
        for key in stray {
            tracing::info!(key, "the store has a file that the database does not know; it is deleted");
            if let Err(error) = self.0.store.delete(&key).await {
                compared = Err(error);
            }
        }
        compared
    }
}

#[cfg(test)]
mod tests {
    use crate::{ledger, testing};

    #[tokio::test]
    async fn a_file_that_cannot_be_deleted_stops_no_other() {
        for opened in testing::opened().await {
            let files = &opened.files;
            let (stuck, other) = (testing::gone(files).await, testing::gone(files).await);
            // What is no file cannot be deleted like one.
            std::fs::create_dir_all(opened.folder.join(&stuck[stuck.len() - 2..]).join(&stuck).join("full")).unwrap();
            let mut writer = files.0.store.write(&other).await.unwrap();
            writer.write(b"x").await.unwrap();
            writer.finish().await.unwrap();
            files.sweep().await;
            let (db, name) = (&files.0.db, opened.engine.name);
            assert!(!files.0.store.exists(&other).await.unwrap(), "{name}");
            assert!(!ledger::is_known(db, &other).await.unwrap(), "{name}");
            assert!(ledger::is_known(db, &stuck).await.unwrap(), "{name}");
        }
    }
}

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
        loop {
            let since = ledger::earlier(now, self.0.options.keep_deleted);
            let gone = match ledger::gone(&self.0.db, since, now).await {
                Ok(gone) if gone.is_empty() => return,
                Ok(gone) => gone,
                Err(error) => return tracing::warn!(%error, "files to delete were not read"),
            };
            for id in gone {
                let beside = match self.beside(&id).await {
                    Ok(beside) => beside,
                    Err(error) => return tracing::warn!(%error, "files to delete were not read"),
                };
                for key in beside.into_iter().chain([id.clone()]) {
                    if let Err(error) = self.0.store.delete(&key).await {
                        return tracing::warn!(%error, "a file was not deleted from the store; it is tried again");
                    }
                }
                if let Err(error) = ledger::forget(&self.0.db, &id).await {
                    return tracing::warn!(%error, "the row of a deleted file was not removed");
                }
            }
        }
    }

    /// Deletes what uploads left whose files are whole.
    async fn sweep_pieces(&self) {
        match resumable::left(&self.0.db).await {
            Ok(left) => {
                for id in left {
                    if let Err(problem) = self.delete_pieces(&id).await {
                        return tracing::warn!(
                            code = problem.code(),
                            "bytes of an upload were not deleted; it is tried again"
                        );
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "uploads were not read"),
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
        for key in stray {
            tracing::info!(key, "the store has a file that the database does not know; it is deleted");
            self.0.store.delete(&key).await?;
        }
        Ok(())
    }
}

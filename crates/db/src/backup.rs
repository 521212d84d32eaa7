//! Backups of a SQLite database: one consistent file, created while servers and commands run.

use std::path::{Path, PathBuf};

use crate::engine::sqlite;
use crate::{BackupError, Db};

/// Copies the SQLite database at `url` to `file`, which must not exist, and checks the copy. Returns its size in bytes.
///
/// The copy is a consistent snapshot and a complete database, readable only by its owner. Readers and writers continue
/// meanwhile. The file appears when it is complete and on the disk.
pub async fn backup(url: &str, file: &Path) -> Result<u64, BackupError> {
    refuse_postgres(url)?;
    let (url, file) = (url.to_owned(), file.to_owned());
    away(move || sqlite::backup::copy(&url, &file)).await
}

/// Copies the SQLite database at `url` as [`backup`] does, to an unnamed file beside it, which is removed when it is closed.
/// Returns it and its size in bytes.
pub async fn backup_unnamed(url: &str) -> Result<(std::fs::File, u64), BackupError> {
    refuse_postgres(url)?;
    let url = url.to_owned();
    away(move || sqlite::backup::copy_unnamed(&url)).await
}

/// A backup that is about to replace a database.
pub struct Restore(sqlite::backup::Staged);

impl std::fmt::Debug for Restore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Restore")
    }
}

impl Restore {
    /// Checks the backup at `file` and copies it beside the database at `url`. Fails if a database exists, unless it
    /// may be replaced, and always fails while a server runs on it. Until this value is dropped, no server can start on
    /// the database.
    pub async fn stage(file: &Path, url: &str, replace: bool) -> Result<Self, BackupError> {
        refuse_postgres(url)?;
        let (file, url) = (file.to_owned(), url.to_owned());
        away(move || sqlite::backup::Staged::new(&file, &url, replace)).await.map(Self)
    }

    /// The copy's URL, for changes before it replaces the database. Close a [`Db`] on it before
    /// [`commit`](Self::commit).
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// Replaces the database by the copy. The old database is kept; returns its path.
    pub async fn commit(self) -> Result<Option<PathBuf>, BackupError> {
        away(move || self.0.commit()).await
    }
}

fn refuse_postgres(url: &str) -> Result<(), BackupError> {
    Db::check_url(url)?;
    if url.starts_with("sqlite:") { Ok(()) } else { Err(BackupError::Postgres) }
}

/// Files and disks take their time: not on the runtime's own threads.
async fn away<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
) -> Result<T, BackupError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

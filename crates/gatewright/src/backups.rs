//! Backups of a configuration's database: `gatewright backup` and `gatewright restore`.

use std::path::{Path, PathBuf};

use gatewright_db::{BackupError, Db, Options, Restore};
use gatewright_events::log;

use crate::Config;

/// Why a backup was not restored. The existing database is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// A file cannot be read, written or moved.
    #[error(transparent)]
    Files(#[from] BackupError),
    /// The copy cannot be opened.
    #[error(transparent)]
    Open(#[from] gatewright_db::OpenError),
    /// The copy cannot be prepared.
    #[error("the backup cannot be prepared: {0}")]
    Database(#[from] gatewright_db::Error),
}

/// Copies the configuration's SQLite database to `file`, with or without a running server. Returns its size in bytes.
pub async fn backup(config: &Config, file: &Path) -> Result<u64, BackupError> {
    gatewright_db::backup(config.database.url.expose(), file).await
}

/// Replaces the configuration's SQLite database, on which no server may run, by a backup. If a database exists,
/// `replace` must be true; the old database is kept under another name, which is returned.
///
/// Streams that resume from an earlier position get `gap`, because positions are assigned again, to other events.
pub async fn restore(config: &Config, file: &Path, replace: bool) -> Result<Option<PathBuf>, RestoreError> {
    let staged = Restore::stage(file, config.database.url.expose(), replace).await?;
    let db = Db::open(&staged.url(), Options::default()).await?;
    let forgotten = log::forget_positions(&db).await;
    db.close().await;
    forgotten?;
    Ok(staged.commit().await?)
}

//! Backups of a configuration's database and of its files: `gatewright backup` and `gatewright restore`.

#[cfg(feature = "files")]
mod files;
#[cfg(not(feature = "files"))]
#[path = "no_files.rs"]
mod files;

use std::path::{Path, PathBuf};

use gatewright_base::Ambient;
use gatewright_db::{BackupError, Db, Options, Restore};
use gatewright_events::log;

use crate::Config;

pub(crate) use files::begin;
#[cfg(feature = "files")]
pub(crate) use files::copy_between;

/// Which files a backup has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupFiles {
    /// Those in a folder. Those in a bucket have backups of their own.
    Local,
    /// All, also those in a bucket.
    All,
}

/// A backup that was written.
#[derive(Debug)]
pub struct Written {
    /// Its size.
    pub bytes: u64,
    /// Whether it is a tar with files, and not a database alone.
    pub has_files: bool,
    /// The ids of files whose bytes the store has lost.
    pub missing: Vec<String>,
}

/// A backup that was restored.
#[derive(Debug)]
pub struct Restored {
    /// The previous database.
    pub kept: Option<PathBuf>,
    /// How many files the backup has.
    pub files: usize,
    /// The ids of files that it lacks.
    pub missing: Vec<String>,
}

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateBackupError {
    /// The database cannot be copied, or the file not be written.
    #[error(transparent)]
    Database(#[from] BackupError),
    /// Files cannot be read.
    #[error(transparent)]
    Files(Box<dyn std::error::Error + Send + Sync>),
}

/// Why a backup was not restored. The existing database is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// A file cannot be read, written or moved.
    #[error(transparent)]
    Files(#[from] BackupError),
    /// The archive is damaged, or its files cannot be stored.
    #[error(transparent)]
    Archive(Box<dyn std::error::Error + Send + Sync>),
    /// The build or the configuration has no files.
    #[error("the backup has files, and the configuration declares no field of the type `file`")]
    NoFiles,
    /// The copy cannot be opened.
    #[error(transparent)]
    Open(#[from] gatewright_db::OpenError),
    /// The copy cannot be prepared.
    #[error("the backup cannot be prepared: {0}")]
    Database(#[from] gatewright_db::Error),
}

/// Copies the configuration's SQLite database to `file`, with or without a running server: as a tar together with its files, or
/// alone if there are none.
pub async fn backup(config: &Config, file: &Path, files: BackupFiles) -> Result<Written, CreateBackupError> {
    if file.exists() {
        return Err(BackupError::Exists(file.to_owned()).into());
    }
    if let Some(backup) = begin(config, files, Ambient::system().now()).await? {
        return backup.write(file).await;
    }
    let bytes = gatewright_db::backup(config.database.url.expose(), file).await?;
    Ok(Written { bytes, has_files: false, missing: Vec::new() })
}

/// Replaces the configuration's SQLite database, on which no server may run, by a backup, and puts its files into the store. If a
/// database exists, `replace` must be true; the old database is kept under another name. Files that the store has already stay.
///
/// Streams that resume from an earlier position get `gap`, because positions are assigned again, to other events.
pub async fn restore(config: &Config, file: &Path, replace: bool) -> Result<Restored, RestoreError> {
    let url = config.database.url.expose();
    let Some(archived) = files::open(config, file).await? else {
        let staged = Restore::stage(file, url, replace).await?;
        prepare(&staged).await?;
        let kept = staged.commit().await?;
        return Ok(Restored { kept, files: 0, missing: Vec::new() });
    };
    let staged = Restore::stage(archived.database(), url, replace).await?;
    prepare(&staged).await?;
    // The database that names them is the last to take its place.
    let (files, missing) = archived.store(config).await?;
    let kept = staged.commit().await?;
    Ok(Restored { kept, files, missing })
}

/// What must not be in a restored database.
async fn prepare(staged: &Restore) -> Result<(), RestoreError> {
    let db = Db::open(&staged.url(), Options::default()).await?;
    let forgotten = match log::forget_positions(&db).await {
        Ok(()) => files::forget_store(&db).await,
        failed => failed,
    };
    db.close().await;
    Ok(forgotten?)
}

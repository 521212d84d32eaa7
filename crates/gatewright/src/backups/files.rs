//! Backups with files.

use std::io;
use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use gatewright_db::{BackupError, Db, Error as DatabaseError, Options};
use gatewright_files::archive::{self, Archive, ArchiveError, Archived, Hold};
use jiff::Timestamp;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

use super::{BackupFiles, CreateBackupError, RestoreError, Written};
use crate::Config;
use crate::app::{files, parts};

/// A backup that is about to be written. Its copy of the database is removed with it.
pub(crate) struct Backup {
    archive: Archive,
    folder: TempDir,
}

/// Whether the configuration's backups have files.
pub(super) fn has(config: &Config, wanted: BackupFiles) -> bool {
    config.has_files() && (wanted == BackupFiles::All || !files::is_bucket(config))
}

/// Copies the database, and finds out which files it names. `None` for the files that `has` says no of.
pub(crate) async fn begin(
    config: &Config,
    wanted: BackupFiles,
    now: Timestamp,
) -> Result<Option<Backup>, CreateBackupError> {
    if !has(config, wanted) {
        return Ok(None);
    }
    let failed = |error: ArchiveError| CreateBackupError::Files(error.into());
    let unwritable = |folder: &Path, error: &io::Error| {
        CreateBackupError::Database(BackupError::Write { file: folder.to_owned(), reason: error.to_string() })
    };
    let Some(file) = config.database.file() else { return Err(BackupError::Postgres.into()) };
    let beside = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = tempfile::Builder::new().prefix(".gatewright-backup-").tempdir_in(beside);
    let folder = folder.map_err(|error| unwritable(beside, &error))?;
    let mut of = config.clone();
    of.database.create_file = false;
    let db = parts::open(&of).await.map_err(BackupError::Open)?;
    if !archive::has_tables(&db).await.map_err(|error| failed(error.into()))? {
        return Ok(None);
    }
    // From here on, servers keep the files that the copy names.
    let hold = Hold::begin(&db, now).await.map_err(|error| failed(error.into()))?;
    let copy = folder.path().join("copy.db");
    gatewright_db::backup(config.database.url.expose(), &copy).await?;
    let named =
        Db::open(&format!("sqlite://{}", copy.display()), Options::default()).await.map_err(BackupError::Open)?;
    let stored = archive::stored_files(&named).await;
    named.close().await;
    let stored = stored.map_err(|error| failed(error.into()))?;
    let archive = Archive::of(copy, stored, &files::backend(config), hold).await.map_err(failed)?;
    Ok(Some(Backup { archive, folder }))
}

impl Backup {
    /// How many bytes it has.
    pub(crate) fn size(&self) -> u64 {
        self.archive.size()
    }

    /// Its bytes. They end with an error if they are not all there.
    pub(crate) fn into_stream(self) -> BoxStream<'static, io::Result<axum::body::Bytes>> {
        let Self { archive, folder } = self;
        let bytes = archive.into_stream();
        bytes
            .map(move |piece| {
                let _until_the_end = &folder;
                piece
            })
            .boxed()
    }

    /// Writes it to a file that appears when it is complete.
    pub(super) async fn write(self, file: &Path) -> Result<Written, CreateBackupError> {
        let missing = self.archive.missing().to_vec();
        let bytes = self.size();
        let refused = |reason: &dyn ToString| BackupError::Write { file: file.to_owned(), reason: reason.to_string() };
        let beside = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Only its owner may read it.
        let unfinished = tempfile::Builder::new().prefix(".gatewright-backup-").tempfile_in(beside);
        let unfinished = unfinished.map_err(|error| refused(&error))?;
        let written = unfinished.reopen().map_err(|error| refused(&error))?;
        let mut written = tokio::fs::File::from_std(written);
        let mut stream = self.into_stream();
        while let Some(piece) = stream.next().await {
            let piece = piece.map_err(|error| CreateBackupError::Files(error.into()))?;
            written.write_all(&piece).await.map_err(|error| refused(&error))?;
        }
        drop(stream);
        written.flush().await.map_err(|error| refused(&error))?;
        written.sync_all().await.map_err(|error| refused(&error))?;
        unfinished.persist_noclobber(file).map_err(|error| refused(&error.error))?;
        let folder = std::fs::File::open(beside).and_then(|folder| folder.sync_all());
        folder.map_err(|error| refused(&error))?;
        Ok(Written { bytes, has_files: true, missing })
    }
}

/// An archive whose database was extracted.
pub(super) struct Opened {
    archived: Archived,
    database: PathBuf,
    _folder: TempDir,
}

/// Checks a backup with files. `None` for one that is a database alone.
pub(super) async fn open(config: &Config, file: &Path) -> Result<Option<Opened>, RestoreError> {
    if !archive::is_archive(file) {
        return Ok(None);
    }
    if !config.has_files() {
        return Err(RestoreError::NoFiles);
    }
    let Some(target) = config.database.file() else { return Err(BackupError::Postgres.into()) };
    let beside = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = tempfile::Builder::new().prefix(".gatewright-restore-").tempdir_in(beside);
    let folder = folder.map_err(|error| BackupError::Write { file: beside.to_owned(), reason: error.to_string() })?;
    let database = folder.path().join("copy.db");
    let archived = Archived::check(file, &database).await.map_err(|error| RestoreError::Archive(error.into()))?;
    Ok(Some(Opened { archived, database, _folder: folder }))
}

impl Opened {
    pub(super) fn database(&self) -> &Path {
        &self.database
    }

    /// Puts the files into the configuration's store. Returns how many there are, and the ids of those that are missing.
    pub(super) async fn store(&self, config: &Config) -> Result<(usize, Vec<String>), RestoreError> {
        let stored = self.archived.store(&files::backend(config)).await;
        stored.map_err(|error| RestoreError::Archive(error.into()))?;
        Ok((self.archived.count(), self.archived.missing().to_vec()))
    }
}

pub(super) async fn forget_store(db: &Db) -> Result<(), DatabaseError> {
    archive::forget_store(db).await
}

/// Copies the files that a database names from the store of one configuration to that of another, if these differ. Returns how
/// many.
pub(crate) async fn copy_between(from: &Config, to: &Config, db: &Db) -> Result<usize, ArchiveError> {
    if !from.has_files() || files::is_bucket(from) || from.files_folder() == to.files_folder() {
        return Ok(0);
    }
    let stored = archive::stored_files(db).await?;
    archive::copy_files(&files::backend(from), &files::backend(to), &stored).await
}

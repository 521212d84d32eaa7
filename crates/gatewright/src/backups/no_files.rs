//! Backups in a build without the feature `files`: databases alone.

use std::convert::Infallible;
use std::path::Path;

use gatewright_db::{Db, Error as DatabaseError};
use jiff::Timestamp;

use super::{BackupFiles, CreateBackupError, RestoreError, Written};
use crate::Config;

/// There is none.
pub(crate) struct Backup(Infallible);

pub(crate) async fn begin(_: &Config, _: BackupFiles, _: Timestamp) -> Result<Option<Backup>, CreateBackupError> {
    Ok(None)
}

impl Backup {
    pub(crate) fn size(&self) -> u64 {
        match self.0 {}
    }

    pub(crate) fn into_stream(self) -> futures_util::stream::BoxStream<'static, std::io::Result<axum::body::Bytes>> {
        match self.0 {}
    }

    pub(super) async fn write(self, _: &Path) -> Result<Written, CreateBackupError> {
        match self.0 {}
    }
}

/// There is none.
pub(super) struct Opened(Infallible);

pub(super) async fn open(_: &Config, _: &Path) -> Result<Option<Opened>, RestoreError> {
    Ok(None)
}

impl Opened {
    pub(super) fn database(&self) -> &Path {
        match self.0 {}
    }

    pub(super) async fn store(&self, _: &Config) -> Result<(usize, Vec<String>), RestoreError> {
        match self.0 {}
    }
}

pub(super) async fn forget_store(_: &Db) -> Result<(), DatabaseError> {
    Ok(())
}

//! Moves a project from SQLite to Postgres: `gatewright promote`.

use std::path::Path;

use gatewright_base::Secret;
use gatewright_db::promote::{CopyError, refuse_rows};
use gatewright_db::{BackupError, Db, OpenError};

use crate::app::parts;
use crate::schema::{self, MigrationError};
use crate::{Config, db};

pub use gatewright_db::promote::Copied;

/// Why a project was not moved. The SQLite database is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromoteError {
    /// The source is not on SQLite.
    #[error("`database.url` is not a SQLite database; only those are promoted")]
    NotSqlite,
    /// The target is not on Postgres.
    #[error("the target is not a Postgres database; write postgres://user:password@host/database")]
    NotPostgres,
    /// The source lacks something that the configuration declares.
    #[error("the SQLite database is not up to date with the configuration; run `gatewright migrate` first")]
    Pending,
    /// A copy cannot be written beside the database.
    #[error("cannot create a folder beside the database for a copy: {0}")]
    Scratch(#[source] std::io::Error),
    /// A database cannot be opened, or a server runs on the source.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The source cannot be copied.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The source cannot be compared with the configuration, or the target's tables cannot be created.
    #[error(transparent)]
    Plan(#[from] MigrationError),
    /// The configuration names no folder for the files of a Postgres database.
    #[error(
        "records have files, and on Postgres the configuration must name their folder: write [storage] with path = \"FOLDER\""
    )]
    NoFolder,
    /// Files cannot be copied to the folder that they have on Postgres.
    #[error(transparent)]
    Files(Box<dyn std::error::Error + Send + Sync>),
    /// Rows cannot be copied.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// A database failed.
    #[error(transparent)]
    Database(#[from] db::Error),
}

/// Copies the configuration's SQLite database, on which no server may run, into the Postgres database at `to`, which
/// must have no rows, and compares every table. `leave` names tables, or columns as `table.column`, that are not
/// copied; by default everything is copied. Streams resume where they were.
pub async fn promote(config: &Config, to: &Secret, leave: &[String]) -> Result<Vec<Copied>, PromoteError> {
    let Some(file) = config.database.file() else { return Err(PromoteError::NotSqlite) };
    if !to.expose().starts_with("postgres") {
        return Err(PromoteError::NotPostgres);
    }
    let mut from = config.clone();
    from.database.create_file = false;
    let mut aim = config.clone();
    (aim.database.url, aim.database.create_tables) = (to.clone(), true);

    let running = parts::open(&from).await?;
    running.claim()?;
    if !schema::plan(&from).await?.statements.is_empty() {
        return Err(PromoteError::Pending);
    }
    if config.has_files() && aim.files_folder().is_none() {
        return Err(PromoteError::NoFolder);
    }
    let target = parts::open(&aim).await?;
    refuse_rows(&target).await?;
    // Commands may still write: the copy uses one consistent state.
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = tempfile::tempdir_in(folder).map_err(PromoteError::Scratch)?;
    let copy = folder.path().join("copy.db");
    gatewright_db::backup(from.database.url.expose(), &copy).await?;
    from.database.url = Secret::new(format!("sqlite://{}", copy.display()));
    let source = parts::open(&from).await?;

    schema::make_like(&aim, &source, &target).await?;
    #[cfg(feature = "files")]
    let moved = crate::backups::copy_between(config, &aim, &source).await;
    let copied = gatewright_db::promote::promote(&source, &target, leave).await;
    source.close().await;
    #[cfg(feature = "files")]
    moved.map_err(|error| PromoteError::Files(error.into()))?;
    let copied = copied?;
    schema::index(&aim, &target).await?;
    analyze(&target).await;
    target.close().await;
    running.close().await;
    Ok(copied)
}

/// Without statistics, the first lists would take long. The server gathers them by itself, later.
async fn analyze(target: &Db) {
    if let Err(error) = target.execute("ANALYZE", Vec::new()).await {
        tracing::debug!(%error, "cannot gather statistics");
    }
}

//! `gatewright backup` and `gatewright restore`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::anyhow;
use gatewright::db::BackupError;
use gatewright::{BackupFiles, CreateBackupError, RestoreError, Restored};

use crate::args::Common;
use crate::{configuration, output};

pub(crate) async fn backup(common: &Common, file: &Path, files: bool) -> anyhow::Result<ExitCode> {
    let config = configuration::for_management(common)?;
    let files = if files { BackupFiles::All } else { BackupFiles::Local };
    let written = gatewright::backup(&config, file, files).await.map_err(|error| match error {
        CreateBackupError::Database(BackupError::Exists(path)) => {
            anyhow!("{} exists and was not changed; name another file", path.display())
        }
        other => other.into(),
    })?;
    let what = if written.has_files { "it is a tar with the files, and holds" } else { "it holds" };
    let (name, bytes) = (file.display(), written.bytes);
    output::line(&format!("wrote {name} ({bytes} bytes); {what} password hashes and personal data"));
    missing(&written.missing, "the store has lost the bytes of");
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn restore(common: &Common, file: &Path, replace: bool) -> anyhow::Result<ExitCode> {
    let config = configuration::for_creation(common)?;
    let Restored { kept, files, missing: lost } =
        gatewright::restore(&config, file, replace).await.map_err(|error| match error {
            RestoreError::Files(BackupError::Exists(path)) => anyhow!(
                "there is a database {} already; --replace replaces it with the backup and keeps it under another name",
                path.display()
            ),
            other => other.into(),
        })?;
    let target = config.database.file().map(|file| file.display().to_string()).unwrap_or_default();
    output::line(&format!("restored {} to {target}", file.display()));
    if files > 0 {
        output::line(&format!("{} are in the store", output::count(files, "file", "files")));
    }
    missing(&lost, "the backup lacks the bytes of");
    if let Some(kept) = kept {
        output::line(&format!("the former database is {}", kept.display()));
    }
    output::line("sessions, tokens and passwords are those of the backup, also the ones that were revoked after it");
    Ok(ExitCode::SUCCESS)
}

/// Files that are lost. `verify` names all of them.
fn missing(ids: &[String], what: &str) {
    if let [first, ..] = ids {
        let count = output::count(ids.len(), "file", "files");
        output::line(&format!("{what} {count}, such as {first}; `gatewright verify` names them"));
    }
}

//! `gatewright backup` and `gatewright restore`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::anyhow;
use gatewright::RestoreError;
use gatewright::db::BackupError;

use crate::args::Common;
use crate::{configuration, output};

pub(crate) async fn backup(common: &Common, file: &Path) -> anyhow::Result<ExitCode> {
    let config = configuration::for_management(common)?;
    let bytes = gatewright::backup(&config, file).await.map_err(|error| match error {
        BackupError::Exists(path) => {
            anyhow!("{} exists already and is not overwritten; name another file", path.display())
        }
        other => other.into(),
    })?;
    output::line(&format!("wrote {} ({bytes} bytes); it holds password hashes and personal data", file.display()));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn restore(common: &Common, file: &Path, replace: bool) -> anyhow::Result<ExitCode> {
    let config = configuration::for_creation(common)?;
    let kept = gatewright::restore(&config, file, replace).await.map_err(|error| match error {
        RestoreError::Files(BackupError::Exists(path)) => anyhow!(
            "there is a database {} already; --replace puts the backup in its place and keeps it under another name",
            path.display()
        ),
        other => other.into(),
    })?;
    let target = config.database.file().map(|file| file.display().to_string()).unwrap_or_default();
    output::line(&format!("restored {} to {target}", file.display()));
    if let Some(kept) = kept {
        output::line(&format!("the former database is {}", kept.display()));
    }
    output::line("sessions, tokens and passwords are those of the backup, also the ones that were revoked after it");
    Ok(ExitCode::SUCCESS)
}

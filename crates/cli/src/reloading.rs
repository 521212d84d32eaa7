//! The running server reads its configuration again.

use std::path::{Path, PathBuf};

use anyhow::Context;
use gatewright::config::Written;
use gatewright::{Config, Reloader};
use serde_json::{Value, json};

use crate::args::{Common, Serve};
use crate::configuration;
use crate::logging::Log;

/// What a server needs to read its configuration again.
pub(crate) struct Reloading {
    common: Common,
    serve: Serve,
    log: Log,
    /// What was written at the start.
    started: Written,
    /// What was written when the configuration was last taken over.
    latest: Written,
    /// Where the outcome is written, if there is a place.
    outcome: Option<PathBuf>,
    number: u64,
    reloader: Reloader,
}

/// The settings that are changed here.
const LOG: [&str; 2] = ["log.level", "log.access"];

impl Reloading {
    pub(crate) fn new(
        (common, serve): (&Common, &Serve),
        (config, written): (&Config, Written),
        log: Log,
        reloader: Reloader,
    ) -> Self {
        let outcome = crate::running::outcome(config);
        let (common, serve) = (common.clone(), serve.clone());
        Self { common, serve, log, started: written.clone(), latest: written, outcome, number: 0, reloader }
    }

    /// Reads the configuration again. The outcome is in the log and, for `gatewright reload`, in a file. Blocks.
    pub(crate) fn run(&mut self) {
        self.number += 1;
        let outcome = match self.reload() {
            Ok((applied, needs_restart)) => {
                let (now, later) = (applied.join(", "), needs_restart.join(", "));
                if needs_restart.is_empty() {
                    tracing::info!(applied = now, "SIGHUP: the configuration was read again");
                } else {
                    tracing::warn!(
                        applied = now,
                        needsRestart = later,
                        "SIGHUP: the configuration was read again; some changes need a restart"
                    );
                }
                json!({ "applied": applied, "needsRestart": needs_restart })
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(error, "SIGHUP: the configuration was not taken over; nothing has changed");
                json!({ "error": error })
            }
        };
        if let Some(path) = &self.outcome
            && let Err(error) = self.keep(path, outcome)
        {
            tracing::warn!(%error, "the outcome of the reload cannot be written");
        }
    }

    fn reload(&mut self) -> anyhow::Result<(Vec<String>, Vec<String>)> {
        let (config, written) = configuration::for_serving(&self.common, &self.serve)?;
        let since_start = self.started.changes(&written);
        let recent = self.latest.changes(&written);
        let mut all = since_start.clone();
        all.extend(recent.iter().filter(|path| !since_start.contains(path)).cloned());
        all.sort();
        let mut outcome = self.reloader.reload(&config, all, &LOG)?;
        if !self.log.follow(&config) {
            // RUST_LOG decides.
            let (ignored, applied) = outcome.applied.into_iter().partition(|path| LOG.contains(&&**path));
            outcome.applied = applied;
            outcome.needs_restart.extend::<Vec<String>>(ignored);
        }
        self.latest = written;
        outcome.applied.retain(|path| recent.contains(path));
        outcome.needs_restart.retain(|path| since_start.contains(path));
        Ok((outcome.applied, outcome.needs_restart))
    }

    /// Replaces the file at once, so that nobody reads a part of it.
    fn keep(&self, path: &Path, mut outcome: Value) -> anyhow::Result<()> {
        outcome["number"] = self.number.into();
        outcome["process"] = std::process::id().into();
        let folder = path.parent().context("no folder")?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(&mut file, &outcome)?;
        file.persist(path)?;
        Ok(())
    }
}

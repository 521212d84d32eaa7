//! Jobs: what runs at times, declared by `[[job]]` or by functions.
//!
//! [`cron`] knows when a job is due, [`decide`] what is to be done about it, [`store`] keeps both in the database that all servers
//! share, and [`runner`] watches it on every server. What a job does is an [`Action`].

mod action;
mod cron;
mod decide;
mod runner;
mod schema;
mod store;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use gatewright_base::{Ambient, time};
use gatewright_db::{Db, Error, OpenError};
use gatewright_entities::Entities;
use gatewright_events::outbox::Outbox;
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::Notify;

pub(crate) use action::RESERVED;
pub(crate) use cron::{Schedule, zone};
pub(crate) use runner::JobsTask;
pub use schema::JobsInitError;
pub(crate) use schema::SCHEMA;
use store::{Requested, Store};

use crate::Config;
use crate::app::parts;
use crate::functions::Functions;

/// What a job does.
#[async_trait]
pub(crate) trait Action: Send + Sync {
    /// Does it. The error is what operators may read: it contains no secret.
    async fn run(&self, due: &Due) -> Result<(), String>;
}

/// The run that an [`Action`] is called for.
#[derive(Debug, Clone)]
pub(crate) struct Due {
    /// The job.
    pub(crate) job: String,
    /// The time that it is for.
    pub(crate) at: Timestamp,
}

/// A declared job, without what it does.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) schedule: Schedule,
    /// `url`, `emit` or `function`.
    pub(crate) kind: &'static str,
}

impl Listed {
    /// What two servers must have in common to run the job for each other.
    fn fingerprint(&self) -> String {
        format!("{} {}", self.schedule.text(), self.schedule.zone())
    }
}

/// The jobs of a configuration, for their operator. Cheap to clone.
#[derive(Clone)]
pub struct Jobs(Arc<Inner>);

struct Inner {
    store: Store,
    listed: Vec<Listed>,
    /// What they do, by their names. Empty for an operator.
    actions: BTreeMap<String, Arc<dyn Action>>,
    /// Wakes the runner of this process.
    wake: Notify,
    counts: BTreeMap<String, Counts>,
}

/// What became of the due times that this process has seen.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    succeeded: AtomicU64,
    failed: AtomicU64,
    interrupted: AtomicU64,
    skipped: AtomicU64,
}

impl Counts {
    /// Each number with its word.
    pub(crate) fn all(&self) -> [(&'static str, u64); 4] {
        [
            ("succeeded", &self.succeeded),
            ("failed", &self.failed),
            ("interrupted", &self.interrupted),
            ("skipped", &self.skipped),
        ]
        .map(|(word, count)| (word, count.load(Ordering::Relaxed)))
    }
}

/// One job.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct JobStatus {
    /// Its name.
    pub name: String,
    /// Five fields of cron.
    pub schedule: String,
    /// The time zone of the schedule.
    pub timezone: String,
    /// What it does: `url`, `emit` or `function`.
    pub kind: &'static str,
    /// When it is due next. Null until a server has started with it.
    pub next_at: Option<String>,
    /// The end of its latest run that succeeded.
    pub last_success_at: Option<String>,
    /// Its latest run.
    pub last_run: Option<JobRun>,
}

/// One run of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct JobRun {
    /// Its id.
    pub id: String,
    /// `schedule` or `operator`.
    pub cause: String,
    /// The time that it is for.
    pub due_at: String,
    /// From 1. Higher if the server of an earlier attempt died.
    pub attempt: i64,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// `running`, `succeeded`, `failed` or `interrupted`.
    pub outcome: String,
    /// Why it failed.
    pub error: Option<String>,
    /// How many due times passed meanwhile.
    pub skipped: i64,
}

/// Why the jobs of a configuration cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobsError {
    /// The functions are wrong.
    #[error("functions:\n{0}")]
    Functions(String),
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The tables cannot be used.
    #[error(transparent)]
    Tables(#[from] JobsInitError),
}

/// Why a request about a job was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// No job has this name.
    #[error("there is no job {0:?}")]
    Unknown(String),
    /// A run is in progress.
    #[error("the job {0:?} is running")]
    Running(String),
    /// No server has started with the job yet.
    #[error("no server has started with the job {0:?} yet")]
    Undeclared(String),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] Error),
}

/// Opens the jobs of a configuration for an operator, with or without a running server. Runs nothing.
pub async fn jobs(config: &Config) -> Result<Jobs, JobsError> {
    let ambient = Ambient::system();
    let functions = Functions::load(config, &ambient).map_err(JobsError::Functions)?;
    let db = parts::open(config).await?;
    schema::prepare(&db, config.database.create_tables).await?;
    Ok(Jobs::new(listed(config, functions.as_ref()), BTreeMap::new(), db, ambient))
}

/// Whether a configuration may have jobs. Functions are known only once they are compiled.
pub(crate) fn may_exist(config: &Config) -> bool {
    !config.jobs.is_empty() || config.functions.used_folder().is_some()
}

/// Every job: those of the configuration, then those of functions.
fn listed(config: &Config, functions: Option<&Functions>) -> Vec<Listed> {
    // The checks of the configuration and of functions have refused what is no schedule.
    let declared = config.jobs.iter().filter_map(|job| {
        let schedule = Schedule::parse(&job.schedule, zone(&job.timezone).ok()?).ok()?;
        Some(Listed { name: job.name.clone(), schedule, kind: if job.url.is_some() { "url" } else { "emit" } })
    });
    declared.chain(functions.map(Functions::jobs).unwrap_or_default()).collect()
}

impl Jobs {
    fn new(listed: Vec<Listed>, actions: BTreeMap<String, Arc<dyn Action>>, db: Db, ambient: Ambient) -> Self {
        let counts = listed.iter().map(|job| (job.name.clone(), Counts::default())).collect();
        Self(Arc::new(Inner { store: Store { db, ambient }, listed, actions, wake: Notify::new(), counts }))
    }

    /// Opens the jobs of a server; `None` if there are none.
    pub(crate) async fn open(
        config: &Config,
        functions: Option<&Functions>,
        (db, entities): (&Db, &Entities),
        outbox: Option<&Outbox>,
        ambient: &Ambient,
    ) -> Result<Option<Self>, JobsInitError> {
        // As `migrate` does, which does not compile functions.
        if may_exist(config) {
            schema::prepare(db, config.database.create_tables).await?;
        }
        let listed = listed(config, functions);
        if listed.is_empty() {
            return Ok(None);
        }
        let actions = action::actions(config, functions, (db, entities), outbox, ambient)?;
        Ok(Some(Self::new(listed, actions, db.clone(), ambient.clone())))
    }

    /// Runs the jobs that are due, each for at most `time`, until the task is dropped.
    pub(crate) fn start(&self, time: Duration) -> JobsTask {
        runner::start(self, time)
    }

    /// Every job in the order of its declaration.
    pub async fn list(&self) -> Result<Vec<JobStatus>, Error> {
        let rows = self.0.store.rows().await?;
        let mut all = Vec::with_capacity(self.0.listed.len());
        for job in &self.0.listed {
            let row = rows.get(&job.name);
            let last_run = self.0.store.history(&job.name, 1).await?.pop();
            all.push(JobStatus {
                name: job.name.clone(),
                schedule: job.schedule.text().to_owned(),
                timezone: job.schedule.zone().to_owned(),
                kind: job.kind,
                next_at: row.map(|(next, _)| time::format(*next)),
                last_success_at: row.and_then(|(_, success)| success.map(time::format)),
                last_run,
            });
        }
        Ok(all)
    }

    /// Asks for a run of a job, which a running server begins within a second. Several requests before it are one.
    pub async fn run(&self, name: &str) -> Result<(), JobError> {
        let known = self.known(name)?;
        match self.0.store.request(&known.name).await? {
            Some(Requested::Waiting) => {
                self.0.wake.notify_one();
                Ok(())
            }
            Some(Requested::Running) => Err(JobError::Running(known.name.clone())),
            None => Err(JobError::Undeclared(known.name.clone())),
        }
    }

    /// The latest runs of a job, the latest first: at most `limit`, and at most 100.
    pub async fn history(&self, name: &str, limit: u32) -> Result<Vec<JobRun>, JobError> {
        let known = self.known(name)?;
        Ok(self.0.store.history(&known.name, limit).await?)
    }

    /// What became of due times in this process, by job.
    pub(crate) fn counts(&self) -> &BTreeMap<String, Counts> {
        &self.0.counts
    }

    /// The end of the latest run of each job that succeeded, on any server.
    pub(crate) async fn successes(&self) -> Result<BTreeMap<String, Timestamp>, Error> {
        let rows = self.0.store.rows().await?;
        Ok(rows.into_iter().filter_map(|(name, (_, success))| Some((name, success?))).collect())
    }

    fn known(&self, name: &str) -> Result<&Listed, JobError> {
        self.0.listed.iter().find(|job| job.name == name).ok_or_else(|| JobError::Unknown(name.to_owned()))
    }
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs").field("listed", &self.0.listed).finish_non_exhaustive()
    }
}

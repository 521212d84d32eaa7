//! `gatewright job …`: what runs at times, and what became of it.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};
use gatewright::{JobError, JobRun, Jobs};

use crate::args::Common;
use crate::{configuration, output};

/// How long a server may take to begin a run.
const BEGINS: Duration = Duration::from_secs(30);
/// How often the history is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(250);
/// How many runs are looked at.
const LATEST: u32 = 20;

pub(crate) async fn list(common: &Common, json: bool) -> anyhow::Result<ExitCode> {
    let jobs = open(common).await?.list().await?;
    if json {
        output::line(&serde_json::json!({ "items": jobs }).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    for job in &jobs {
        let next = job.next_at.as_deref().unwrap_or("not known yet");
        let last = job.last_run.as_ref().map_or_else(|| "no run".to_owned(), |run| format!("last run {}", told(run)));
        output::line(&format!("{}  {} {}  {}  next {next}  {last}", job.name, job.schedule, job.timezone, job.kind));
    }
    output::line(&output::count(jobs.len(), "job", "jobs"));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn history(common: &Common, name: &str, limit: u32, json: bool) -> anyhow::Result<ExitCode> {
    let runs = open(common).await?.history(name, limit).await.map_err(refused)?;
    if json {
        output::line(&serde_json::json!({ "items": runs }).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    for run in &runs {
        output::line(&format!("{}  {}  due {}  {}", run.started_at, run.cause, run.due_at, told(run)));
    }
    output::line(&output::count(runs.len(), "run", "runs"));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn run(common: &Common, name: &str, wait: bool, json: bool) -> anyhow::Result<ExitCode> {
    let jobs = open(common).await?;
    let before = jobs.history(name, LATEST).await.map_err(refused)?;
    let before: BTreeSet<String> = before.into_iter().map(|run| run.id).collect();
    jobs.run(name).await.map_err(refused)?;
    if !wait {
        output::line(&format!("a running server begins {name} within a second"));
        return Ok(ExitCode::SUCCESS);
    }
    let asked = tokio::time::Instant::now();
    loop {
        tokio::time::sleep(LOOK).await;
        let latest = jobs.history(name, LATEST).await.map_err(refused)?;
        let ours = latest.into_iter().rfind(|run| !before.contains(&run.id));
        match ours {
            Some(run) if run.ended_at.is_some() => {
                if json {
                    output::line(&serde_json::to_string(&run)?);
                } else {
                    output::line(&format!("{name}: {}", told(&run)));
                }
                return Ok(if run.outcome == "succeeded" { ExitCode::SUCCESS } else { ExitCode::FAILURE });
            }
            None if asked.elapsed() > BEGINS => {
                bail!("no server has begun {name} within 30 seconds; a server that starts now begins it")
            }
            Some(_) | None => {}
        }
    }
}

/// A run in a few words.
fn told(run: &JobRun) -> String {
    let took = run.duration_ms.map(|ms| format!(" in {ms} ms")).unwrap_or_default();
    let attempt = if run.attempt > 1 { format!(", attempt {}", run.attempt) } else { String::new() };
    let skipped = if run.skipped > 0 { format!(", {} skipped meanwhile", run.skipped) } else { String::new() };
    let error = run.error.as_deref().map(|error| format!(": {}", output::one_line(error))).unwrap_or_default();
    format!("{}{took}{attempt}{skipped}{error}", run.outcome)
}

fn refused(error: JobError) -> anyhow::Error {
    match error {
        JobError::Unknown(name) => anyhow!("there is no job {name:?}; `gatewright job list` shows the jobs"),
        error => error.into(),
    }
}

async fn open(common: &Common) -> anyhow::Result<Jobs> {
    Ok(gatewright::jobs(&configuration::for_management(common)?).await?)
}

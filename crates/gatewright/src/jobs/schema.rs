use gatewright_db::{Db, MigrateError, Step, schema};

/// The component's name and the steps that make its tables.
pub(crate) const SCHEMA: (&str, &[Step]) = ("jobs", STEPS);

const STEPS: &[Step] = &[Step {
    version: 1,
    name: "jobs and their runs",
    sql: "CREATE TABLE gatewright_jobs (
            name {text} NOT NULL PRIMARY KEY,
            schedule {text} NOT NULL,
            next_at {time} NOT NULL,
            last_due_at {time},
            last_success_at {time},
            requested_at {time},
            run_id {text},
            run_beats {int} NOT NULL DEFAULT 0
          );
          CREATE TABLE gatewright_job_runs (
            id {text} NOT NULL PRIMARY KEY,
            job {text} NOT NULL,
            cause {text} NOT NULL,
            due_at {time} NOT NULL,
            attempt {int} NOT NULL,
            started_at {time} NOT NULL,
            ended_at {time},
            outcome {text} NOT NULL,
            error {text},
            skipped {int} NOT NULL DEFAULT 0
          );
          CREATE INDEX gatewright_job_runs_job ON gatewright_job_runs (job, started_at)",
}];

/// Why the tables of jobs cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobsInitError {
    /// They cannot be created.
    #[error("the tables of jobs: {0}")]
    Migrate(#[from] MigrateError),
    /// One is missing.
    #[error("the database lacks the table {0}; run `gatewright migrate`")]
    Missing(&'static str),
    /// A job cannot call its URL.
    #[error("a job: {0}")]
    Url(#[from] gatewright_events::outbox::webhook::WebhookError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] gatewright_db::Error),
}

/// Makes the tables, or looks whether they are there.
pub(super) async fn prepare(db: &Db, create: bool) -> Result<(), JobsInitError> {
    if create {
        let (component, steps) = SCHEMA;
        gatewright_db::migrate(db, component, steps).await?;
        return Ok(());
    }
    for table in ["gatewright_jobs", "gatewright_job_runs"] {
        if schema::describe(db, table).await?.is_none() {
            return Err(JobsInitError::Missing(table));
        }
    }
    Ok(())
}

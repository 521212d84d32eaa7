use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use gatewright_base::JsonCase;
use gatewright_http::{Problem, Query, Segment};
use http::StatusCode;
use serde_json::Value;

use super::AdminState;
use super::answer::{data, database, noted, object};
use crate::jobs::{JobError, JobRun, JobStatus, Jobs};

/// How many runs a history has without `limit`.
const LIMIT: u32 = 50;

/// Jobs with their latest run, their history, and another run.
pub(super) fn routes() -> Router<AdminState> {
    Router::new()
        .route("/jobs", get(list))
        .route("/jobs/{name}/run", post(run))
        .route("/jobs/{name}/history", get(history))
}

async fn list(State(state): State<AdminState>) -> Result<Json<Value>, Problem> {
    let Some(jobs) = &state.jobs else { return Ok(data(Vec::<Value>::new())) };
    let case = state.config.server.json_case;
    let found = jobs.list().await.map_err(database)?;
    Ok(data(found.into_iter().map(|job| shown(job, case)).collect::<Vec<_>>()))
}

async fn run(State(state): State<AdminState>, Segment(name): Segment) -> Result<Response, Problem> {
    jobs(&state, &name)?.run(&name).await.map_err(refused)?;
    Ok(noted(StatusCode::ACCEPTED, [("job", name.into())]))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    limit: Option<u32>,
}

async fn history(
    State(state): State<AdminState>,
    Segment(name): Segment,
    Query(listing): Query<Listing>,
) -> Result<Json<Value>, Problem> {
    let runs = jobs(&state, &name)?.history(&name, listing.limit.unwrap_or(LIMIT)).await.map_err(refused)?;
    let case = state.config.server.json_case;
    Ok(data(runs.into_iter().map(|run| shown_run(run, case)).collect::<Vec<_>>()))
}

fn jobs<'a>(state: &'a AdminState, name: &str) -> Result<&'a Jobs, Problem> {
    state.jobs.as_ref().ok_or_else(|| refused(JobError::Unknown(name.to_owned())))
}

fn refused(error: JobError) -> Problem {
    match error {
        JobError::Unknown(_) => Problem::not_found("there is no such job"),
        JobError::Running(_) => Problem::conflict("the job is running").with_code("job_running"),
        JobError::Undeclared(_) => Problem::conflict("no server has started with the job yet"),
        JobError::Database(error) => database(error),
    }
}

fn shown(job: JobStatus, case: JsonCase) -> Value {
    object(
        case,
        [
            ("name", job.name.into()),
            ("schedule", job.schedule.into()),
            ("timezone", job.timezone.into()),
            ("kind", job.kind.into()),
            ("next_at", job.next_at.into()),
            ("last_success_at", job.last_success_at.into()),
            ("last_run", job.last_run.map(|run| shown_run(run, case)).into()),
        ],
    )
}

fn shown_run(run: JobRun, case: JsonCase) -> Value {
    object(
        case,
        [
            ("id", run.id.into()),
            ("cause", run.cause.into()),
            ("due_at", run.due_at.into()),
            ("attempt", run.attempt.into()),
            ("started_at", run.started_at.into()),
            ("ended_at", run.ended_at.into()),
            ("duration_ms", run.duration_ms.into()),
            ("outcome", run.outcome.into()),
            ("error", run.error.into()),
            ("skipped", run.skipped.into()),
        ],
    )
}

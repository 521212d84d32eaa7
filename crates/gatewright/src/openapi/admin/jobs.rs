//! Jobs and their runs.

use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::schema::Type;

use super::super::Draft;
use super::super::names::Page;
use super::super::words::{Described, Part, empty, in_path, instant, integer, list_of, named, or_null, query, string};
use super::spelled;

pub(super) fn describe(draft: &mut Draft) -> Vec<Described> {
    let outcomes = ["running", "succeeded", "failed", "interrupted"];
    let run: [(&str, Part); 10] = [
        ("id", string().into()),
        ("cause", string().enum_values(Some(["schedule", "operator"])).into()),
        ("due_at", instant().description(Some("The time that it is for.")).into()),
        ("attempt", integer().description(Some("Above 1 if the server of an earlier attempt ended.")).into()),
        ("started_at", instant().into()),
        ("ended_at", or_null(Type::String).into()),
        ("duration_ms", or_null(Type::Integer).into()),
        ("outcome", string().enum_values(Some(outcomes)).into()),
        ("error", or_null(Type::String).into()),
        ("skipped", integer().description(Some("How many due times passed meanwhile.")).into()),
    ];
    draft.components.schemas.insert("JobRun".to_owned(), spelled(draft.case, run).into());
    let job: [(&str, Part); 7] = [
        ("name", string().into()),
        ("schedule", string().into()),
        ("timezone", string().into()),
        ("kind", string().enum_values(Some(["url", "emit", "function"])).into()),
        ("next_at", or_null(Type::String).into()),
        ("last_success_at", or_null(Type::String).into()),
        ("last_run", named("JobRun")),
    ];
    let name = || in_path("name", "The job's name.", string().min_length(Some(1)));
    vec![
        draft.admin(HttpMethod::Get, "/jobs", "adminListJobs", "The jobs and their latest runs").gives(
            "In the order of their declaration. `last_run` (in the configured case) is null before the first run.",
            list_of(spelled(draft.case, job)),
        ),
        draft
            .admin(HttpMethod::Post, "/jobs/{name}/run", "adminRunJob", "Run a job now")
            .parameter(name())
            .fails(&[404, 409], Page::Never)
            .answers(
                202,
                empty("A server begins the run within a second. 409 `job_running` while one is in progress."),
            ),
        draft
            .admin(HttpMethod::Get, "/jobs/{name}/history", "adminJobHistory", "The runs of a job")
            .parameter(name())
            .parameter(query(
                "limit",
                "The maximum number of runs; default 50.",
                integer().minimum(Some(1)).maximum(Some(100)),
            ))
            .fails(&[404], Page::Never)
            .gives("The latest first. The latest 100 are kept.", list_of(named("JobRun"))),
    ]
}

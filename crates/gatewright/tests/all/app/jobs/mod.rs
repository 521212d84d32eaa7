//! Jobs: what they do, who runs them, and what their operators see.

mod admin;
mod functions;
mod replicas;
pub(super) mod url;

use std::time::Duration;

use gatewright_testing::TestApp;
use jiff::SignedDuration;
use serde_json::Value;

/// Lets the clock go on by a day, and waits until the job has that many runs which have ended. The latest is the first.
async fn a_day_later(app: &TestApp, job: &str, count: usize) -> Vec<Value> {
    app.wait(SignedDuration::from_hours(24));
    ended(app, job, count).await
}

/// Waits until a job has that many runs which have ended.
async fn ended(app: &TestApp, job: &str, count: usize) -> Vec<Value> {
    for _ in 0..600 {
        let runs = runs(app, job).await;
        if runs.iter().filter(|run| run["ended_at"] != Value::Null).count() >= count {
            return runs;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{}: {job} has not run {count} times: {:?}", app.engine(), runs(app, job).await);
}

/// Waits until the server has begun its work.
async fn declared(app: &TestApp, job: &str) {
    for _ in 0..600 {
        let sql = "SELECT name FROM gatewright_jobs WHERE name = ?1";
        if app.app().db().query_opt(sql, gatewright::db::params![job]).await.unwrap().is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{}: {job} is not declared", app.engine());
}

async fn runs(app: &TestApp, job: &str) -> Vec<Value> {
    let sql = "SELECT cause, attempt, outcome, error, skipped, ended_at FROM gatewright_job_runs WHERE job = ?1 \
               ORDER BY started_at DESC, id DESC";
    let rows = app.app().db().query(sql, gatewright::db::params![job]).await.unwrap();
    let run = |row: &gatewright::db::Row| {
        let ended = row.get::<Option<jiff::Timestamp>>("ended_at").unwrap();
        serde_json::json!({
            "cause": row.get::<String>("cause").unwrap(),
            "attempt": row.get::<i64>("attempt").unwrap(),
            "outcome": row.get::<String>("outcome").unwrap(),
            "error": row.get::<Option<String>>("error").unwrap(),
            "skipped": row.get::<i64>("skipped").unwrap(),
            "ended_at": ended.map(|at| at.to_string()),
        })
    };
    rows.iter().map(run).collect()
}

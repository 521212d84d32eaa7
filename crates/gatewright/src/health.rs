//! `GET /healthz` says that the process lives, `GET /readyz` that it can work.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use gatewright_db::Db;
use gatewright_http::Problem;
use http::header::CACHE_CONTROL;

/// How long the database may take to give a sign of life.
const PATIENCE: Duration = Duration::from_secs(2);
/// When to ask again.
const RETRY: Duration = Duration::from_secs(1);

pub(crate) async fn healthz() -> Response {
    fine()
}

pub(crate) async fn readyz(db: Db) -> Response {
    match tokio::time::timeout(PATIENCE, db.ping()).await {
        Ok(Ok(())) => fine(),
        Ok(Err(error)) => not_ready(&error.to_string()),
        Err(_) => not_ready("it did not answer in time"),
    }
}

fn fine() -> Response {
    ([(CACHE_CONTROL, "no-store")], "ok\n").into_response()
}

fn not_ready(reason: &str) -> Response {
    tracing::warn!(reason, "the database does not answer");
    Problem::unavailable("the database does not answer", RETRY).into_response()
}

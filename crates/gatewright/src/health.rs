//! `GET /healthz` reports that the process runs, `GET /readyz` that it can serve requests.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use gatewright_db::Db;
use gatewright_events::fanout::FanoutStatus;
use gatewright_http::Problem;
use http::header::CACHE_CONTROL;

use crate::app::tasks::Tasks;
use crate::serve::Draining;

/// How long the database may take to give a sign of life.
const TIMEOUT: Duration = Duration::from_secs(2);
/// When to ask again.
const RETRY: Duration = Duration::from_secs(1);

pub(crate) async fn healthz() -> Response {
    fine()
}

/// The services that readiness depends on.
#[derive(Clone)]
pub(crate) struct Readiness {
    pub(crate) db: Db,
    pub(crate) fanout: Option<FanoutStatus>,
    pub(crate) draining: Draining,
    /// Not queried; the route keeps it alive.
    pub(crate) _tasks: Tasks,
}

pub(crate) async fn readyz(Readiness { db, fanout, draining, .. }: Readiness) -> Response {
    if draining.has_begun() {
        return Problem::unavailable("the server is stopping", RETRY).into_response();
    }
    match tokio::time::timeout(TIMEOUT, db.ping()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return not_ready("the database does not answer", &error.to_string()),
        Err(_) => return not_ready("the database does not answer", "it did not answer in time"),
    }
    match fanout {
        Some(fanout) if !fanout.is_up() => not_ready("fan-out to the other replicas does not work", fanout.backend()),
        _ => fine(),
    }
}

fn fine() -> Response {
    ([(CACHE_CONTROL, "no-store")], "ok\n").into_response()
}

fn not_ready(what: &'static str, reason: &str) -> Response {
    tracing::warn!(reason, "{what}");
    Problem::unavailable(what, RETRY).into_response()
}

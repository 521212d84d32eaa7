//! `GET /healthz` reports that the process runs, `GET /readyz` that it can serve requests.

use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use gatewright_db::Db;
use gatewright_events::fanout::FanoutStatus;
use gatewright_http::Problem;
use http::header::CACHE_CONTROL;
use serde_json::json;

use crate::app::limits::LimitsStatus;
use crate::app::tasks::Tasks;
use crate::replicas::Agreement;
use crate::serve::Draining;

/// How long the database may take to give a sign of life.
const TIMEOUT: Duration = Duration::from_secs(2);
/// When to ask again.
const RETRY: Duration = Duration::from_secs(1);

pub(crate) async fn healthz() -> Response {
    ([(CACHE_CONTROL, "no-store")], "ok\n").into_response()
}

/// What readiness depends on. Without the database there is no request that works. Without the others, most do: a load
/// balancer that removed this server would remove all of them, because they share these services.
#[derive(Clone)]
pub(crate) struct Readiness {
    pub(crate) db: Db,
    pub(crate) fanout: Option<FanoutStatus>,
    pub(crate) limits: LimitsStatus,
    pub(crate) agreement: Agreement,
    pub(crate) draining: Draining,
    /// Not queried; the route keeps it alive.
    pub(crate) _tasks: Tasks,
}

pub(crate) async fn readyz(Readiness { db, fanout, limits, agreement, draining, .. }: Readiness) -> Response {
    if draining.has_begun() {
        return Problem::unavailable("the server is stopping", RETRY).into_response();
    }
    match tokio::time::timeout(TIMEOUT, db.ping()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return not_ready("the database does not answer", &error.to_string()),
        Err(_) => return not_ready("the database does not answer", "it did not answer in time"),
    }
    let lost = [
        ("carrier", fanout.is_some_and(|fanout| !fanout.is_up())),
        ("limits", !limits.is_up()),
        ("settings", agreement.is_broken()),
    ];
    let degraded: Vec<&str> = lost.into_iter().filter(|(_, is_lost)| *is_lost).map(|(name, _)| name).collect();
    let status = if degraded.is_empty() { "ready" } else { "degraded" };
    ([(CACHE_CONTROL, "no-store")], Json(json!({ "status": status, "degraded": degraded }))).into_response()
}

fn not_ready(what: &'static str, reason: &str) -> Response {
    tracing::warn!(reason, "{what}");
    Problem::unavailable(what, RETRY).into_response()
}

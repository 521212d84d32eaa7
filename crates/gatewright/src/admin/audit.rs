use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use gatewright_auth::audit::{AuditQuery, AuditRecord};
use gatewright_base::{JsonCase, canonical_id, time};
use gatewright_http::{Problem, Query};
use jiff::Timestamp;
use serde_json::Value;

use super::AdminState;
use super::answer::{database, limit, object, page};

/// `GET /audit`: the audit log, the latest entries first.
pub(super) fn routes() -> Router<AdminState> {
    Router::new().route("/audit", get(list))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    kind: Option<String>,
    user: Option<String>,
    subject: Option<String>,
    since: Option<String>,
    until: Option<String>,
    cursor: Option<String>,
    limit: Option<u32>,
}

async fn list(State(state): State<AdminState>, Query(search): Query<Search>) -> Result<Json<Value>, Problem> {
    let given = |text: Option<String>| text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let moment = |name: &str, text: Option<String>| {
        let text = given(text);
        let wrong = || Problem::bad_request(format!("{name} is a point in time, such as 2026-01-31T12:00:00Z"));
        text.map(|text| time::parse(&text).ok_or_else(wrong)).transpose()
    };
    let query = AuditQuery {
        kind: given(search.kind),
        user: given(search.user).map(|id| canonical_id(&id).into_owned()),
        subject: given(search.subject).map(|id| canonical_id(&id).into_owned()),
        since: moment("since", search.since)?,
        until: moment("until", search.until)?,
        after: given(search.cursor).map(|cursor| position(&cursor)).transpose()?,
        limit: limit(search.limit),
    };
    let found = state.audit_log.list(&query).await.map_err(database)?;
    let is_full = u32::try_from(found.len()).is_ok_and(|count| count == query.limit);
    let cursor = found.last().filter(|_| is_full).map(|last| format!("{}/{}", time::format(last.at), last.id));
    Ok(page(found.iter().map(|event| shown(event, state.config.server.json_case)).collect(), cursor))
}

fn position(cursor: &str) -> Result<(Timestamp, String), Problem> {
    let found = cursor.split_once('/').and_then(|(at, id)| Some((time::parse(at)?, id.to_owned())));
    found.ok_or_else(|| Problem::bad_request("invalid cursor for this list"))
}

fn shown(event: &AuditRecord, case: JsonCase) -> Value {
    object(
        case,
        [
            ("id", event.id.as_str().into()),
            ("kind", event.kind.as_str().into()),
            ("user", event.user.as_deref().into()),
            ("remote", event.remote.as_deref().into()),
            ("subject", event.subject.as_deref().into()),
            ("meta", event.meta.clone()),
            ("at", time::format(event.at).into()),
        ],
    )
}

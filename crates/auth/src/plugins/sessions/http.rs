use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get};
use axum::{Json, Router};
use gatewright_base::{JsonCase, SessionId, time};
use gatewright_http::{Problem, Segment};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::flow::Flow;
use crate::core::Core;
use crate::session::{Session, StoredSession};
use crate::web::{Case, Visitor, without_session};

/// `GET` and `DELETE /sessions`, `DELETE /sessions/{id}`.
pub(in crate::plugins) fn routes(core: Arc<Core>) -> Router {
    Router::new()
        .route("/sessions", get(list).delete(end_others))
        .route("/sessions/{id}", delete(end))
        .with_state(Arc::new(Flow { core }))
}

async fn list(State(flow): State<Arc<Flow>>, Case(case): Case, caller: Session) -> Result<Json<Value>, Problem> {
    let sessions = flow.list(&caller).await?;
    let sessions: Vec<_> = sessions.iter().map(|session| object(session, &caller, case)).collect();
    Ok(Json(json!({ "sessions": sessions })))
}

async fn end(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    caller: Session,
    Segment(id): Segment,
) -> Result<Response, Problem> {
    let missing = || Problem::not_found("no such session");
    let id = SessionId::parse(&id).map_err(|_| missing())?;
    if !flow.end(&caller, &id, &visitor.client).await? {
        return Err(missing());
    }
    let answer = StatusCode::NO_CONTENT.into_response();
    Ok(if id == *caller.id() { without_session(answer, &flow.core) } else { answer })
}

async fn end_others(State(flow): State<Arc<Flow>>, visitor: Visitor, caller: Session) -> Result<StatusCode, Problem> {
    flow.end_others(&caller, &visitor.client).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn object(session: &StoredSession, caller: &Session, case: JsonCase) -> Map<String, Value> {
    let fields = [
        ("id", json!(session.id)),
        ("created_at", time::format(session.started_at).into()),
        ("last_seen_at", time::format(session.last_seen_at).into()),
        ("expires_at", time::format(session.expires_at).into()),
        ("address", session.client.address().map(|address| address.to_string()).into()),
        ("user_agent", session.client.user_agent().into()),
        ("current", (session.id == *caller.id()).into()),
    ];
    fields.into_iter().map(|(name, value)| (case.spell(name), value)).collect()
}

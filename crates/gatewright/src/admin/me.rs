use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use gatewright_base::Subject;
use gatewright_db::Engine;
use serde_json::{Value, json};

use super::AdminState;
use super::answer::{data, object};
use super::gate::Operator;
use crate::app::parts;

/// `GET /me`: the caller, their permissions, and the parts of the console that they can use.
pub(super) fn routes() -> Router<AdminState> {
    Router::new().route("/me", get(me))
}

async fn me(State(state): State<AdminState>, operator: Operator) -> Json<Value> {
    let config = &state.config;
    let has = [
        ("outbox", state.outbox.is_some()),
        ("jobs", state.jobs.is_some()),
        ("events", state.streams.is_enabled()),
        ("tenants", parts::has_tenants(config)),
        ("mail", state.mail.counts().is_some()),
        ("mail_queue", state.mail.is_stored()),
        ("audit", config.audit.enabled),
        ("clients", config.authorization_server.enabled),
        ("invitations", parts::invites(config)),
        ("services", state.auth.service_accounts().is_some()),
        ("backup", state.db.engine() == Engine::Sqlite),
    ];
    let features: Vec<_> = has.into_iter().filter_map(|(name, on)| on.then_some(name)).collect();
    let kind = match &operator.subject {
        Subject::User(_) => "user",
        Subject::Service(_) => "service",
    };
    data(object(
        config.server.json_case,
        [
            ("id", operator.subject.as_str().into()),
            ("kind", kind.into()),
            ("email", operator.email.into()),
            ("may_write", operator.may_write.into()),
            ("fresh", operator.is_fresh.into()),
            ("features", json!(features)),
            ("version", env!("CARGO_PKG_VERSION").into()),
        ],
    ))
}

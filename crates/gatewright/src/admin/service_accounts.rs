use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use gatewright_auth::service_accounts::{ServiceAccount, ServiceAccountError, ServiceAccounts};
use gatewright_base::{JsonCase, ServiceId, time};
use gatewright_http::{JsonBody, Problem, Segment};
use http::StatusCode;
use serde_json::{Value, json};

use super::AdminState;
use super::answer::{data, noted, object, unavailable};
use super::gate::Fresh;
use super::users;

/// The accounts of programs.
pub(super) fn routes() -> Router<AdminState> {
    Router::new()
        .route("/service-accounts", get(list).post(create))
        .route("/service-accounts/{id}/disable", post(disable))
        .route("/service-accounts/{id}/enable", post(enable))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct New {
    name: String,
    #[serde(default)]
    roles: Vec<String>,
}

async fn list(State(state): State<AdminState>) -> Result<Json<Value>, Problem> {
    let found = accounts(&state)?.list().await.map_err(failed)?;
    let case = state.config.server.json_case;
    Ok(data(found.iter().map(|account| shown(account, case)).collect::<Vec<_>>()))
}

async fn create(State(state): State<AdminState>, _: Fresh, JsonBody(body): JsonBody<New>) -> Result<Response, Problem> {
    let roles = users::roles(&body.roles)?;
    let account = accounts(&state)?.create(&body.name, roles).await.map_err(failed)?;
    let answer = (StatusCode::CREATED, data(shown(&account, state.config.server.json_case)));
    let details = [("service_account", account.id.as_str().into()), ("roles", json!(account.roles))];
    Ok(noted(answer, details))
}

async fn disable(State(state): State<AdminState>, Segment(id): Segment) -> Result<StatusCode, Problem> {
    accounts(&state)?.disable(&named(&id)?).await.map_err(failed)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn enable(State(state): State<AdminState>, Segment(id): Segment) -> Result<StatusCode, Problem> {
    accounts(&state)?.enable(&named(&id)?).await.map_err(failed)?;
    Ok(StatusCode::NO_CONTENT)
}

fn accounts(state: &AdminState) -> Result<ServiceAccounts, Problem> {
    let off = || Problem::not_found("there are no service accounts; add \"tokens\" to `auth.plugins`");
    state.auth.service_accounts().ok_or_else(off)
}

fn named(id: &str) -> Result<ServiceId, Problem> {
    ServiceId::parse(id).map_err(|_| Problem::not_found("no such service account"))
}

fn failed(error: ServiceAccountError) -> Problem {
    match error {
        ServiceAccountError::Name(wrong) => Problem::invalid_field("name", "invalid", wrong.to_string()),
        ServiceAccountError::NameTaken => Problem::conflict(error.to_string()).with_code("name_taken"),
        ServiceAccountError::NotFound => Problem::not_found("no such service account"),
        error => unavailable(&error),
    }
}

fn shown(account: &ServiceAccount, case: JsonCase) -> Value {
    object(
        case,
        [
            ("id", account.id.as_str().into()),
            ("name", account.name.as_str().into()),
            ("roles", json!(account.roles)),
            ("disabled", account.disabled.into()),
            ("created_at", time::format(account.created_at).into()),
        ],
    )
}

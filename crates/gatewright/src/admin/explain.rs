use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use gatewright_auth::AccountError;
use gatewright_entities::Action;
use gatewright_http::{JsonBody, Problem};
use serde_json::Value;

use super::AdminState;
use super::answer::{data, unavailable};
use crate::{ExplainAs, ExplainError, Question, explain};

/// `POST /explain`: why an account may do something, or may not.
pub(super) fn routes() -> Router<AdminState> {
    Router::new().route("/explain", post(decide))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    /// An address, `service:NAME` or `anonymous`.
    r#as: String,
    operation: String,
    table: String,
    id: Option<String>,
    tenant: Option<String>,
}

async fn decide(State(state): State<AdminState>, JsonBody(body): JsonBody<Body>) -> Result<Json<Value>, Problem> {
    let wanted = Action::ALL.into_iter().find(|action| action.as_str() == body.operation);
    let operation = wanted
        .ok_or_else(|| Problem::invalid_field("operation", "invalid", "is one of read, create, update and delete"))?;
    let caller = match (&*body.r#as, body.r#as.strip_prefix("service:")) {
        ("anonymous", _) => ExplainAs::Anonymous,
        (_, Some(name)) => ExplainAs::Service(name),
        (email, None) => ExplainAs::User(email),
    };
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let (id, tenant) = (given(&body.id), given(&body.tenant));
    let question = Question { caller, operation, table: &body.table, id: id.as_deref(), tenant: tenant.as_deref() };
    let explanation = explain(&state.entities, Some(&state.auth), question).await.map_err(refusal)?;
    let explanation = serde_json::to_value(explanation).map_err(|error| Problem::internal(&error))?;
    Ok(data(explanation))
}

fn refusal(error: ExplainError) -> Problem {
    let message = error.to_string();
    match error {
        ExplainError::NoEntity(_) => Problem::invalid_field("table", "unknown", message),
        ExplainError::NoAccount(_)
        | ExplainError::NoServiceAccount(_)
        | ExplainError::DisabledServiceAccount(_)
        | ExplainError::NoAccounts => Problem::invalid_field("as", "unknown", message),
        ExplainError::Account(AccountError::Email(_)) => Problem::invalid_field("as", "invalid", message),
        ExplainError::Tenant => Problem::invalid_field("tenant", "invalid", message),
        ExplainError::Operation(error) => error.into(),
        error => unavailable(&error),
    }
}

use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use axum::{Json, Router};
use gatewright_auth::session::{Client, Session};
use gatewright_auth::{AccountError, ImpersonationError};
use gatewright_base::time;
use gatewright_http::{CsrfBinding, JsonBody, Problem, Segment};
use http::header::SET_COOKIE;

use super::AdminState;
use super::answer::{account, data, noted, object};
use super::gate::{Fresh, Operator};
use super::users::named;

/// `POST /users/{id}/impersonate`: the operator acts as a user.
pub(super) fn routes() -> Router<AdminState> {
    Router::new().route("/users/{id}/impersonate", post(impersonate))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Impersonation {
    reason: String,
}

/// The session is that of the request: a token has no browser that could get the cookie.
async fn impersonate(
    State(state): State<AdminState>,
    operator: Operator,
    _: Fresh,
    session: Result<Session, Problem>,
    Segment(id): Segment,
    JsonBody(body): JsonBody<Impersonation>,
) -> Result<Response, Problem> {
    let user = named(&id)?;
    let session = session.map_err(|_| refusal(ImpersonationError::NotAnOperator))?;
    let client = Client::new(operator.address, None);
    let begun = state.auth.accounts().impersonate(&session, &user, &body.reason, &client).await.map_err(refusal)?;
    let case = state.config.server.json_case;
    let answer: Json<_> =
        data(object(case, [("user_id", user.as_str().into()), ("expires_at", time::format(begun.expires_at).into())]));
    let details = [("reason", body.reason.trim().into()), ("impersonation", begun.id.as_str().into())];
    let mut response = noted(answer, details);
    response.headers_mut().append(SET_COOKIE, begun.cookie);
    response.extensions_mut().insert(CsrfBinding::session(begun.id.as_str()));
    Ok(response)
}

fn refusal(error: ImpersonationError) -> Problem {
    let detail = error.to_string();
    match error {
        ImpersonationError::Off => Problem::not_found(detail).with_code("impersonation_off"),
        ImpersonationError::NotAnOperator => Problem::forbidden(detail).with_code("session_required"),
        ImpersonationError::AnOperator => Problem::forbidden(detail).with_code("operator_account"),
        ImpersonationError::Disabled => Problem::conflict(detail).with_code("account_disabled"),
        ImpersonationError::Reason => Problem::invalid_field("reason", "invalid", detail),
        ImpersonationError::Account(AccountError::Users(error)) => account(AccountError::Users(error)),
        error => super::answer::unavailable(&error),
    }
}

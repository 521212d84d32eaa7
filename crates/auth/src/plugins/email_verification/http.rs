use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use gatewright_base::Secret;
use gatewright_http::{Problem, Query, Submission, html};
use serde_json::json;

use super::flow::{Flow, VerifyError};
use crate::plugins::web::{By, Visitor, guarded};
use crate::screens::mailed;
use crate::session::Session;
use crate::{problem, step_up};

pub(super) fn routes(flow: Arc<Flow>) -> Router {
    let core = flow.core.clone();
    let by_address = core.limiter("email_verification", &core.config.limits.email_verification);
    Router::new()
        .route("/send-verification", guarded(&core, Some(&by_address), post(send)))
        .route("/verify-email", get(verify))
        .with_state(flow)
}

#[derive(serde::Deserialize)]
struct Link {
    token: Option<Secret>,
}

/// For a session alone: a JWT or an API token is 401. A user with a second factor must have proven it in the session.
async fn send(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    By(session): By<Session>,
    submission: Submission<()>,
) -> Response {
    let kind = submission.kind;
    if let Err(error) = step_up::require(&flow.core, &session).await {
        return kind.refuse(error.into());
    }
    if !flow.links.can_be_sent() {
        return kind.refuse(problem::not_configured("email delivery not configured"));
    }
    match flow.send(&session, &visitor.client).await {
        Ok(()) if kind.is_form() => mailed::link_is_on_its_way(),
        Ok(()) => Json(json!({ "sent": true })).into_response(),
        Err(error) => kind.refuse(problem::store_failed(&error)),
    }
}

/// JSON for scripts, a page for browsers.
async fn verify(State(flow): State<Arc<Flow>>, visitor: Visitor, Query(link): Query<Link>) -> Response {
    let token = link.token.unwrap_or_else(|| Secret::new(""));
    match flow.verify(&token, &visitor.client).await {
        Ok(()) if html::is_wanted(&visitor.headers) => mailed::verified(),
        Ok(()) => Json(json!({ "verified": true })).into_response(),
        Err(error) => Problem::from(error).answer_link(&visitor.headers),
    }
}

impl From<VerifyError> for Problem {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::InvalidToken => problem::invalid_token(),
            VerifyError::Tokens(error) => problem::store_failed(&error),
            VerifyError::Users(error) => error.into(),
        }
    }
}

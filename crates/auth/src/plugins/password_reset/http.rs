use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use gatewright_base::Secret;
use gatewright_http::{Problem, Submission};
use serde_json::json;

use super::flow::{Flow, ResetError};
use crate::plugins::web::{Visitor, guarded};
use crate::problem;
use crate::screens::mailed;

pub(super) fn routes(flow: Arc<Flow>) -> Router {
    let core = flow.core.clone();
    let by_address = core.limiter("password_reset", &core.config.limits.password_reset);
    Router::new()
        .route("/forgot-password", guarded(&core, Some(&by_address), post(forgot)))
        .route("/reset-password", guarded(&core, Some(&by_address), post(reset)))
        .with_state(flow)
}

#[derive(serde::Deserialize)]
struct Address {
    email: String,
}

#[derive(serde::Deserialize)]
struct NewPassword {
    token: Secret,
    password: Secret,
}

/// Always the same, whoever asks and for whom.
async fn forgot(State(flow): State<Arc<Flow>>, visitor: Visitor, submission: Submission<Address>) -> Response {
    flow.request(&submission.value.email, submission.next, &visitor.client);
    if submission.kind.is_form() {
        mailed::link_may_be_on_its_way()
    } else {
        Json(json!({ "sent": true })).into_response()
    }
}

async fn reset(State(flow): State<Arc<Flow>>, visitor: Visitor, submission: Submission<NewPassword>) -> Response {
    let NewPassword { token, password } = submission.value;
    match flow.reset(&token, password, &visitor.client).await {
        Ok(next) if submission.kind.is_form() => mailed::password_is_set(&flow.core, next.as_ref()),
        Ok(_) => Json(json!({ "updated": true })).into_response(),
        Err(ResetError::WeakPassword(weak)) if submission.kind.is_form() => {
            mailed::reset_failed(&flow.core, &visitor, &token, weak.into())
        }
        Err(ResetError::InvalidToken) => submission.kind.refuse(mailed::spent_reset_link(&flow.core)),
        Err(error) => submission.kind.refuse(error.into()),
    }
}

impl From<ResetError> for Problem {
    fn from(error: ResetError) -> Self {
        match error {
            ResetError::InvalidToken => problem::invalid_token(),
            ResetError::WeakPassword(error) => error.into(),
            ResetError::Hash(error) => error.into(),
            ResetError::Users(error) => error.into(),
            ResetError::Prove(error) => error.into(),
            ResetError::Tokens(error) => problem::store_failed(&error),
            ResetError::Account(error) => problem::store_failed(&error),
        }
    }
}

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use gatewright_base::Secret;
use gatewright_http::{Problem, Submission};
use serde_json::json;

use super::flow::{Flow, ResetError};
use crate::email::EmailAddress;
use crate::problem;
use crate::screens::mailed;
use crate::single_use::Purpose;
use crate::single_use::codes::Returned;
use crate::web::{Visitor, guarded, with_cookie};

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
    #[serde(flatten)]
    returned: Returned,
    password: Secret,
}

/// The answer is the same for every caller and every address.
async fn forgot(State(flow): State<Arc<Flow>>, visitor: Visitor, submission: Submission<Address>) -> Response {
    let next = submission.next.as_ref();
    let answer = if submission.kind.is_form() {
        mailed::check_mail(&flow.core, &visitor, Purpose::PasswordReset, next)
    } else {
        Json(json!({ "sent": true })).into_response()
    };
    let drawn = flow.links.draw(submission.kind.is_form());
    // An invalid address gets a cookie too, for which no code exists.
    let cookie = flow.links.cookie(&drawn);
    if let Ok(email) = EmailAddress::parse(&submission.value.email) {
        flow.request(drawn, email, submission.next, &visitor.client);
    }
    with_cookie(answer, cookie)
}

async fn reset(State(flow): State<Arc<Flow>>, visitor: Visitor, submission: Submission<NewPassword>) -> Response {
    let (NewPassword { returned, password }, kind) = (submission.value, submission.kind);
    let (core, by_code) = (&flow.core, returned.code.is_some());
    let again = |problem: &Problem| mailed::code_failed(core, &visitor, Purpose::PasswordReset, None, problem);
    // Looked at first: a password that breaks a rule costs no attempt.
    if let (true, Err(weak)) = (by_code && kind.is_form(), core.passwords.accept(password.clone())) {
        return again(&weak.into());
    }
    let token = match flow.links.codes.token(&returned, &visitor.headers).await {
        Ok(token) => token,
        Err(error) => return mailed::code_refused(core, &visitor, kind, Purpose::PasswordReset, None, error),
    };
    let answer = match flow.reset(&token, password, &visitor.client).await {
        Ok(next) if kind.is_form() => mailed::password_is_set(core, next.as_ref()),
        Ok(_) => Json(json!({ "updated": true })).into_response(),
        Err(ResetError::WeakPassword(weak)) if kind.is_form() => {
            return mailed::reset_failed(core, &visitor, &token, weak.into());
        }
        Err(ResetError::InvalidToken) => return kind.refuse(mailed::spent_reset_link(core)),
        Err(error) => return kind.refuse(error.into()),
    };
    with_cookie(answer, flow.links.codes.remove_cookie())
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

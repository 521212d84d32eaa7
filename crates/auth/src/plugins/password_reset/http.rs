use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use gatewright_base::{JsonCase, Secret};
use gatewright_http::{Problem, Submission};
use serde_json::{Value, json};

use super::flow::{Done, Flow, Others, ResetError};
use crate::email::EmailAddress;
use crate::password::PasswordOwner;
use crate::problem;
use crate::screens::mailed;
use crate::single_use::Purpose;
use crate::single_use::codes::Returned;
use crate::web::{Case, Visitor, guarded, guarded_proof, proved, with_cookie};

pub(super) fn routes(flow: Arc<Flow>) -> Router {
    let core = flow.core.clone();
    let by_address = core.limiter("password_reset", &core.config.limits.password_reset);
    Router::new()
        .route("/forgot-password", guarded(&core, Some(&by_address), post(forgot)))
        .route("/reset-password", guarded_proof(&core, &by_address, post(reset)))
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
    /// Whether API tokens, connected programs, passkeys, linked providers and sent invitations end too.
    end_others: Option<bool>,
    /// Set by the forms that ask for it: a box that is not ticked sends nothing.
    others: Option<String>,
}

impl NewPassword {
    /// They end unless the caller keeps them.
    fn others(&self) -> Others {
        match (self.end_others, &self.others) {
            (Some(true), _) | (None, None) => Others::End,
            (Some(false), _) | (None, Some(_)) => Others::Keep,
        }
    }
}

/// The answer is the same for every caller and every address.
async fn forgot(State(flow): State<Arc<Flow>>, visitor: Visitor, submission: Submission<Address>) -> Response {
    let next = submission.next.as_ref();
    let answer = if submission.kind.is_form() {
        mailed::check_mail(&flow.core, &visitor, Purpose::PasswordReset, Some(&submission.value.email), next)
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

async fn reset(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    Case(case): Case,
    submission: Submission<NewPassword>,
) -> Response {
    let (others, kind) = (submission.value.others(), submission.kind);
    let NewPassword { returned, password, .. } = submission.value;
    let (core, by_code) = (&flow.core, returned.code.is_some());
    let again = |problem: &Problem| mailed::code_failed(core, &visitor, Purpose::PasswordReset, None, problem);
    // Looked at first: a password that breaks a rule costs no attempt. The account is not known yet.
    if let (true, Err(weak)) =
        (by_code && kind.is_form(), core.passwords.accept(password.clone(), PasswordOwner::default()))
    {
        return again(&weak.into());
    }
    let token = match flow.links.token(&returned, &visitor.headers).await {
        Ok(token) => token,
        Err(error) => return mailed::code_refused(core, &visitor, kind, Purpose::PasswordReset, None, error),
    };
    let answer = match flow.reset(&token, password, others, &visitor.client).await {
        Ok(done) if kind.is_form() => mailed::password_is_set(core, done.next.as_ref()),
        Ok(done) => Json(updated(&done, case)).into_response(),
        Err(ResetError::WeakPassword(weak)) if kind.is_form() => {
            return mailed::reset_failed(core, &visitor, &flow.links, &token, weak.into()).await;
        }
        Err(ResetError::InvalidToken) => return kind.refuse(mailed::spent_reset_link(core)),
        Err(error) => return kind.refuse(error.into()),
    };
    proved(with_cookie(answer, flow.links.codes.remove_cookie()))
}

/// `ended` names the kinds of credentials that have ended, and `kept` counts those that stay, where there are any.
fn updated(done: &Done, case: JsonCase) -> Value {
    let mut body = json!({ "updated": true });
    if !done.ended.is_empty() {
        body["ended"] = done.ended.iter().map(|kind| Value::from(case.spell(kind))).collect();
    }
    if !done.kept.is_empty() {
        let counts = done.kept.iter().map(|held| (case.spell(held.kind), held.names.len().into()));
        body["kept"] = Value::Object(counts.collect());
    }
    body
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
            ResetError::Others(error) => problem::store_failed(&*error),
        }
    }
}

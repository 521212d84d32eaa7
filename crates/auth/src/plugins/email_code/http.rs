use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use gatewright_base::Secret;
use gatewright_http::{Problem, Submission};
use serde::de::IgnoredAny;
use serde_json::json;

use super::flow::{Flow, Returned, VerifyError};
use crate::email::EmailAddress;
use crate::plugins::mailed_sign_in::RedeemError;
use crate::plugins::password::screen;
use crate::plugins::sign_in;
use crate::screens::mailed;
use crate::single_use::codes::CodeError;
use crate::web::{Visitor, guarded, guarded_proof, not_counted, own_site_only, undeliverable, with_cookie};

pub(super) fn routes(flow: Arc<Flow>) -> Router {
    let core = flow.core.clone();
    let limit = &core.config.limits.email_code;
    let (by_address, of_guesses) = (core.limiter("email_code", limit), core.limiter("email_code_verify", limit));
    let can_be_sent = flow.codes.can_be_sent();
    let routes = Router::new()
        .route("/email-code/send", guarded(&core, Some(&by_address), post(send)))
        .route("/email-code/verify", guarded_proof(&core, &of_guesses, own_site_only(&core, post(verify))))
        .with_state(flow);
    if can_be_sent { routes } else { undeliverable(routes, "email code delivery not configured") }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Address {
    email: String,
    /// The page of sign-ins has one form with several buttons, and sends the password's field to all. It is not read.
    #[serde(default, rename = "password")]
    _password: IgnoredAny,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Typed {
    email: String,
    code: Secret,
    request: Option<Secret>,
}

async fn send(State(flow): State<Arc<Flow>>, visitor: Visitor, submission: Submission<Address>) -> Response {
    let kind = submission.kind;
    let Ok(email) = EmailAddress::parse(&submission.value.email) else {
        let problem = Problem::invalid_field("email", "invalid", "not a valid email address");
        return screen::refuse_address(&flow.core, &visitor, &submission.value.email, problem, &submission);
    };
    let drawn = flow.codes.draw(email);
    let request = flow.codes.request(&drawn);
    let answer = match flow.send(&drawn, &visitor.client).await {
        Ok(()) if kind.is_form() => {
            mailed::check_mail_for_code(&flow.core, &visitor, drawn.email().as_str(), submission.next.as_ref(), None)
        }
        Ok(()) => Json(json!({ "sent": true, "request": request.expose() })).into_response(),
        Err(error) => return kind.refuse(error.into()),
    };
    with_cookie(answer, flow.codes.cookie(&request))
}

async fn verify(State(flow): State<Arc<Flow>>, visitor: Visitor, submission: Submission<Typed>) -> Response {
    let (kind, typed, next) = (submission.kind, &submission.value, submission.next.as_ref());
    let returned = Returned { email: &typed.email, code: &typed.code, request: typed.request.as_ref() };
    match flow.verify(&returned, &visitor.headers, visitor.client.clone()).await {
        Ok(signed_in) => {
            let answer = sign_in::answer_new(&flow.core, &visitor, kind, &signed_in, next).await;
            with_cookie(answer, flow.codes.remove_cookie())
        }
        Err(VerifyError::Denied(denied)) => not_counted(denied.into_response()),
        Err(VerifyError::Invalid | VerifyError::Refused(RedeemError::InvalidToken)) if kind.is_form() => {
            let problem = CodeError::Invalid.into();
            mailed::check_mail_for_code(&flow.core, &visitor, &typed.email, next, Some(&problem))
        }
        Err(error) => kind.refuse(error.into()),
    }
}

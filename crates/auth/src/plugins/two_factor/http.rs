use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use gatewright_base::{JsonCase, Secret};
use gatewright_http::{Kind, Problem, ProblemLink, Submission};
use serde_json::{Map, Value, json};

use super::flow::{Flow, TwoFactorError};
use super::screen;
use crate::background::uncut_get;
use crate::devices::Browser;
use crate::fresh::{FreshError, Given, OnlyGiven};
use crate::plugins::sign_in::with_device;
use crate::problem;
use crate::session::{PendingSession, Session};
use crate::web::{
    By, Case, Visitor, guarded, guarded_proof, no_head, own_site_only, proved, redirect_next, with_session,
};

/// The routes under `/2fa`. Guesses are counted by address and by account, wherever codes are taken.
pub(super) fn routes(flow: Arc<Flow>) -> Router {
    let core = &flow.core;
    let limited = |route| guarded_proof(core, &flow.by_address, route);
    let disable = guarded_proof(core, &flow.disable_by_address, post(disable));
    // The GET changes something, and a page anywhere can make a browser send a GET.
    let fresh = uncut_get(&core.background, get(backup_codes).head(no_head).post(backup_codes_by_post));
    let fresh = own_site_only(core, fresh);
    Router::new()
        .route("/2fa/enroll", guarded(core, None, post(enroll)))
        .route("/2fa/verify", limited(post(verify)))
        .route("/2fa/challenge", limited(post(challenge)))
        .route("/2fa/disable", disable)
        .route("/2fa/backup-codes", fresh)
        .with_state(flow)
}

#[derive(serde::Deserialize)]
struct Body {
    code: Secret,
}

/// The code that enables a factor.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Enrollment {
    code: Secret,
}

async fn enroll(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    By(session): By<Session>,
    Submission { kind, value, next }: Submission<OnlyGiven>,
) -> Response {
    match flow.enroll(&session, &value.into(), &visitor.client).await {
        Ok(begun) if kind.is_form() => screen::enrollment(&flow.core, &visitor, Some(&begun), next.as_ref(), None),
        Ok(begun) => {
            let (secret, url, qr) = (begun.secret.expose(), begun.url.expose(), begun.qr.expose());
            Json(json!({ "secret": secret, "url": url, "qr": qr })).into_response()
        }
        Err(error) => refuse_form_of_account(&flow, kind, error),
    }
}

async fn verify(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    Case(case): Case,
    By(session): By<Session>,
    submission: Submission<Enrollment>,
) -> Response {
    match flow.verify(&session, &submission.value.code, &visitor.client).await {
        Ok(codes) if submission.kind.is_form() => proved(screen::backup_codes(&codes, submission.next.as_ref())),
        Err(TwoFactorError::InvalidCode) if submission.kind.is_form() => match flow.begun(&session).await {
            Ok(begun) => {
                let next = submission.next.as_ref();
                screen::enrollment(&flow.core, &visitor, begun.as_ref(), next, Some(&invalid_code()))
            }
            Err(_) => submission.kind.refuse(invalid_code()),
        },
        Ok(codes) => {
            let mut body = Map::new();
            body.insert("enabled".to_owned(), true.into());
            body.insert(case.spell("backup_codes"), exposed(&codes));
            proved(Json(body).into_response())
        }
        Err(error) => refuse_form_of_account(&flow, submission.kind, error),
    }
}

async fn challenge(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    By(pending): By<PendingSession>,
    submission: Submission<Body>,
) -> Response {
    let browser = Browser::of(&flow.core, &visitor.headers);
    let passed = match flow.challenge(&pending, &submission.value.code, &visitor.client, &browser).await {
        Ok(passed) => passed,
        Err(TwoFactorError::InvalidCode) if submission.kind.is_form() => {
            return screen::failed(&flow.core, invalid_code(), &visitor, submission.next.as_ref());
        }
        Err(error) => return refuse(&submission, error),
    };
    tracing::debug!(session = %passed.session.id(), "a second factor was proven");
    let answer = if submission.kind.is_form() {
        redirect_next(&flow.core, submission.next.as_ref(), "/")
    } else {
        let mut body = json!({ "verified": true });
        if let Some(token) = passed.token.as_ref().filter(|_| !visitor.cookie_only) {
            body["token"] = token.expose().into();
        }
        Json(body).into_response()
    };
    let answer = with_session(answer, &flow.core, passed.session.id(), &passed.secret);
    proved(with_device(answer, passed.device.as_ref()))
}

async fn disable(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    By(session): By<Session>,
    submission: Submission<Body>,
) -> Response {
    match flow.disable(&session, &submission.value.code, &visitor.client).await {
        Ok(()) if submission.kind.is_form() => proved(redirect_next(&flow.core, submission.next.as_ref(), "/")),
        Ok(()) => proved(Json(json!({ "disabled": true })).into_response()),
        Err(error) => refuse(&submission, error),
    }
}

async fn backup_codes(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    Case(case): Case,
    session: Session,
) -> Result<Response, Problem> {
    let codes = flow.fresh_backup_codes(&session, &Given::default(), &visitor.client).await?;
    Ok(listed(&codes, case))
}

async fn backup_codes_by_post(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    Case(case): Case,
    By(session): By<Session>,
    Submission { kind, value, next }: Submission<OnlyGiven>,
) -> Response {
    match flow.fresh_backup_codes(&session, &value.into(), &visitor.client).await {
        Ok(codes) if kind.is_form() => screen::backup_codes(&codes, next.as_ref()),
        Ok(codes) => listed(&codes, case),
        Err(error) => refuse_form_of_account(&flow, kind, error),
    }
}

fn listed(codes: &[Secret], case: JsonCase) -> Response {
    let body: Map<String, Value> = [(case.spell("backup_codes"), exposed(codes))].into_iter().collect();
    Json(body).into_response()
}

fn exposed(codes: &[Secret]) -> Value {
    codes.iter().map(Secret::expose).collect()
}

fn invalid_code() -> Problem {
    Problem::unauthorized("invalid code").with_code("invalid_code")
}

fn refuse<T>(submission: &Submission<T>, error: TwoFactorError) -> Response {
    match error {
        TwoFactorError::Denied(denied) => denied.into_response(),
        error => submission.kind.refuse(error.into()),
    }
}

/// The same for the forms of the account page, with the way back to it.
fn refuse_form_of_account(flow: &Flow, kind: Kind, error: TwoFactorError) -> Response {
    match error {
        TwoFactorError::Denied(denied) | TwoFactorError::Fresh(FreshError::Denied(denied)) => denied.into_response(),
        error if flow.core.screens.get().is_some() => {
            kind.refuse(Problem::from(error).with_link(ProblemLink::new("way_on.back_to_account", screen::ACCOUNT)))
        }
        error => kind.refuse(error.into()),
    }
}

impl From<TwoFactorError> for Problem {
    fn from(error: TwoFactorError) -> Self {
        match error {
            // Only callers that count no attempt come here with it.
            TwoFactorError::Denied(denied) => denied.into(),
            TwoFactorError::InvalidCode => invalid_code(),
            TwoFactorError::AlreadyEnabled => Self::conflict(error.to_string()).with_code("two_factor_enabled"),
            TwoFactorError::NotEnabled => Self::conflict(error.to_string()).with_code("two_factor_not_enabled"),
            TwoFactorError::NotBegun => Self::conflict(error.to_string()).with_code("enrollment_not_begun"),
            TwoFactorError::Fresh(error) => error.into(),
            TwoFactorError::StepUp(error) => error.into(),
            TwoFactorError::Store(error) => problem::store_failed(&error),
            TwoFactorError::Corrupt(_) | TwoFactorError::Picture(_) => Self::internal(&error),
            TwoFactorError::Users(error) => error.into(),
            TwoFactorError::Mint(error) => error.into(),
        }
    }
}

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use gatewright_base::Secret;
use gatewright_http::{Problem, Query, Submission, html};
use serde_json::json;

use super::flow::{Flow, Opened, Opener, VerifyError};
use super::page;
use crate::background::uncut_get;
use crate::screens::mailed;
use crate::session::{AnySession, Session};
use crate::single_use::Purpose;
use crate::single_use::codes::{CodeError, Returned};
use crate::web::{self, By, NoFields, Visitor, guarded, no_head, own_site_only, undeliverable, with_cookie};
use crate::{problem, step_up};

pub(super) fn routes(flow: Arc<Flow>) -> Router {
    let core = flow.core.clone();
    let by_address = core.limiter("email_verification", &core.config.limits.email_verification);
    let can_be_sent = flow.links.can_be_sent();
    // The GET verifies for a browser of the account.
    let verify = uncut_get(&core.background, own_site_only(&core, post(confirm)).get(open).head(no_head));
    let routes = Router::new()
        .route("/send-verification", guarded(&core, Some(&by_address), post(send)))
        .route("/verify-email", guarded(&core, None, verify))
        .with_state(flow);
    if can_be_sent { routes } else { undeliverable(routes, "email delivery not configured") }
}

#[derive(serde::Deserialize)]
struct Link {
    token: Option<Secret>,
}

/// Only for a session: a JWT or an API token gets 401. A user with a second factor must have proven it in the session.
async fn send(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    By(session): By<Session>,
    submission: Submission<NoFields>,
) -> Response {
    let kind = submission.kind;
    if let Err(error) = step_up::require(&flow.core, &session).await {
        return kind.refuse(error.into());
    }
    let (drawn, next) = (flow.links.draw(kind.is_form()), submission.next.as_ref());
    let answer = match flow.send(&drawn, &session, next, &visitor.client).await {
        Ok(()) if kind.is_form() => {
            let email = session.user().email.as_str();
            mailed::check_mail(&flow.core, &visitor, Purpose::EmailVerification, Some(email), next)
        }
        Ok(()) => Json(json!({ "sent": true })).into_response(),
        Err(error) => return kind.refuse(problem::store_failed(&error)),
    };
    with_cookie(answer, flow.links.cookie(&drawn))
}

/// JSON for scripts, a page for browsers.
async fn open(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    session: Result<AnySession, Problem>,
    Query(link): Query<Link>,
) -> Response {
    let token = link.token.unwrap_or_else(|| Secret::new(""));
    let wants_page = html::is_wanted(&visitor.headers);
    let asks = match flow.links.asks_for_code(&token, &visitor.headers).await {
        Ok(asks) => asks,
        Err(error) => return problem::store_failed(&error).answer_link(&visitor.headers),
    };
    let session = session.ok();
    let opener = Opener { session: session.as_ref(), headers: &visitor.headers };
    match flow.open(&token, &opener, &visitor.client).await {
        Ok(Opened::Verified(verified)) if wants_page => page::verified(&flow.core, &verified),
        Ok(Opened::Verified(_)) => Json(json!({ "verified": true })).into_response(),
        Ok(Opened::Unconfirmed { email, claims }) if wants_page => {
            page::confirm(&flow.core, &visitor, &page::Ask { email: &email, token: &token, claims, code: asks }, None)
        }
        Ok(Opened::Unconfirmed { .. }) => Json(json!({ "verified": false, "confirm": "POST" })).into_response(),
        Err(VerifyError::InvalidToken) => spent(&flow).answer_link(&visitor.headers),
        Err(error) => Problem::from(error).answer_link(&visitor.headers),
    }
}

async fn confirm(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    session: Result<AnySession, Problem>,
    submission: Submission<Returned>,
) -> Response {
    let (kind, returned) = (submission.kind, &submission.value);
    let session = session.ok();
    let opener = Opener { session: session.as_ref(), headers: &visitor.headers };
    let token = match (flow.links.token(returned, &visitor.headers).await, &returned.token) {
        (Ok(token), _) => token,
        // The page of a link, in a browser that did not ask for it.
        (Err(error @ CodeError::Invalid), Some(token)) if kind.is_form() => {
            return match flow.open(token, &Opener { session: None, ..opener }, &visitor.client).await {
                Ok(Opened::Unconfirmed { email, claims }) => {
                    let ask = page::Ask { email: &email, token, claims, code: true };
                    page::confirm(&flow.core, &visitor, &ask, Some(&error.into()))
                }
                Ok(Opened::Verified(_)) | Err(_) => kind.refuse(spent(&flow)),
            };
        }
        (Err(error), _) => {
            let (purpose, next) = (Purpose::EmailVerification, submission.next.as_ref());
            return mailed::code_refused(&flow.core, &visitor, kind, purpose, next, error);
        }
    };
    let answer = match flow.confirm(&token, &opener, &visitor.client).await {
        Ok(verified) if kind.is_form() => page::verified(&flow.core, &verified),
        Ok(_) => Json(json!({ "verified": true })).into_response(),
        Err(VerifyError::InvalidToken) => return kind.refuse(spent(&flow)),
        Err(error) => return kind.refuse(error.into()),
    };
    with_cookie(answer, flow.links.codes.remove_cookie())
}

/// The refusal of a link that no longer works.
fn spent(flow: &Flow) -> Problem {
    web::spent_link(&flow.core, "way_on.new_link_by_account", "/account")
}

impl From<VerifyError> for Problem {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::InvalidToken => problem::invalid_token(),
            VerifyError::Tokens(error) => problem::store_failed(&error),
            VerifyError::Users(error) => error.into(),
            VerifyError::Prove(error) => error.into(),
        }
    }
}

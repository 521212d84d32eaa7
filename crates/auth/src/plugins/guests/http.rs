use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Json, Router};
use gatewright_http::{CsrfBinding, Problem};
use http::header::SET_COOKIE;

use super::flow::{Flow, GuestError};
use crate::plugins::sign_in;
use crate::session::{AnySession, GUEST_TTL, SessionCookie};
use crate::web::{Visitor, guarded_proof, proved};

/// `POST /anonymous`. A caller who is a guest already uses up nothing of the limit.
pub(super) fn routes(flow: Arc<Flow>) -> Router {
    let core = &flow.core;
    let limiter = core.limiter("anonymous", &core.config.limits.anonymous);
    let arrive = guarded_proof(core, &limiter, post(arrive));
    Router::new().route("/anonymous", arrive).with_state(flow)
}

async fn arrive(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    session: Option<Extension<AnySession>>,
) -> Result<Response, Problem> {
    let core = &flow.core;
    let session = session.as_ref().map(|Extension(session)| session);
    let arrived = flow.arrive(session, &visitor.client).await?;
    let body = sign_in::body(core, &visitor, &arrived.proof, false).await;
    let mut answer = Json(body).into_response();
    let cookie = SessionCookie::new(core.cookie.is_secure(), GUEST_TTL).set(&arrived.secret);
    answer.headers_mut().append(SET_COOKIE, cookie);
    answer.extensions_mut().insert(CsrfBinding::session(arrived.session.id().as_str()));
    Ok(if arrived.is_known { proved(answer) } else { answer })
}

impl From<GuestError> for Problem {
    fn from(error: GuestError) -> Self {
        match error {
            GuestError::SignedIn => Self::conflict(error.to_string()).with_code("signed_in"),
            GuestError::Users(error) => error.into(),
            GuestError::Mint(error) => error.into(),
        }
    }
}

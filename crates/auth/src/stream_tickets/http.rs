use std::sync::Arc;
use std::time::Duration;

use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use gatewright_base::{Credential, Identity, Principal, Subject};
use gatewright_http::{Caller, ClientAddr, Problem};
use gatewright_limits::{Limiter, Policy};
use http::HeaderMap;
use serde_json::json;

use super::tickets::{LIFETIME, Tickets};
use crate::config::Limit;
use crate::core::Core;
use crate::problem;
use crate::schemes::{Authenticator, Offer};
use crate::web::{Case, own_site_only};

/// Tickets that one account makes within [`A_WHILE`].
const TICKETS: u32 = 120;
const A_WHILE: Duration = Duration::from_mins(1);

struct App {
    tickets: Tickets,
    authenticator: Arc<Authenticator>,
    limiter: Limiter,
}

/// `POST /stream-ticket`.
pub(crate) fn routes(core: &Arc<Core>, authenticator: Arc<Authenticator>, tickets: Tickets) -> Router {
    let policy = Policy::new(TICKETS, A_WHILE, A_WHILE);
    let limiter = core.limiter("stream_ticket", &Limit { policy, trust_forwarded_for: false });
    let app = App { tickets, authenticator, limiter };
    Router::new().route("/stream-ticket", own_site_only(core, post(make))).with_state(Arc::new(app))
}

async fn make(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    Case(case): Case,
    client: ClientAddr,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let principal = match &identity {
        Identity::Anonymous => return Err(problem::no_session()),
        Identity::Pending(_) => return Err(problem::second_factor_required()),
        Identity::Known(principal) => principal,
    };
    if let Err(denied) = app.limiter.attempt(&limited_by(principal)).await {
        return Ok(denied.into_response());
    }
    let kept = app.tickets.kept(&headers);
    let kept = kept.ok_or_else(|| Problem::bad_request("the request's credentials are too long for a ticket"))?;
    // An identity from a program's own middleware cannot be derived from the headers again.
    let offer = Offer { headers: &kept, client, path: uri.path(), again: true };
    let again = app.authenticator.authenticate(&offer, None).await.map_err(|error| problem::store_failed(&error))?;
    let same = again.identity.principal().is_some_and(|again| again.subject == principal.subject);
    if !same || matches!(principal.credential, Credential::Grant(_)) {
        return Err(Problem::forbidden("this credential cannot make a stream ticket"));
    }
    let ticket = app.tickets.make(&kept).await.map_err(|error| problem::store_failed(&error))?;
    let answer = json!({ "ticket": ticket.expose(), (case.spell("expires_in")): LIFETIME.as_secs() });
    Ok(Json(answer).into_response())
}

fn limited_by(principal: &Principal) -> String {
    match &principal.subject {
        Subject::User(id) => format!("user:{id}"),
        Subject::Service(id) => format!("service:{id}"),
    }
}

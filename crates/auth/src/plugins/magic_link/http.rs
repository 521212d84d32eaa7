use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use gatewright_base::Secret;
use gatewright_http::{Problem, Query, Submission};
use serde::de::IgnoredAny;
use serde_json::json;

use super::flow::Flow;
use super::page::{Confirmation, Page};
use crate::devices::Browser;
use crate::email::EmailAddress;
use crate::guests;
use crate::plugins::mailed_sign_in::RedeemError;
use crate::plugins::password::screen;
use crate::plugins::sign_in;
use crate::problem;
use crate::screens::{mailed, with_problem};
use crate::single_use::Purpose;
use crate::single_use::codes::{CodeError, Returned};
use crate::web::{self, Visitor, guarded, own_site_only, undeliverable, with_cookie};

#[derive(Clone)]
struct RouteState {
    flow: Arc<Flow>,
    page: Arc<Page>,
}

pub(super) fn routes(flow: Arc<Flow>, page: Arc<Page>) -> Router {
    let core = flow.core.clone();
    let by_address = core.limiter("magic_link", &core.config.limits.magic_link);
    let can_be_sent = flow.links.can_be_sent();
    let routes = Router::new()
        .route("/magic-link/send", guarded(&core, Some(&by_address), post(send)))
        .route("/magic-link/verify", guarded(&core, None, own_site_only(&core, post(redeem)).get(confirm)))
        .with_state(RouteState { flow, page });
    if can_be_sent { routes } else { undeliverable(routes, "magic link delivery not configured") }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Address {
    email: String,
    /// The page of sign-ins has one form with two buttons, and sends the password's field to both. It is not read.
    #[serde(default, rename = "password")]
    _password: IgnoredAny,
}

#[derive(serde::Deserialize)]
struct Link {
    token: Option<Secret>,
}

async fn send(State(state): State<RouteState>, visitor: Visitor, submission: Submission<Address>) -> Response {
    let kind = submission.kind;
    let Ok(email) = EmailAddress::parse(&submission.value.email) else {
        let problem = Problem::invalid_field("email", "invalid", "not a valid email address");
        return screen::refuse_address(&state.flow.core, &visitor, &submission.value.email, problem, &submission);
    };
    let (links, next) = (&state.flow.links, submission.next.as_ref());
    let drawn = links.draw(kind.is_form());
    let guest = guests::of_browser(&state.flow.core, &Browser::of(&state.flow.core, &visitor.headers)).await;
    let guest = match guest {
        Ok(guest) => guest.map(|guest| guest.id),
        Err(error) => return kind.refuse(error.into()),
    };
    let answer = match state.flow.send(&drawn, &email, guest.as_ref(), next, &visitor.client).await {
        Ok(()) if kind.is_form() => {
            mailed::check_mail(&state.flow.core, &visitor, Purpose::MagicLink, Some(email.as_str()), next)
        }
        Ok(()) => Json(json!({ "sent": true })).into_response(),
        Err(error) => return kind.refuse(problem::store_failed(&error)),
    };
    with_cookie(answer, links.cookie(&drawn))
}

/// The confirmation page. Opening it redeems nothing.
async fn confirm(State(state): State<RouteState>, visitor: Visitor, Query(link): Query<Link>) -> Response {
    let token = link.token.unwrap_or_else(|| Secret::new(""));
    match state.flow.links.asks_for_code(&token, &visitor.headers).await {
        Ok(asks) => ask(&state, &visitor, &token, asks, None).await,
        Err(error) => problem::store_failed(&error).into_page(),
    }
}

async fn ask(state: &RouteState, visitor: &Visitor, text: &Secret, code: bool, problem: Option<&Problem>) -> Response {
    let token = match state.flow.peek(text).await {
        Ok(Some(token)) => token,
        Ok(None) => return spent(&state.flow).into_page(),
        Err(error) => return problem::store_failed(&error).into_page(),
    };
    let action = format!("{}/magic-link/verify", state.flow.core.config.base_path);
    let csrf = visitor.csrf_field();
    let confirmation =
        Confirmation { email: Some(token.email.as_str()), action: &action, token: text, csrf: csrf.as_deref() };
    let page = state.page.show(&confirmation, code, problem);
    match problem {
        Some(problem) => with_problem(problem, page),
        None => page,
    }
}

async fn redeem(State(state): State<RouteState>, visitor: Visitor, submission: Submission<Returned>) -> Response {
    let (flow, kind, returned) = (&state.flow, submission.kind, &submission.value);
    let token = match (flow.links.token(returned, &visitor.headers).await, &returned.token) {
        (Ok(token), _) => token,
        // The page of a link, in a browser that did not ask for it.
        (Err(error @ CodeError::Invalid), Some(token)) if kind.is_form() => {
            return ask(&state, &visitor, token, true, Some(&error.into())).await;
        }
        (Err(error), _) => {
            let next = submission.next.as_ref();
            return mailed::code_refused(&flow.core, &visitor, kind, Purpose::MagicLink, next, error);
        }
    };
    let browser = Browser::of(&flow.core, &visitor.headers);
    match flow.redeem(&token, visitor.client.clone(), &browser).await {
        Ok(redeemed) => {
            let next = redeemed.next.or(submission.next);
            let answer = sign_in::answer_new(&flow.core, &visitor, kind, &redeemed.signed_in, next.as_ref()).await;
            with_cookie(answer, flow.links.codes.remove_cookie())
        }
        Err(RedeemError::InvalidToken) => kind.refuse(spent(flow)),
        Err(error) => kind.refuse(error.into()),
    }
}

/// The refusal of a link that no longer works.
fn spent(flow: &Flow) -> Problem {
    web::spent_link(&flow.core, "way_on.new_link_by_sign_in", "/login")
}

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use gatewright_base::Secret;
use gatewright_http::{Problem, Query, Submission};
use serde_json::json;

use super::flow::{Flow, RedeemError};
use super::page::{Confirmation, Page};
use crate::plugins::sign_in;
use crate::plugins::web::{Visitor, guarded, own_site_only};
use crate::screens::mailed;
use crate::{EmailAddress, problem};

#[derive(Clone)]
struct Desk {
    flow: Arc<Flow>,
    page: Arc<Page>,
}

pub(super) fn routes(flow: Arc<Flow>, page: Arc<Page>) -> Router {
    let core = flow.core.clone();
    let by_address = core.limiter("magic_link", &core.config.limits.magic_link);
    Router::new()
        .route("/magic-link/send", guarded(&core, Some(&by_address), post(send)))
        .route("/magic-link/verify", guarded(&core, None, own_site_only(&core, post(redeem)).get(confirm)))
        .with_state(Desk { flow, page })
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Address {
    email: String,
}

#[derive(serde::Deserialize)]
struct Token {
    #[serde(default = "nothing")]
    token: Secret,
}

fn nothing() -> Secret {
    Secret::new("")
}

async fn send(State(desk): State<Desk>, visitor: Visitor, submission: Submission<Address>) -> Response {
    let kind = submission.kind;
    if !desk.flow.links.can_be_sent() {
        return kind.refuse(problem::not_configured("magic link delivery not configured"));
    }
    let Ok(email) = EmailAddress::parse(&submission.value.email) else {
        return kind.refuse(Problem::invalid_field("email", "invalid", "not a valid email address"));
    };
    match desk.flow.send(&email, submission.next.as_ref(), &visitor.client).await {
        Ok(()) if kind.is_form() => mailed::link_is_on_its_way(),
        Ok(()) => Json(json!({ "sent": true })).into_response(),
        Err(error) => kind.refuse(problem::store_failed(&error)),
    }
}

/// The page that asks. It redeems nothing, whoever opens it.
async fn confirm(State(desk): State<Desk>, visitor: Visitor, Query(link): Query<Token>) -> Response {
    let token = match desk.flow.peek(&link.token).await {
        Ok(Some(token)) => token,
        Ok(None) => return spent(&desk.flow).into_page(),
        Err(error) => return problem::store_failed(&error).into_page(),
    };
    let action = format!("{}/magic-link/verify", desk.flow.core.config.base_path);
    let csrf = visitor.csrf_field();
    desk.page.show(&Confirmation {
        email: Some(token.email.as_str()),
        action: &action,
        token: &link.token,
        csrf: csrf.as_deref(),
    })
}

async fn redeem(State(desk): State<Desk>, visitor: Visitor, submission: Submission<Token>) -> Response {
    let flow = &desk.flow;
    let replaces = flow.core.cookie.read(&visitor.headers);
    match flow.redeem(&submission.value.token, visitor.client.clone(), replaces.as_ref()).await {
        Ok(redeemed) => {
            let next = redeemed.next.or(submission.next);
            sign_in::answer(&flow.core, &visitor, submission.kind, &redeemed.signed_in, next.as_ref())
        }
        Err(RedeemError::InvalidToken) => submission.kind.refuse(spent(flow)),
        Err(error) => submission.kind.refuse(error.into()),
    }
}

/// The refusal of a link that does not work any more.
fn spent(flow: &Flow) -> Problem {
    problem::spent_link(&flow.core, "Ask for a new link on the sign-in page", "/login")
}

impl From<RedeemError> for Problem {
    fn from(error: RedeemError) -> Self {
        match error {
            RedeemError::InvalidToken => problem::invalid_token(),
            RedeemError::Tokens(error) => problem::store_failed(&error),
            RedeemError::Users(error) => error.into(),
            RedeemError::Hash(error) => error.into(),
            RedeemError::Prove(error) => error.into(),
            RedeemError::Mint(error) => error.into(),
            RedeemError::Policy(error) => error.into(),
        }
    }
}

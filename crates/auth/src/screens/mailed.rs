//! The screens around mailed links: `/forgot-password`, `/reset-password`, and what their forms and those of other
//! plugins answer with.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::middleware::from_fn;
use axum::response::Response;
use axum::routing::get;
use gatewright_base::Secret;
use gatewright_http::{Next, Problem, Query, layers};
use serde::Serialize;

use super::sign_in::with_next;
use super::{page, with_problem};
use crate::Core;
use crate::plugins::web::Visitor;
use crate::problem;
use crate::single_use::links::Links;

/// Where a link is asked for.
pub(crate) const FORGOT_PATH: &str = "/forgot-password";
/// Where it leads.
pub(crate) const RESET_PATH: &str = "/reset-password";

#[derive(Clone)]
struct Desk {
    core: Arc<Core>,
    links: Arc<Links>,
}

/// `links` are those to a new password.
pub(crate) fn routes(core: Arc<Core>, links: Arc<Links>) -> Router {
    Router::new()
        .route(FORGOT_PATH, get(forgot))
        .route(RESET_PATH, get(reset))
        .with_state(Desk { core, links })
        .layer(from_fn(layers::no_store))
}

#[derive(serde::Deserialize)]
struct Link {
    token: Option<Secret>,
}

#[derive(serde::Deserialize)]
struct Wish {
    next: Option<String>,
}

#[derive(Serialize)]
struct Form<'a> {
    action: String,
    token: Option<&'a str>,
    next: Option<&'a str>,
    problem: Option<&'a str>,
    csrf: Option<&'a str>,
}

#[derive(Serialize)]
struct Note<'a> {
    title: &'a str,
    text: &'a str,
    onward: Option<(&'a str, &'a str)>,
}

async fn forgot(State(Desk { core, .. }): State<Desk>, visitor: Visitor, Query(wish): Query<Wish>) -> Response {
    let next = wish.next.as_deref().and_then(|text| core.redirects.next(text));
    let csrf = visitor.csrf_field();
    let action = format!("{}/forgot-password", core.config.base_path);
    let form =
        Form { action, token: None, next: next.as_ref().map(Next::as_str), problem: None, csrf: csrf.as_deref() };
    page("Reset your password", "forgot_password.html", &form)
}

/// The form for the new password, or the refusal of a link that does not work any more. Nothing is spent.
async fn reset(State(Desk { core, links }): State<Desk>, visitor: Visitor, Query(link): Query<Link>) -> Response {
    let token = link.token.unwrap_or_else(|| Secret::new(""));
    match links.find_live(&token).await {
        Ok(Some(_)) => render_reset(&core, &visitor, &token, None),
        Ok(None) => spent_reset_link(&core).into_page(),
        Err(error) => problem::store_failed(&error).into_page(),
    }
}

/// The refusal of a link to a new password that does not work any more.
pub(crate) fn spent_reset_link(core: &Core) -> Problem {
    problem::spent_link(core, "Ask for a new link", FORGOT_PATH)
}

/// A password that was refused: the form once more, for the token is still good.
pub(crate) fn reset_failed(core: &Core, visitor: &Visitor, token: &Secret, problem: Problem) -> Response {
    if core.screens.get().is_none() {
        return problem.into_page();
    }
    with_problem(&problem, render_reset(core, visitor, token, Some(&problem)))
}

fn render_reset(core: &Core, visitor: &Visitor, token: &Secret, problem: Option<&Problem>) -> Response {
    let csrf = visitor.csrf_field();
    let form = Form {
        action: format!("{}/reset-password", core.config.base_path),
        token: Some(token.expose()),
        next: None,
        problem: problem.map(|problem| problem.errors().first().map_or(problem.detail(), |error| &*error.message)),
        csrf: csrf.as_deref(),
    };
    page("Choose a new password", "reset_password.html", &form)
}

/// After a magic link or a verification was asked for.
pub(crate) fn link_is_on_its_way() -> Response {
    note("Check your mail", "A mail with a link is on its way to you.", None)
}

/// After a reset was asked for, whether there is an account or not.
pub(crate) fn link_may_be_on_its_way() -> Response {
    note("Check your mail", "If there is an account with this address, a mail with a link is on its way to it.", None)
}

/// After a password was set.
pub(crate) fn password_is_set(core: &Core, next: Option<&Next>) -> Response {
    let text = "Your password was changed, and you were signed out everywhere.";
    let login = with_next("/login", next);
    note("Password changed", text, core.screens.get().map(|_| (&*login, "Sign in")))
}

/// A title, a sentence, and a link to continue with.
pub(crate) fn note(title: &str, text: &str, onward: Option<(&str, &str)>) -> Response {
    page(title, "note.html", &Note { title, text, onward })
}

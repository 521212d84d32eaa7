//! The page `/two-factor`, to which a form's sign-in redirects while the second factor is pending, and the pages of the
//! enrollment forms.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use gatewright_base::{Identity, Secret};
use gatewright_http::{Caller, Next, Problem, Query, layers};
use serde::Serialize;

use super::flow::Enrollment;
use crate::core::Core;
use crate::screens::passkeys::Offer;
use crate::screens::paths::with_next;
use crate::screens::{Messages, page, passkeys, with_problem};
use crate::web::{Visitor, redirect_next, see_other};

/// The screen's path.
pub(crate) const PATH: &str = "/two-factor";
/// The page of the account with the forms.
pub(crate) const ACCOUNT: &str = "/account/second-factor";

pub(crate) fn routes(core: Arc<Core>) -> Router {
    Router::new().route(PATH, get(show)).with_state(core).layer(layers::NoStoreLayer)
}

#[derive(serde::Deserialize)]
struct PageQuery {
    next: Option<String>,
}

#[derive(Serialize)]
struct Context<'a> {
    action: String,
    logout: String,
    passkeys: Option<Offer>,
    conditional: bool,
    next: Option<&'a str>,
    #[serde(flatten)]
    messages: Messages,
    csrf: Option<&'a str>,
}

#[derive(Serialize)]
struct Begun<'a> {
    action: String,
    shown: Option<Shown<'a>>,
    account: Option<&'a str>,
    next: Option<&'a str>,
    #[serde(flatten)]
    messages: Messages,
    csrf: Option<&'a str>,
}

/// The secret as text and as a picture.
#[derive(Serialize)]
struct Shown<'a> {
    secret: String,
    qr: &'a str,
}

#[derive(Serialize)]
struct Codes<'a> {
    codes: Vec<&'a str>,
    onward: &'a str,
}

/// The form for a user with a pending second factor. A signed-in user is redirected onward; an anonymous one begins
/// with the first factor.
async fn show(
    State(core): State<Arc<Core>>,
    Caller(identity): Caller,
    visitor: Visitor,
    Query(query): Query<PageQuery>,
) -> Response {
    let next = query.next.as_deref().and_then(|text| core.redirects.next(text));
    match identity {
        Identity::Pending(_) => render(&core, &visitor, next.as_ref(), None),
        Identity::Known(_) => redirect_next(&core, next.as_ref(), "/"),
        Identity::Anonymous => see_other(&with_next("/login", next.as_ref())),
    }
}

/// A wrong code: the form again if the screens are mounted, otherwise a small page.
pub(crate) fn failed(core: &Core, problem: Problem, visitor: &Visitor, next: Option<&Next>) -> Response {
    if core.screens.get().is_none() {
        return problem.into_page();
    }
    with_problem(&problem, render(core, visitor, next, Some(&problem)))
}

/// The picture for the app and the secret as text, where they may be shown, and the form for the first code.
pub(crate) fn enrollment(
    core: &Core,
    visitor: &Visitor,
    begun: Option<&Enrollment>,
    next: Option<&Next>,
    problem: Option<&Problem>,
) -> Response {
    let csrf = visitor.csrf_field();
    let context = Begun {
        action: format!("{}/2fa/verify", core.config.base_path),
        shown: begun.map(|begun| Shown { secret: in_groups(begun.secret.expose()), qr: begun.qr.expose() }),
        account: core.screens.get().map(|_| ACCOUNT),
        next: next.map(Next::as_str),
        messages: Messages::of(problem, ["code"]),
        csrf: csrf.as_deref(),
    };
    let page = page("enroll.title", "enroll.html", &context);
    match problem {
        Some(problem) => with_problem(problem, page),
        None => page,
    }
}

/// A fresh set of backup codes, shown this once.
pub(crate) fn backup_codes(codes: &[Secret], next: Option<&Next>) -> Response {
    let onward = next.map_or("/", Next::as_str);
    let context = Codes { codes: codes.iter().map(Secret::expose).collect(), onward };
    page("backup_codes.title", "backup_codes.html", &context)
}

fn render(core: &Core, visitor: &Visitor, next: Option<&Next>, problem: Option<&Problem>) -> Response {
    let (base, csrf) = (&core.config.base_path, visitor.csrf_field());
    let context = Context {
        action: format!("{base}/2fa/challenge"),
        logout: format!("{base}/logout"),
        passkeys: Offer::new(core, next),
        conditional: false,
        next: next.map(Next::as_str),
        messages: Messages::of(problem, ["code"]),
        csrf: csrf.as_deref(),
    };
    passkeys::page(core, "two_factor.title", "two_factor.html", &context)
}

/// Base32 as people type it: in groups of four.
fn in_groups(secret: &str) -> String {
    let groups: Vec<String> =
        secret.as_bytes().chunks(4).map(|group| String::from_utf8_lossy(group).into_owned()).collect();
    groups.join(" ")
}

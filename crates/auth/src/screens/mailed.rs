//! The screens for mailed links: `/forgot-password`, `/reset-password`, and the pages that their forms and those of
//! other plugins return.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use gatewright_base::Secret;
use gatewright_http::{Kind, Next, Problem, Query, layers, locale};
use serde::Serialize;

use super::paths::with_next;
use super::{Messages, PasswordRule, page, with_problem};
use crate::core::Core;
use crate::credentials::{self, Held};
use crate::problem;
use crate::single_use::Purpose;
use crate::single_use::codes::CodeError;
use crate::single_use::links::Links;
use crate::web::{self, Visitor};

/// Where to request a link.
pub(crate) const FORGOT_PATH: &str = "/forgot-password";
/// Where it leads.
pub(crate) const RESET_PATH: &str = "/reset-password";

#[derive(Clone)]
struct RouteState {
    core: Arc<Core>,
    links: Arc<Links>,
}

/// `links` are links for a new password.
pub(crate) fn routes(core: Arc<Core>, links: Arc<Links>) -> Router {
    Router::new()
        .route(FORGOT_PATH, get(forgot))
        .route(RESET_PATH, get(reset))
        .with_state(RouteState { core, links })
        .layer(layers::NoStoreLayer)
}

#[derive(serde::Deserialize)]
struct Link {
    token: Option<Secret>,
}

#[derive(serde::Deserialize)]
struct PageQuery {
    next: Option<String>,
}

#[derive(Serialize)]
struct Form<'a> {
    action: String,
    token: Option<&'a str>,
    next: Option<&'a str>,
    password_rule: PasswordRule,
    /// What else has access to the account.
    others: Vec<Held>,
    #[serde(flatten)]
    messages: Messages,
    csrf: Option<&'a str>,
}

#[derive(Serialize)]
struct Note<'a> {
    title: &'a str,
    text: &'a str,
    onward: Option<(&'a str, &'a str)>,
}

async fn forgot(
    State(RouteState { core, links }): State<RouteState>,
    visitor: Visitor,
    Query(query): Query<PageQuery>,
) -> Response {
    if !links.can_be_sent() {
        let onward = Some(("/login", "way_on.back_to_sign_in"));
        return note("forgot.title", &locale::text("forgot.no_mail", &[]), onward);
    }
    let next = query.next.as_deref().and_then(|text| core.redirects.next(text));
    let csrf = visitor.csrf_field();
    let action = format!("{}/forgot-password", core.config.base_path);
    let form = Form {
        action,
        token: None,
        next: next.as_ref().map(Next::as_str),
        password_rule: PasswordRule::of(&core.passwords),
        others: Vec::new(),
        messages: Messages::default(),
        csrf: csrf.as_deref(),
    };
    page("forgot.title", "forgot_password.html", &form)
}

/// The form for the new password, or the refusal of a link that no longer works. Nothing is spent.
async fn reset(
    State(RouteState { core, links }): State<RouteState>,
    visitor: Visitor,
    Query(link): Query<Link>,
) -> Response {
    let token = link.token.unwrap_or_else(|| Secret::new(""));
    render_reset(&core, &visitor, &links, &token, None).await
}

/// The refusal of a link to a new password that no longer works.
pub(crate) fn spent_reset_link(core: &Core) -> Problem {
    web::spent_link(core, "way_on.new_link", FORGOT_PATH)
}

/// A refused password: the form again, because the token is still valid.
pub(crate) async fn reset_failed(
    core: &Core,
    visitor: &Visitor,
    links: &Links,
    token: &Secret,
    problem: Problem,
) -> Response {
    if core.screens.get().is_none() {
        return problem.into_page();
    }
    with_problem(&problem, render_reset(core, visitor, links, token, Some(&problem)).await)
}

async fn render_reset(
    core: &Core,
    visitor: &Visitor,
    links: &Links,
    token: &Secret,
    problem: Option<&Problem>,
) -> Response {
    let user = match links.find_live(token).await {
        Ok(Some(live)) => live.user_id,
        Ok(None) => return spent_reset_link(core).into_page(),
        Err(error) => return problem::store_failed(&error).into_page(),
    };
    let others = match &user {
        Some(user) => credentials::of(core, user).await,
        None => Ok(Vec::new()),
    };
    let others = match others {
        Ok(others) => others,
        Err(error) => return problem::store_failed(&*error).into_page(),
    };
    let csrf = visitor.csrf_field();
    let form = Form {
        action: format!("{}/reset-password", core.config.base_path),
        token: Some(token.expose()),
        next: None,
        password_rule: PasswordRule::of(&core.passwords),
        others,
        messages: Messages::of(problem, ["password"]),
        csrf: csrf.as_deref(),
    };
    page("reset.title", "reset_password.html", &form)
}

/// After a mail was requested, whether or not it is sent: the page for typing its code. `email` is the address that the
/// visitor has typed, if any.
pub(crate) fn check_mail(
    core: &Core,
    visitor: &Visitor,
    purpose: Purpose,
    email: Option<&str>,
    next: Option<&Next>,
) -> Response {
    code_form(core, visitor, purpose, next, &Shown { email, ..Shown::default() })
}

/// After a code without a link was requested for `email`, and after a wrong one.
pub(crate) fn check_mail_for_code(
    core: &Core,
    visitor: &Visitor,
    email: &str,
    next: Option<&Next>,
    problem: Option<&Problem>,
) -> Response {
    let shown = Shown { problem, code: None, email: Some(email) };
    let page = code_form(core, visitor, Purpose::EmailCode, next, &shown);
    match problem {
        Some(problem) => with_problem(problem, page),
        None => page,
    }
}

/// The same after a request for a new address. A browser without a session of the account has to type the code `shown`.
pub(crate) fn check_mail_showing(core: &Core, visitor: &Visitor, shown: &Secret) -> Response {
    code_form(core, visitor, Purpose::EmailChange, None, &Shown { code: Some(shown), ..Shown::default() })
}

/// A code without a valid token: the page for typing it again, for browsers.
pub(crate) fn code_refused(
    core: &Core,
    visitor: &Visitor,
    kind: Kind,
    purpose: Purpose,
    next: Option<&Next>,
    error: CodeError,
) -> Response {
    match error {
        CodeError::Denied(denied) => denied.into_response(),
        CodeError::Invalid if kind.is_form() => code_failed(core, visitor, purpose, next, &error.into()),
        CodeError::Invalid => Problem::from(error).into_response(),
        CodeError::Tokens(error) => kind.refuse(problem::store_failed(&error)),
    }
}

/// The page for typing a code, with the error.
pub(crate) fn code_failed(
    core: &Core,
    visitor: &Visitor,
    purpose: Purpose,
    next: Option<&Next>,
    problem: &Problem,
) -> Response {
    with_problem(
        problem,
        code_form(core, visitor, purpose, next, &Shown { problem: Some(problem), ..Shown::default() }),
    )
}

/// What the page for typing a code shows.
#[derive(Default)]
struct Shown<'a> {
    problem: Option<&'a Problem>,
    /// A code to be typed in another browser.
    code: Option<&'a Secret>,
    /// The address to which it was mailed.
    email: Option<&'a str>,
}

fn code_form(core: &Core, visitor: &Visitor, purpose: Purpose, next: Option<&Next>, shown: &Shown<'_>) -> Response {
    let base = &core.config.base_path;
    let sent = ["mailed.sent", "mailed.sent_to"];
    let (route, [text, text_to], other) = match purpose {
        Purpose::MagicLink => ("magic-link/verify", sent, with_next("/login", next)),
        Purpose::EmailVerification => ("verify-email", sent, super::account::PATH.to_owned()),
        Purpose::PasswordReset => {
            ("reset-password", ["mailed.maybe_sent", "mailed.maybe_sent_to"], with_next(FORGOT_PATH, next))
        }
        Purpose::EmailCode => {
            ("email-code/verify", ["mailed.code_sent", "mailed.code_sent_to"], with_next("/login", next))
        }
        Purpose::EmailChange => ("change-email/confirm", sent, super::account::PATH.to_owned()),
    };
    // The address was typed by this visitor, and is shown only to them, cut to the length of an address.
    let email: Option<String> = shown.email.map(|email| email.chars().take(254).collect());
    let again = match (purpose, &email) {
        (Purpose::MagicLink, Some(_)) => Some("magic-link/send"),
        (Purpose::PasswordReset, Some(_)) => Some("forgot-password"),
        (Purpose::EmailCode, Some(_)) => Some("email-code/send"),
        _ => None,
    };
    let other_text = match (purpose, &again) {
        (Purpose::EmailVerification | Purpose::EmailChange, _) => "mailed.to_account",
        (_, Some(_)) => "mailed.other_address",
        (_, None) => "mailed.ask_again",
    };
    let csrf = visitor.csrf_field();
    let form = CodeForm {
        text: if email.is_some() { text_to } else { text },
        shown: shown.code.map(Secret::expose),
        action: format!("{base}/{route}"),
        email: email.as_deref(),
        digits: purpose == Purpose::EmailCode,
        password: purpose == Purpose::PasswordReset,
        password_rule: PasswordRule::of(&core.passwords),
        messages: Messages::of(shown.problem, ["code", "password"]),
        next: next.map(Next::as_str),
        again: again.map(|route| format!("{base}/{route}")),
        other: core.screens.get().map(|_| &*other),
        other_text,
        csrf: csrf.as_deref(),
    };
    page("mailed.title", "check_mail.html", &form)
}

#[derive(Serialize)]
struct CodeForm<'a> {
    /// The key of a text.
    text: &'a str,
    /// The code to be typed in another browser in which the link is opened.
    shown: Option<&'a str>,
    action: String,
    /// The address to which it was mailed.
    email: Option<&'a str>,
    /// Whether the mail has a code of six digits and no link.
    digits: bool,
    /// Whether the form asks for a new password too.
    password: bool,
    password_rule: PasswordRule,
    #[serde(flatten)]
    messages: Messages,
    next: Option<&'a str>,
    /// Where the form for another mail posts to, if the address is known.
    again: Option<String>,
    /// Where to go for another address. Absent without screens.
    other: Option<&'a str>,
    other_text: &'a str,
    csrf: Option<&'a str>,
}

/// After a password was set.
pub(crate) fn password_is_set(core: &Core, next: Option<&Next>) -> Response {
    let text = locale::text("reset.done", &[]);
    let login = with_next("/login", next);
    note("reset.done_title", &text, core.screens.get().map(|_| (&*login, "sign_in.button")))
}

/// A title, a sentence, and a link to continue with. The title and the words of the link are keys of texts.
pub(crate) fn note(title: &str, text: &str, onward: Option<(&str, &str)>) -> Response {
    let heading = locale::text(title, &[]);
    let words = onward.map(|(_, key)| locale::text(key, &[]));
    let onward = onward.map(|(href, _)| href).zip(words.as_deref());
    page(title, "note.html", &Note { title: &heading, text, onward })
}

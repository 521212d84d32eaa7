//! The pages of a verification link.

use axum::response::Response;
use gatewright_base::Secret;
use gatewright_http::{Next, Problem, locale};
use serde::Serialize;

use super::flow::Verified;
use crate::core::Core;
use crate::email::EmailAddress;
use crate::screens::paths::{login_as_other, with_next};
use crate::screens::{Messages, mailed, page, with_problem};
use crate::web::Visitor;

#[derive(Serialize)]
struct Context<'a> {
    email: &'a str,
    action: &'a str,
    token: &'a str,
    /// Whether the form removes the account's credentials.
    claims: bool,
    /// Where to sign in, for owners who want to keep them.
    sign_in: Option<&'a str>,
    /// Whether the form asks for the code of the mail.
    code: bool,
    #[serde(flatten)]
    messages: Messages,
    csrf: Option<&'a str>,
}

/// The question on the page.
pub(super) struct Ask<'a> {
    pub(super) email: &'a EmailAddress,
    pub(super) token: &'a Secret,
    pub(super) claims: bool,
    pub(super) code: bool,
}

/// Asks whether to confirm the address.
pub(super) fn confirm(core: &Core, visitor: &Visitor, ask: &Ask<'_>, problem: Option<&Problem>) -> Response {
    let Ask { email, token, claims, code } = *ask;
    let action = format!("{}/verify-email", core.config.base_path);
    let csrf = visitor.csrf_field();
    let sign_in = core.screens.get().map(|_| {
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("token", token.expose()).finish();
        let back = Secret::new(format!("{action}?{query}"));
        Secret::new(login_as_other(Next::parse(back.expose()).as_ref()))
    });
    let context = Context {
        email: email.as_str(),
        action: &action,
        token: token.expose(),
        claims,
        sign_in: sign_in.as_ref().map(Secret::expose),
        code,
        messages: Messages::of(problem, code.then_some("code")),
        csrf: csrf.as_deref(),
    };
    let page = page("verify.title", "confirm_address.html", &context);
    match problem {
        Some(problem) => with_problem(problem, page),
        None => page,
    }
}

/// The address is verified. If the account was claimed, its holder needs a way to sign in.
pub(super) fn verified(core: &Core, verified: &Verified) -> Response {
    let next = verified.next.as_ref();
    if verified.claimed {
        let text = locale::text("verify.claimed", &[]);
        let forgot = with_next(mailed::FORGOT_PATH, next);
        let onward = core.screens.get().map(|_| (&*forgot, "verify.choose_password"));
        return mailed::note("verify.done_title", &text, onward);
    }
    let onward = (next.map_or("/", Next::as_str), "form.continue");
    mailed::note("verify.done_title", &locale::text("verify.done", &[]), Some(onward))
}

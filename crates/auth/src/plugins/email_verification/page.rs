//! The pages of a verification link.

use axum::response::Response;
use gatewright_base::Secret;
use gatewright_http::Next;
use serde::Serialize;

use super::flow::Verified;
use crate::plugins::web::Visitor;
use crate::screens::sign_in::{login_as_other, with_next};
use crate::screens::{mailed, page};
use crate::{Core, EmailAddress};

#[derive(Serialize)]
struct Context<'a> {
    email: &'a str,
    action: &'a str,
    token: &'a str,
    /// Whether the form drops what the account has.
    claims: bool,
    /// Where to sign in, for those who want to keep it.
    sign_in: Option<&'a str>,
    csrf: Option<&'a str>,
}

/// Asks whether to confirm the address.
pub(super) fn confirm(core: &Core, visitor: &Visitor, email: &EmailAddress, token: &Secret, claims: bool) -> Response {
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
        csrf: csrf.as_deref(),
    };
    page("Confirm your address", "confirm_address.html", &context)
}

/// The address is verified. If the account was claimed, its holder needs a way to sign in.
pub(super) fn verified(core: &Core, verified: &Verified) -> Response {
    let next = verified.next.as_ref();
    if verified.claimed {
        let text = "Your email address is confirmed. Everything that was set up before was removed: choose a new password \
                    or sign in with a link.";
        let forgot = with_next(mailed::FORGOT_PATH, next);
        let onward = core.screens.get().map(|_| (&*forgot, "Choose a password"));
        return mailed::note("Address confirmed", text, onward);
    }
    mailed::note(
        "Address confirmed",
        "Thank you: your email address is confirmed.",
        Some((next.map_or("/", Next::as_str), "Continue")),
    )
}

use serde_json::json as value;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};

use super::{EMAIL, done_or_page, email, next, page, redirect, signed_in};
use crate::Config;
use crate::openapi::Draft;
use crate::openapi::names::Page;
use crate::openapi::words::{Part, boolean, content, json, object, query, string, typed};

/// Signing in by a link in a mail.
pub(super) fn magic_link(draft: &mut Draft, base: &str, config: &Config) {
    let send = draft
        .auth(HttpMethod::Post, base, "/magic-link/send", "sendMagicLink", "Mail a sign-in link")
        .submitted(address().property("next", next()), true, &value!({ "email": EMAIL }))
        .answers(200, done_or_page("The mail is queued, if it can be sent.", "sent"))
        .limited();
    let confirm = draft
        .auth(HttpMethod::Get, base, "/magic-link/verify", "confirmMagicLink", "Open the page of a mailed link")
        .about("It names the account and asks for confirmation. Opening the page does not use up the link.")
        .parameter(query("token", "The link's token.", string()))
        .answers(200, page("The page."))
        .fails(&[400, 401, 403, 500, 503], Page::ForForms);
    let body = token_or_code().property("next", next());
    let redeem = draft
        .auth(HttpMethod::Post, base, "/magic-link/verify", "redeemMagicLink", "Sign in with a link's token or code")
        .about(CODE)
        .submitted(body, true, &value!({ "token": "5f0c…" }))
        .answers(200, signed_in(config))
        .answers(303, redirect())
        .fails(&[401], Page::ForForms)
        .limited();
    for described in [send, confirm, redeem] {
        draft.add(described);
    }
}

/// Signing in by six digits in a mail.
pub(super) fn email_code(draft: &mut Draft, base: &str, config: &Config) {
    let flag = boolean().enum_values(Some([true]));
    let request =
        string().description(Some("Goes with the code to `email-code/verify`. A browser has it as a cookie."));
    let mailed = object([("sent".to_owned(), Part::from(flag)), ("request".to_owned(), request.into())]);
    let example = value!({ "sent": true, "request": "q83v…" });
    let answer = json("The mail is queued, if it can be sent.", mailed, Some(example));
    let send = draft
        .auth(HttpMethod::Post, base, "/email-code/send", "sendEmailCode", "Mail a code that signs in")
        .about("The response is the same whether the account exists or not.")
        .submitted(address().property("next", next()), true, &value!({ "email": EMAIL }))
        .answers(200, answer.content("text/html", content(string(), None)))
        .limited();
    let request = string().description(Some("The request of this code. May be left out where the cookie has it."));
    let body = object([("email".to_owned(), Part::from(email())), ("code".to_owned(), string().into())]);
    let body = body.property("request", request).property("next", next());
    let verify = draft
        .auth(HttpMethod::Post, base, "/email-code/verify", "verifyEmailCode", "Sign in with a mailed code")
        .about(
            "A code has six digits. It works once, for ten minutes and five attempts, with the cookie of the browser that \
             requested it or, without that cookie, with its `request`.",
        )
        .submitted(body, true, &value!({ "email": EMAIL, "code": "123456", "request": "q83v…" }))
        .answers(200, signed_in(config))
        .answers(303, redirect())
        .fails(&[401], Page::ForForms)
        .limited();
    draft.add(send);
    draft.add(verify);
}

/// Proving that a mailbox is one's own.
pub(super) fn email_verification(draft: &mut Draft, base: &str) {
    let send = draft
        .auth(HttpMethod::Post, base, "/send-verification", "sendVerification", "Mail a link that verifies the address")
        .submitted(typed(Type::Object).property("next", next()), false, &value!({}))
        .for_sessions(Page::ForForms)
        .answers(200, done_or_page("The mail is queued.", "sent"))
        .limited();
    let verify = draft
        .auth(HttpMethod::Get, base, "/verify-email", "verifyEmail", "Verify an address")
        .about(
            "Verifies the address if the browser has a session of the account. Otherwise it changes nothing: \
             `verified` is false, and the token must be posted. For a used token, it returns that the address is \
             verified.",
        )
        .parameter(query("token", "The mail's token.", string()))
        .answers(200, opened())
        .fails(&[400, 401, 500, 503], Page::ForForms);
    let confirm = draft
        .auth(HttpMethod::Post, base, "/verify-email", "confirmEmail", "Verify an address with a link's token")
        .about(
            "Without a session of the account, the first verification of its address removes every credential of the \
             account. `code` may replace `token`, in the browser that requested the mail.",
        )
        .submitted(token_or_code(), true, &value!({ "token": "5f0c…" }))
        .answers(200, done_or_page("The address is verified.", "verified"))
        .fails(&[401], Page::ForForms)
        .limited();
    for described in [send, verify, confirm] {
        draft.add(described);
    }
}

/// The reset of a forgotten password.
pub(super) fn password_reset(draft: &mut Draft, base: &str) {
    let forgot = draft
        .auth(HttpMethod::Post, base, "/forgot-password", "forgotPassword", "Mail a link that resets the password")
        .about("The response is the same whether the account exists or not.")
        .submitted(address(), true, &value!({ "email": EMAIL }))
        .answers(200, done_or_page("The mail is queued, if the account exists.", "sent"))
        .limited();
    let body = object([("password".to_owned(), string())]);
    let end_others = boolean().description(Some(
        "Whether API tokens, connected programs, passkeys, linked providers and sent invitations end too. Default: true.",
    ));
    let body = body.property("token", string()).property("code", code());
    let body = body.property("end_others", end_others);
    let example = value!({ "token": "5f0c…", "password": "correct horse battery" });
    let reset = draft
        .auth(HttpMethod::Post, base, "/reset-password", "resetPassword", "Set a new password")
        .about(format!(
            "{CODE} Everything else that has access to the account ends too, unless `end_others` is false. The answer names \
             the kinds that have ended in `ended`, and counts those that stay in `kept`."
        ))
        .submitted(body, true, &example)
        .answers(200, done_or_page("The password is set, and every session has ended.", "updated"))
        .answers(303, redirect())
        .fails(&[401], Page::ForForms)
        .limited();
    draft.add(forgot);
    draft.add(reset);
}

/// Whether the address is verified and, if it is not, how to confirm it.
fn opened() -> ResponseBuilder {
    let confirm = string().enum_values(Some(["POST"]));
    let body = object([("verified".to_owned(), boolean())]).property("confirm", confirm);
    let answer = json("Whether the address is verified.", body, Some(value!({ "verified": true })));
    answer.content("text/html", content(string(), None))
}

/// The proof of a mailbox.
pub(super) fn token_or_code() -> ObjectBuilder {
    typed(Type::Object).property("token", string()).property("code", code())
}

fn code() -> ObjectBuilder {
    string().description(Some(
        "The code of the mail, instead of `token`: `7K3Q-9XWD`. Case, spaces and the hyphen are ignored.",
    ))
}

const CODE: &str = "`code` may replace `token`. It is valid only with the cookie of the browser that requested the \
    mail, for five attempts. Using one invalidates the other.";

fn address() -> ObjectBuilder {
    object([("email".to_owned(), email())])
}

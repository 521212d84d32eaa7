use serde_json::json as value;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::schema::ObjectBuilder;

use super::mailed::token_or_code;
use super::{EMAIL, done_or_page, email, page};
use crate::openapi::Draft;
use crate::openapi::names::Page;
use crate::openapi::words::{object, query, string};

/// Another address for an account, and the way back.
pub(super) fn describe(draft: &mut Draft, base: &str) {
    let body = object([("email".to_owned(), email())])
        .property("password", string().description(Some("Required if the account has a password.")))
        .property("code", string().description(Some("A code of the second factor, if the account has one.")));
    let request = draft
        .auth(HttpMethod::Post, base, "/change-email", "changeEmail", "Mail a link that changes the address")
        .about(
            "Needs a session. An account without a password needs a session younger than five minutes. An address \
             that is already in use gets no mail; the response is the same.",
        )
        .submitted(body, true, &value!({ "email": EMAIL, "password": "correct horse battery" }))
        .for_sessions(Page::ForForms)
        .answers(200, done_or_page("The mail is queued, if it can be sent.", "sent"))
        .fails(&[409], Page::ForForms)
        .limited();
    draft.add(request);
    for (path, ask, act, summary, key) in [
        (
            "/change-email/confirm",
            "askChangedEmail",
            "confirmChangedEmail",
            "Change the address with a link's token",
            "changed",
        ),
        (
            "/change-email/undo",
            "askUndoEmail",
            "undoChangedEmail",
            "Restore the previous address of the account",
            "undone",
        ),
    ] {
        let asking = draft
            .auth(HttpMethod::Get, base, path, ask, "Open the page of a mailed link")
            .about("It names the account and asks for confirmation. Opening it changes nothing.")
            .parameter(query("token", "The link's token.", string()))
            .answers(200, page("The page."))
            .fails(&[400, 401, 403, 500, 503], Page::ForForms);
        let acting = draft
            .auth(HttpMethod::Post, base, path, act, summary)
            .submitted(if key == "changed" { token_or_code() } else { token() }, true, &value!({ "token": "5f0c…" }))
            .answers(200, done_or_page("The address is changed.", key))
            .fails(&[401, 403, 409], Page::ForForms);
        draft.add(asking);
        draft.add(if key == "changed" { acting.limited() } else { acting });
    }
}

fn token() -> ObjectBuilder {
    object([("token".to_owned(), string())])
}

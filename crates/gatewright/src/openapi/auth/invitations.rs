use serde_json::json as value;
use utoipa::openapi::path::HttpMethod;

use super::{next, redirect};
use crate::openapi::Draft;
use crate::openapi::components::Page;
use crate::openapi::words::{boolean, json, object, string};

/// Accepting an invitation with the account that there is.
pub(super) fn describe(draft: &mut Draft, base: &str) {
    let body = object([("invite".to_owned(), string())]).property("next", next());
    let accepted = object([("accepted".to_owned(), boolean())]).property("tenant", string());
    let example = value!({ "accepted": true, "tenant": "acme" });
    let accept = draft
        .auth(HttpMethod::Post, base, "/invitations/accept", "acceptInvitation", "Accept an invitation")
        .about(
            "For a session of the invited address, which gains the roles and the membership of the invitation. `tenant` is \
             absent where the invitation names none. A new account accepts by registering with the field `invite`.",
        )
        .submitted(body, true, &value!({ "invite": "5f0c\u{2026}" }))
        .for_sessions(Page::ForForms)
        .answers(200, json("It is accepted.", accepted, Some(example)))
        .answers(303, redirect());
    draft.add(accept);
}

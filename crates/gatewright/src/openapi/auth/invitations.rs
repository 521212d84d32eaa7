use serde_json::json as value;
use utoipa::openapi::path::HttpMethod;

use super::{next, redirect};
use crate::openapi::Draft;
use crate::openapi::names::Page;
use crate::openapi::words::{boolean, json, object, query, string};

/// Opening an invitation, and accepting it with an existing account.
pub(super) fn describe(draft: &mut Draft, base: &str) {
    let body = object([("invite".to_owned(), string())]).property("next", next());
    let accepted = object([("accepted".to_owned(), boolean())]).property("tenant", string());
    let example = value!({ "accepted": true, "tenant": "acme" });
    let accept = draft
        .auth(HttpMethod::Post, base, "/invitations/accept", "acceptInvitation", "Accept an invitation")
        .about(
            "Needs a session of the invited address. Its account gets the roles and the membership of the invitation. \
             `tenant` is absent if the invitation names none. A new account accepts by registering with the field \
             `invite`.",
        )
        .submitted(body, true, &value!({ "invite": "5f0c\u{2026}" }))
        .for_sessions(Page::ForForms)
        .answers(200, json("The invitation is accepted.", accepted, Some(example)))
        .answers(303, redirect())
        .fails(&[409], Page::ForForms);
    let show = draft
        .auth(HttpMethod::Get, base, "/invitations/accept", "showInvitation", "Show an invitation")
        .about(
            "A page with a form that accepts the invitation, for services without screens. With screens, it redirects \
             to `/register?invite=…`.",
        )
        .parameter(query("invite", "The token of the link.", string()));
    let of_before = draft
        .auth(HttpMethod::Get, base, "/tenants/accept", "showTenantInvitation", "Show an invitation to a tenant")
        .about("For links that were mailed by a version before 0.11.")
        .parameter(query("token", "The token of the link.", string()));
    draft.add(accept);
    for described in [show, of_before] {
        let described = described.answers(200, super::page("The page.")).answers(303, redirect());
        draft.add(described.fails(&[400, 401, 503], Page::ForForms));
    }
}

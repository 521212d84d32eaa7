use serde_json::json as value;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::schema::Type;

use super::{next, redirect};
use crate::openapi::Draft;
use crate::openapi::names::Page;
use crate::openapi::words::{Part, boolean, in_path, instant, json, list_of, object, or_null, query, string};

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
    let case = draft.case;
    let invited = object([
        ("email".to_owned(), Part::from(string())),
        ("inviter".to_owned(), or_null(Type::String).into()),
        ("tenant".to_owned(), or_null(Type::String).into()),
        ("roles".to_owned(), list_of(string()).into()),
        (case.spell("expires_at"), instant().into()),
    ]);
    let example = value!({
        "email": super::EMAIL, "inviter": "grace@example.com", "tenant": "Acme", "roles": ["member"],
        (case.spell("expires_at")): "2026-02-01T12:00:00.000000Z",
    });
    let describe = draft
        .auth(HttpMethod::Get, base, "/invitations/{token}", "describeInvitation", "Describe an invitation")
        .about(
            "For a front end's own page. `inviter` is the address of the sender, `tenant` the name of the tenant, and \
             `roles` are those in the tenant; without a tenant, those of the account. Nothing is accepted.",
        )
        .parameter(in_path("token", "The token of the link.", string().min_length(Some(1))))
        .answers(200, json("The invitation.", invited, Some(example)))
        .fails(&[404], Page::Never);
    draft.add(describe);
    draft.add(accept);
    for described in [show, of_before] {
        let described = described.answers(200, super::page("The page.")).answers(303, redirect());
        draft.add(described.fails(&[400, 401, 503], Page::ForForms));
    }
}

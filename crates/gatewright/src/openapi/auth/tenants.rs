use serde_json::json as value;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::schema::{ObjectBuilder, Type};

use super::EMAIL;
use super::account_deletion::with_proof;
use crate::openapi::names::Page;
use crate::openapi::words::{
    Part, boolean, empty, in_path, instant, integer, json, json_body, list_of, named, object, or_null, patch_body,
    query, string,
};
use crate::openapi::{Draft, schema};

/// Tenants of one's own, their members and invitations.
pub(super) fn describe(draft: &mut Draft, base: &str) {
    schemas(draft);
    tenants(draft, base);
    members(draft, base);
    invitations(draft, base);
}

fn schemas(draft: &mut Draft) {
    let case = draft.case;
    let tenant: [(&str, Part); 3] =
        [("id", string().into()), ("name", string().into()), ("roles", list_of(string()).into())];
    let tenant = object(tenant.map(|(name, schema)| (name.to_owned(), schema)));
    draft.components.schemas.insert("Tenant".to_owned(), tenant.into());
    let member: [(&str, Part); 5] = [
        ("id", string().into()),
        ("kind", string().enum_values(Some(["user", "service"])).into()),
        ("email", or_null(Type::String).description(Some("A user's address.")).into()),
        ("roles", list_of(string()).into()),
        ("joined_at", instant().into()),
    ];
    let member = object(member.map(|(name, schema)| (case.spell(name), schema)));
    draft.components.schemas.insert("TenantMember".to_owned(), member.into());
    let invitation: [(&str, Part); 4] = [
        ("id", string().into()),
        ("email", string().into()),
        ("roles", list_of(string()).into()),
        ("expires_at", instant().into()),
    ];
    let invitation = object(invitation.map(|(name, schema)| (case.spell(name), schema)));
    draft.components.schemas.insert("TenantInvitation".to_owned(), invitation.into());
}

fn tenants(draft: &mut Draft, base: &str) {
    let tenants = object([("tenants".to_owned(), list_of(named("Tenant")))]);
    let list = draft
        .auth(HttpMethod::Get, base, "/tenants", "listTenants", "List the caller's tenants")
        .for_sessions(Page::Never)
        .answers(200, json("The tenants, with the caller's roles in each.", tenants, None));
    let create = draft
        .auth(HttpMethod::Post, base, "/tenants", "createTenant", "Create a tenant")
        .about("The caller becomes its `owner`. The server chooses the id. 403 if `tenancy.self_service` is `false`.")
        .body(json_body(object([("name".to_owned(), name())]), Some(value!({ "name": "Acme" }))))
        .for_sessions(Page::Never)
        .answers(
            201,
            json(
                "The tenant.",
                named("Tenant"),
                Some(value!({ "id": schema::ID, "name": "Acme", "roles": ["owner"] })),
            ),
        )
        .fails(&[409, 413, 415, 422], Page::Never)
        .limited();
    for described in [list, create] {
        draft.add(described);
    }
}

fn members(draft: &mut Draft, base: &str) {
    let id = || in_path("id", "The tenant's id.", string().min_length(Some(1)));
    let member = || in_path("member", "The id of a user who is a member.", string().min_length(Some(1)));
    let listed = object([("members".to_owned(), Part::from(list_of(named("TenantMember"))))])
        .property(draft.case.spell("has_more"), boolean())
        .property("cursor", string().description(Some("The cursor of the next page.")))
        .property("invitations", list_of(named("TenantInvitation")).description(Some("Only on the first page.")));
    let list = draft
        .auth(HttpMethod::Get, base, "/tenants/{id}/members", "listTenantMembers", "List the members of a tenant")
        .about("For owners and admins of the tenant. For other tenants: 404.")
        .parameter(id())
        .parameter(query(
            "limit",
            "The number of members on a page; default 50.",
            integer().minimum(Some(1)).maximum(Some(200)),
        ))
        .parameter(query("cursor", "The `cursor` of the previous page.", string()))
        .for_sessions(Page::Never)
        .answers(200, json("The members, and on the first page the invitations.", listed, None))
        .fails(&[400, 404], Page::Never);
    let next = string().description(Some("Where accepting leads: a path on this origin, or an allowed URL."));
    let body = object([("email".to_owned(), string())]).property("roles", roles()).property("next", next);
    let body = with_proof(body);
    let answer = value!({
        "id": schema::ID, "email": EMAIL, "roles": ["member"],
        (draft.case.spell("expires_at")): "2026-02-01T12:00:00.000000Z",
    });
    let invite = draft
        .auth(HttpMethod::Post, base, "/tenants/{id}/members", "inviteTenantMember", "Invite somebody by mail")
        .about(
            "The membership begins when an account with this address accepts. Only owners can give the role `owner`. The \
             roles `owner` and `admin` need a session younger than five minutes or, in the body, a fresh proof: otherwise \
             403 `session_too_old`. The caller gets a mail about the invitation.",
        )
        .parameter(id())
        .body(json_body(body, Some(value!({ "email": EMAIL, "roles": ["member"] }))))
        .for_sessions(Page::Never)
        .answers(201, json("The invitation.", named("TenantInvitation"), Some(answer)))
        .fails(&[404, 409, 413, 415, 422, 503], Page::Never)
        .limited();
    let changed = object([("id".to_owned(), Part::from(string())), ("roles".to_owned(), list_of(string()).into())]);
    let set = draft
        .auth(HttpMethod::Patch, base, "/tenants/{id}/members/{member}", "setTenantRoles", "Change a member's roles")
        .about(
            "Only owners can give the role `owner` or change the roles of an owner. The last owner cannot lose the \
             role: 409 `last_owner`. The roles `owner` and `admin` need a session younger than five minutes or, in the \
             body, a fresh proof: otherwise 403 `session_too_old`. The caller gets a mail about the change.",
        )
        .parameter(id())
        .parameter(member())
        .body(patch_body(with_proof(object([("roles".to_owned(), roles())])), Some(value!({ "roles": ["admin"] }))))
        .for_sessions(Page::Never)
        .answers(200, json("The member's roles.", changed, Some(value!({ "id": schema::ID, "roles": ["admin"] }))))
        .fails(&[404, 409, 413, 415, 422], Page::Never)
        .limited();
    let remove = draft
        .auth(HttpMethod::Delete, base, "/tenants/{id}/members/{member}", "removeTenantMember", "Remove a member")
        .about("Every member may remove themselves. The last owner cannot be removed: 409 `last_owner`.")
        .parameter(id())
        .parameter(member())
        .for_sessions(Page::Never)
        .answers(204, empty("The account is no longer a member."))
        .fails(&[404, 409], Page::Never);
    for described in [list, invite, set, remove] {
        draft.add(described);
    }
}

fn invitations(draft: &mut Draft, base: &str) {
    let path = "/tenants/{id}/invitations/{invitation}";
    let withdraw = draft
        .auth(HttpMethod::Delete, base, path, "withdrawTenantInvitation", "Withdraw an invitation")
        .parameter(in_path("id", "The tenant's id.", string().min_length(Some(1))))
        .parameter(in_path("invitation", "The invitation's id.", string().min_length(Some(1))))
        .for_sessions(Page::Never)
        .answers(204, empty("The link no longer works."))
        .fails(&[404, 409], Page::Never);
    draft.add(withdraw);
}

fn name() -> ObjectBuilder {
    string().description(Some("1 to 100 characters on one line."))
}

fn roles() -> utoipa::openapi::schema::ArrayBuilder {
    list_of(string())
        .max_items(Some(16))
        .description(Some("`owner`, `admin`, `member` and those of `[tenancy.roles]`."))
}

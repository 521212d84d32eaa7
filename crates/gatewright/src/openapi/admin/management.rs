//! Service accounts, tenants and backups.

use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::schema::{ObjectBuilder, Type};

use super::super::Draft;
use super::super::names::Page;
use super::super::words::{
    Described, Part, boolean, in_path, instant, integer, json, list_of, object, or_null, query, string, textual,
};
use super::{UNVERIFIED, spelled};

pub(super) fn describe(draft: &Draft) -> Vec<Described> {
    let mut all = service_accounts(draft);
    all.extend(tenants(draft));
    all.push(backup(draft));
    all.push(impersonate(draft));
    all
}

fn impersonate(draft: &Draft) -> Described {
    let begun: [(&str, Part); 2] = [("user_id", string().into()), ("expires_at", instant().into())];
    let id = in_path("id", "The user's id.", string().min_length(Some(1)));
    draft
        .admin(HttpMethod::Post, "/users/{id}/impersonate", "adminImpersonateUser", "Act as a user")
        .parameter(id)
        .takes(object([("reason".to_owned(), string().max_length(Some(500)))]))
        .fails(&[404, 409], Page::Never)
        .gives("The session is in the cookie, for an hour at most.", spelled(draft.case, begun))
}

fn service_accounts(draft: &Draft) -> Vec<Described> {
    let case = draft.case;
    let account = || -> ObjectBuilder {
        let account: [(&str, Part); 5] = [
            ("id", string().into()),
            ("name", string().into()),
            ("roles", list_of(string()).into()),
            ("disabled", boolean().into()),
            ("created_at", instant().into()),
        ];
        spelled(case, account)
    };
    let id = || in_path("id", "The service account's id.", string().min_length(Some(1)));
    let admin = |method, path: &str, name: &str, summary: &str| draft.admin(method, path, name, summary);
    let made = object([("data".to_owned(), Part::from(account()))]);
    let new = object([("name".to_owned(), string())]).property("roles", list_of(string()).max_items(Some(32)));
    vec![
        admin(HttpMethod::Get, "/service-accounts", "adminListServiceAccounts", "List service accounts")
            .fails(&[404], Page::Never)
            .gives("Sorted by name.", list_of(account())),
        admin(HttpMethod::Post, "/service-accounts", "adminCreateServiceAccount", "Create a service account")
            .takes(new)
            .fails(&[404, 409], Page::Never)
            .answers(
                201,
                json("The service account. It is enabled. Its tokens are issued on the command line.", made, None),
            ),
        admin(
            HttpMethod::Post,
            "/service-accounts/{id}/disable",
            "adminDisableServiceAccount",
            "Disable a service account",
        )
        .parameter(id())
        .fails(&[404], Page::Never)
        .done("Its tokens are refused."),
        admin(
            HttpMethod::Post,
            "/service-accounts/{id}/enable",
            "adminEnableServiceAccount",
            "Enable a service account",
        )
        .parameter(id())
        .fails(&[404], Page::Never)
        .done("Its tokens work again."),
    ]
}

fn tenants(draft: &Draft) -> Vec<Described> {
    let case = draft.case;
    let tenant = || -> ObjectBuilder {
        let tenant: [(&str, Part); 3] =
            [("id", string().into()), ("name", or_null(Type::String).into()), ("members", integer().into())];
        spelled(case, tenant)
    };
    let member: [(&str, Part); 6] = [
        ("kind", string().enum_values(Some(["user", "service"])).into()),
        ("id", string().into()),
        ("email", or_null(Type::String).into()),
        ("name", or_null(Type::String).into()),
        ("roles", list_of(string()).into()),
        ("since", instant().into()),
    ];
    let id = || in_path("id", "The tenant's id.", string().min_length(Some(1)));
    let admin = |method, path: &str, name: &str, summary: &str| draft.admin(method, path, name, summary);
    let put = object([("member".to_owned(), string())]).property("roles", list_of(string()));
    let put = put.property("unverified", boolean().description(Some(UNVERIFIED)));
    vec![
        admin(HttpMethod::Get, "/tenants", "adminListTenants", "The tenants that have members")
            .fails(&[404], Page::Never)
            .pages("Sorted by id.", tenant().into()),
        admin(HttpMethod::Get, "/tenants/{id}", "adminGetTenant", "A tenant's name and number of members")
            .parameter(id())
            .fails(&[404], Page::Never)
            .gives("The tenant. Without members, `members` is 0.", tenant()),
        admin(HttpMethod::Get, "/tenants/{id}/members", "adminListMembers", "The members of a tenant")
            .parameter(id())
            .fails(&[400, 404], Page::Never)
            .pages("Sorted by kind and id.", spelled(case, member).into()),
        admin(HttpMethod::Put, "/tenants/{id}/members", "adminPutMember", "Add a member, or replace its roles")
            .parameter(id())
            .takes(put)
            .fails(&[404, 409], Page::Never)
            .done("The member has exactly these roles. `member` is an address or `service:NAME`."),
        admin(HttpMethod::Delete, "/tenants/{id}/members/{kind}/{member}", "adminRemoveMember", "End a membership")
            .parameter(id())
            .parameter(in_path("kind", "`user` or `service`.", string().enum_values(Some(["user", "service"]))))
            .parameter(in_path("member", "The account's id.", string().min_length(Some(1))))
            .fails(&[404], Page::Never)
            .done("The membership has ended. The member's streams end within a heartbeat."),
    ]
}

fn backup(draft: &Draft) -> Described {
    let about = "A consistent copy of the SQLite database, as from `gatewright backup`: with files in a folder, a tar. Needs `admin:write` and a \
        recent sign-in. Only one backup runs at a time: 409 `backup_running`. On Postgres: 409 `unsupported`.";
    draft
        .admin(HttpMethod::Get, "/backup", "adminBackup", "Download a backup")
        .about(about)
        .parameter(query("files", "`true`: with the files of a bucket.", boolean()))
        .fails(&[400, 409, 503], Page::Never)
        .answers(200, textual("The file.", "application/vnd.sqlite3"))
}

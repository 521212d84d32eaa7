//! The admin API. All its paths have the tag `admin`.

mod export;
mod jobs;
#[cfg(feature = "mail")]
mod mails;
mod management;
mod outbox;

use gatewright_base::JsonCase;
use utoipa::openapi::path::{HttpMethod, Parameter};
use utoipa::openapi::schema::{ObjectBuilder, Type};

use super::Draft;
use super::names::{API_TOKEN, JWT, Page, SESSION};
use super::words::{
    Described, Part, boolean, empty, in_header, in_path, instant, integer, json, json_body, list_of, named, object,
    or_null, patch_body, query, string, textual, typed,
};
use crate::Config;
use crate::app::parts;

const TAG: &str = "admin";
const ABOUT: &str = "Administration. For accounts with the role of `[admin]`, with a session or a JWT after the \
    second factor, or with an API token that has the scope `admin:read` or `admin:write`. Actions that are hard to \
    undo need a recent sign-in: 403 `fresh_sign_in_required`.";

const UNVERIFIED: &str = "Acts also on an account whose mailbox nobody has proven and that no operator created: anybody \
    may have registered it. Without it, such an account is 409 `email_unverified`.";

pub(super) fn describe(draft: &mut Draft, config: &Config) {
    draft.tag(TAG, ABOUT);
    schemas(draft);
    let mut all = vec![me(draft), health(draft), series(draft), configuration(draft), migrations(draft)];
    all.extend(users(draft));
    all.extend(invitations(draft));
    all.extend(records(draft, config));
    all.push(explain(draft));
    all.push(live(draft));
    all.extend(lockouts(draft));
    #[cfg(feature = "mail")]
    all.extend(mails::describe(draft));
    all.extend(jobs::describe(draft));
    all.push(audit(draft));
    all.extend(outbox::describe(draft));
    all.extend(clients(draft));
    all.extend(management::describe(draft));
    for described in all {
        draft.add(described);
    }
}

impl Draft {
    fn admin(&self, method: HttpMethod, path: &str, id: &str, summary: &str) -> Described {
        let changes = !matches!(method, HttpMethod::Get);
        let described = self.operation(method, &format!("/admin/api{path}"), id.to_owned(), TAG, summary);
        let described = described.open_to(&[SESSION, JWT, API_TOKEN], false).fails(&[401, 403], Page::Never);
        described.about(if changes { "Needs `admin:write`." } else { "Needs `admin:read`." })
    }
}

impl Described {
    /// Answers `{"data":…}`.
    fn gives(self, about: &str, schema: impl Into<Part>) -> Self {
        self.answers(200, json(about, object([("data".to_owned(), schema.into())]), None))
    }

    /// Answers a page.
    fn pages(self, about: &str, schema: Part) -> Self {
        let members: [(String, Part); 2] =
            [("data".to_owned(), list_of(schema).into()), ("cursor".to_owned(), or_null(Type::String).into())];
        let paging = [
            query("cursor", "The `cursor` of the previous page.", string()).build(),
            query("limit", "The maximum number of results; default 50.", integer().minimum(Some(1)).maximum(Some(200)))
                .build(),
        ];
        self.parameters(paging).answers(200, json(about, object(members), None))
    }

    fn takes(self, body: ObjectBuilder) -> Self {
        self.body(json_body(body, None)).fails(&[413, 415, 422], Page::Never)
    }

    fn done(self, about: &str) -> Self {
        self.answers(204, empty(about))
    }

    fn of_user(self) -> Self {
        self.parameter(in_path("id", "The user's id.", string().min_length(Some(1)))).fails(&[404], Page::Never)
    }
}

fn schemas(draft: &mut Draft) {
    let case = draft.case;
    let user: [(&str, Part); 9] = [
        ("id", string().into()),
        ("email", string().into()),
        ("roles", list_of(string()).into()),
        ("email_verified", boolean().into()),
        ("password_set", boolean().into()),
        ("disabled", boolean().into()),
        ("deleting", boolean().into()),
        ("created_at", instant().into()),
        ("last_sign_in_at", or_null(Type::String).description(Some("The last sign-in, by any method.")).into()),
    ];
    let invitation: [(&str, Part); 7] = [
        ("id", string().into()),
        ("email", string().into()),
        (
            "roles",
            typed(Type::Array).description(Some("Null: the default roles, or the roles that the account has.")).into(),
        ),
        ("tenant", or_null(Type::String).into()),
        ("tenant_roles", list_of(string()).into()),
        ("created_at", instant().into()),
        ("expires_at", instant().into()),
    ];
    let session: [(&str, Part); 8] = [
        ("id", string().into()),
        ("created_at", instant().into()),
        ("last_seen_at", instant().into()),
        ("expires_at", instant().into()),
        ("address", or_null(Type::String).into()),
        ("user_agent", or_null(Type::String).into()),
        ("two_factor_verified", boolean().into()),
        ("pending", boolean().description(Some("The second factor is pending.")).into()),
    ];
    let token: [(&str, Part); 7] = [
        ("id", string().into()),
        ("name", string().into()),
        ("prefix", string().into()),
        ("scopes", list_of(string()).into()),
        ("created_at", instant().into()),
        ("expires_at", or_null(Type::String).into()),
        ("last_used_at", or_null(Type::String).into()),
    ];
    let connection: [(&str, Part); 8] = [
        ("id", string().into()),
        ("client", string().into()),
        ("name", string().description(Some("The name that the program gives itself.")).into()),
        ("host", or_null(Type::String).into()),
        ("tenant", or_null(Type::String).description(Some("The only tenant in which it acts.")).into()),
        ("scopes", list_of(string()).into()),
        ("created_at", instant().into()),
        ("last_used_at", or_null(Type::String).description(Some("When the program last got a token.")).into()),
    ];
    let event: [(&str, Part); 7] = [
        ("id", string().into()),
        ("kind", string().into()),
        ("user", or_null(Type::String).description(Some("The account that the event is about.")).into()),
        ("remote", or_null(Type::String).into()),
        ("subject", or_null(Type::String).description(Some("The subject of the event, as `resource/id`.")).into()),
        ("meta", typed(Type::Object).into()),
        ("at", instant().into()),
    ];
    let delivery: [(&str, Part); 8] = [
        ("event_id", string().into()),
        ("consumer", string().into()),
        ("status", string().enum_values(Some(["pending", "dispatched", "dead", "abandoned"])).into()),
        ("attempts", integer().into()),
        ("last_error", or_null(Type::String).into()),
        ("created_at", instant().into()),
        ("next_attempt_at", or_null(Type::String).into()),
        ("dispatched_at", or_null(Type::String).into()),
    ];
    let lockout: [(&str, Part); 5] = [
        ("key", string().into()),
        ("limit", string().into()),
        ("subject", or_null(Type::String).description(Some("An account or an address.")).into()),
        ("reason", string().into()),
        ("until", instant().into()),
    ];
    for (name, schema) in [
        ("AdminUser", spelled(case, user)),
        ("AdminInvitation", spelled(case, invitation)),
        ("AdminSession", spelled(case, session)),
        ("AdminToken", spelled(case, token)),
        ("AdminConnection", spelled(case, connection)),
        ("AuditEvent", spelled(case, event)),
        ("Delivery", spelled(case, delivery)),
        ("Lockout", spelled(case, lockout)),
    ] {
        draft.components.schemas.insert(name.to_owned(), schema.into());
    }
}

fn spelled<const N: usize>(case: JsonCase, members: [(&str, Part); N]) -> ObjectBuilder {
    object(members.map(|(name, schema)| (case.spell(name), schema)))
}

fn me(draft: &Draft) -> Described {
    let me: [(&str, Part); 7] = [
        ("id", string().into()),
        ("kind", string().enum_values(Some(["user", "service"])).into()),
        ("email", or_null(Type::String).into()),
        ("may_write", boolean().into()),
        ("fresh", boolean().description(Some("Whether the sign-in is recent enough for every action.")).into()),
        ("features", list_of(string()).into()),
        ("version", string().into()),
    ];
    draft.admin(HttpMethod::Get, "/me", "adminMe", "The caller").gives("The caller.", spelled(draft.case, me))
}

fn health(draft: &Draft) -> Described {
    let described = draft.admin(HttpMethod::Get, "/health", "adminHealth", "The state of the process");
    described.gives("Database, fan-out, streams and the mail queue.", typed(Type::Object))
}

fn series(draft: &Draft) -> Described {
    let minute: [(&str, Part); 8] = [
        ("at", instant().into()),
        ("requests", integer().into()),
        ("errors", integer().description(Some("Responses with a status of 500 and above.")).into()),
        ("refusals", integer().description(Some("Responses with a status of 400 to 499.")).into()),
        ("p50_ms", or_null(Type::Integer).into()),
        ("p95_ms", or_null(Type::Integer).into()),
        ("streams", integer().into()),
        ("lag_seconds", integer().into()),
    ];
    let described = draft.admin(HttpMethod::Get, "/series", "adminSeries", "The last hour of this process, by minute");
    described.gives("The oldest first.", list_of(spelled(draft.case, minute)))
}

fn configuration(draft: &Draft) -> Described {
    let described =
        draft.admin(HttpMethod::Get, "/configuration", "adminConfiguration", "The configuration, without secrets");
    described.gives("With the keys of the configuration file.", typed(Type::Object))
}

fn migrations(draft: &Draft) -> Described {
    let plan: [(&str, Part); 2] = [("statements", list_of(string()).into()), ("notes", list_of(string()).into())];
    let described = draft.admin(HttpMethod::Get, "/migrations", "adminMigrations", "Pending migrations");
    described.gives("Empty lists if no migration is pending.", spelled(draft.case, plan))
}

fn users(draft: &Draft) -> Vec<Described> {
    let admin = |method, path: &str, id: &str, summary: &str| draft.admin(method, path, id, summary);
    let roles = object([("roles".to_owned(), list_of(string()).max_items(Some(32)))])
        .property("unverified", boolean().description(Some(UNVERIFIED)));
    let session = || in_path("session", "The session's id.", string().min_length(Some(1)));
    let token = || in_path("token", "The token's id.", string().min_length(Some(1)));
    vec![
        admin(HttpMethod::Get, "/users", "adminListUsers", "Search users")
            .parameter(query("q", "The beginning of the address, or an id.", string()))
            .parameter(query("role", "Only accounts with this role.", string()))
            .parameter(query("verified", "Only accounts whose mailbox is proven, or is not.", boolean()))
            .parameter(query("secondFactor", "Only accounts with an enabled second factor, or without one.", boolean()))
            .parameter(query(
                "signedInBefore",
                "Only accounts whose last sign-in was before this time, and those that never signed in.",
                instant(),
            ))
            .pages("Sorted by address.", named("AdminUser")),
        admin(HttpMethod::Get, "/users/{id}", "adminGetUser", "Read a user").of_user().gives(
            "The user with `two_factor_enabled` (in the configured case), and with `profile` if profile fields are \
             declared.",
            named("AdminUser"),
        ),
        export::describe(draft),
        admin(HttpMethod::Put, "/users/{id}/roles", "adminSetRoles", "Replace the roles of a user")
            .of_user()
            .takes(roles)
            .fails(&[409], Page::Never)
            .done("The roles apply from the next request."),
        admin(HttpMethod::Delete, "/users/{id}/two-factor", "adminResetTwoFactor", "Remove the second factor")
            .of_user()
            .fails(&[409], Page::Never)
            .done("The second factor and its backup codes are removed."),
        admin(HttpMethod::Post, "/users/{id}/unlock", "adminUnlockUser", "Reset the failed attempts of an account")
            .of_user()
            .done("The owner can try again."),
        admin(HttpMethod::Post, "/users/{id}/disable", "adminDisableUser", "Disable a user")
            .of_user()
            .fails(&[409], Page::Never)
            .done("The user's sessions and JWTs have ended, and their API tokens are refused."),
        admin(HttpMethod::Post, "/users/{id}/enable", "adminEnableUser", "Enable a disabled user")
            .of_user()
            .fails(&[409], Page::Never)
            .done("The user can sign in, and their API tokens work. Refused while the account is being deleted."),
        admin(HttpMethod::Delete, "/users/{id}", "adminDeleteUser", "Delete a user permanently")
            .of_user()
            .answers(202, empty("The account is closed. Its records are still being released in the background."))
            .fails(&[409], Page::Never)
            .done("The account is deleted."),
        admin(HttpMethod::Get, "/users/{id}/sessions", "adminListSessions", "The sessions of a user")
            .of_user()
            .gives("The most recently used first.", list_of(named("AdminSession"))),
        admin(HttpMethod::Delete, "/users/{id}/sessions", "adminEndSessions", "Sign a user out everywhere")
            .of_user()
            .done("The user's sessions and JWTs have ended."),
        admin(HttpMethod::Delete, "/users/{id}/sessions/{session}", "adminEndSession", "End a session")
            .of_user()
            .parameter(session())
            .done("The session has ended."),
        admin(HttpMethod::Get, "/users/{id}/connections", "adminListConnections", "The programs connected by a user")
            .of_user()
            .gives(
                "The newest first. Empty if the authorization server is disabled.",
                list_of(named("AdminConnection")),
            ),
        admin(HttpMethod::Delete, "/users/{id}/connections/{connection}", "adminDisconnect", "End a connection")
            .of_user()
            .parameter(in_path("connection", "The connection's id.", string().min_length(Some(1))))
            .done("Its tokens are refused, and the program must request access again."),
        admin(HttpMethod::Get, "/users/{id}/tokens", "adminListTokens", "The API tokens of a user")
            .of_user()
            .gives("The tokens. Only their prefixes are shown.", list_of(named("AdminToken"))),
        admin(HttpMethod::Delete, "/users/{id}/tokens/{token}", "adminRevokeToken", "Revoke an API token")
            .of_user()
            .parameter(token())
            .done("The token is revoked."),
    ]
}

fn invitations(draft: &Draft) -> Vec<Described> {
    let admin = |method, path: &str, id: &str, summary: &str| draft.admin(method, path, id, summary);
    let case = draft.case;
    let new = object([("email".to_owned(), string())])
        .property("roles", list_of(string()).max_items(Some(32)))
        .property("tenant", string())
        .property(case.spell("tenant_roles"), list_of(string()))
        .property(
            "next",
            string().description(Some("Where accepting leads: a path on this origin, or an allowed URL.")),
        );
    let sent: [(&str, Part); 4] = [
        ("id", string().into()),
        ("email", string().into()),
        ("expires_at", instant().into()),
        ("mailed", boolean().into()),
    ];
    let made = object([("data".to_owned(), Part::from(spelled(case, sent)))]);
    vec![
        admin(HttpMethod::Get, "/invitations", "adminListInvitations", "Open invitations")
            .fails(&[409], Page::Never)
            .gives("The newest first.", list_of(named("AdminInvitation"))),
        admin(HttpMethod::Post, "/invitations", "adminInvite", "Invite an address")
            .takes(new)
            .fails(&[409], Page::Never)
            .answers(
                201,
                json("The link was mailed. In dev mode, the response also contains it as `link`.", made, None),
            ),
        admin(HttpMethod::Delete, "/invitations/{id}", "adminWithdrawInvitation", "Withdraw an invitation")
            .parameter(in_path("id", "The invitation's id.", string().min_length(Some(1))))
            .fails(&[404, 409], Page::Never)
            .done("The link no longer works."),
    ]
}

/// The answer of the list of an entity's records.
const RECORDS: &str = "Like the entity's own list. With a cursor, a search or a filter without a suitable index reads \
    at most 50,000 records for each page. A page that ends at this limit has `searched`, the number of records read, \
    and a `cursor` to continue the search; `data` has the records found so far and may be empty.";

fn records(draft: &Draft, config: &Config) -> Vec<Described> {
    let admin = |method, path: &str, id: &str, summary: &str| draft.admin(method, path, id, summary);
    let header = config.tenancy.header();
    let about = "On multi-tenant entities: the tenant. Without it, records of all tenants.";
    let tenant = || parts::has_tenants(config).then(|| in_header(header.as_str(), about, string()).build());
    let entity = || in_path("entity", "The entity's table.", string().min_length(Some(1)));
    let id = || in_path("id", "The record's id.", string().min_length(Some(1)));
    let on_one = |described: Described| {
        described.parameter(entity()).parameter(id()).parameters(tenant()).fails(&[404], Page::Never)
    };
    let lists = "page limit sort cursor direction filter q prefix highlight trashed fields include".split(' ');
    let list: Vec<Parameter> =
        lists.map(|name| query(name, "As in the entity's own list.", string()).build()).collect();
    let unlike = || typed(Type::Object).description(Some("The fields to change."));
    vec![
        admin(HttpMethod::Get, "/records", "adminListEntities", "The entities and their fields").gives(
            "The declarations. `indexed` names the fields that an index begins with.",
            list_of(typed(Type::Object)),
        ),
        admin(HttpMethod::Get, "/records/{entity}", "adminListRecords", "The records of all owners")
            .parameter(entity())
            .parameters(list)
            .parameters(tenant())
            .fails(&[404, 429], Page::Never)
            .answers(200, json(RECORDS, typed(Type::Object), None)),
        on_one(admin(HttpMethod::Get, "/records/{entity}/{id}", "adminGetRecord", "Read a record"))
            .gives("The record.", typed(Type::Object)),
        on_one(admin(HttpMethod::Patch, "/records/{entity}/{id}", "adminUpdateRecord", "Update a record"))
            .parameter(in_header(
                "If-Match",
                "The entity tag that the record must still have; 412 otherwise.",
                string(),
            ))
            .takes(unlike())
            .body(patch_body(unlike(), None))
            .fails(&[409, 412], Page::Never)
            .gives("The updated record.", typed(Type::Object)),
        on_one(admin(HttpMethod::Delete, "/records/{entity}/{id}", "adminDeleteRecord", "Delete a record"))
            .parameter(in_header(
                "If-Match",
                "The entity tag that the record must still have; 412 otherwise.",
                string(),
            ))
            .fails(&[409, 412], Page::Never)
            .done("The record is deleted."),
        on_one(admin(HttpMethod::Post, "/records/{entity}/{id}/restore", "adminRestoreRecord", "Restore a record"))
            .gives("The restored record.", typed(Type::Object)),
    ]
}

fn explain(draft: &Draft) -> Described {
    let body = object(["as", "operation", "table"].map(|name| (name.to_owned(), string())))
        .property("id", string())
        .property("tenant", string());
    let about = "`as` is an address, `service:NAME` or `anonymous`; `operation` is read, create, update or delete. Needs \
        `admin:read`.";
    draft
        .admin(HttpMethod::Post, "/explain", "adminExplain", "Explain why a caller may or may not do something")
        .about(about)
        .takes(body)
        .gives("The decision, and each check with its terms and values.", typed(Type::Object))
}

fn live(draft: &Draft) -> Described {
    let about = "Server-sent events as on the entity's own stream, for all owners and tenants. 503 if `[events]` is \
         disabled.";
    draft
        .admin(HttpMethod::Get, "/events/{entity}", "adminFollow", "Stream the writes to an entity")
        .parameter(in_path("entity", "The entity's table.", string().min_length(Some(1))))
        .parameter(query("since", "Resume after this position.", string()))
        .fails(&[404], Page::Never)
        .answers(200, textual(about, "text/event-stream"))
}

fn lockouts(draft: &Draft) -> Vec<Described> {
    let listed: [(String, Part); 2] =
        [("data".to_owned(), list_of(named("Lockout")).into()), ("listed".to_owned(), boolean().into())];
    let about = "The last to end first. `listed` is false if the limit store cannot list lockouts.";
    let limit =
        query("limit", "The maximum number of results; default 50.", integer().minimum(Some(1)).maximum(Some(200)));
    vec![
        draft
            .admin(HttpMethod::Get, "/lockouts", "adminListLockouts", "Current lockouts")
            .parameter(limit)
            .answers(200, json(about, object(listed), None)),
        draft
            .admin(HttpMethod::Post, "/lockouts/unlock", "adminUnlock", "End a lockout")
            .takes(object([("key".to_owned(), string())]))
            .done("The failed attempts are reset."),
    ]
}

fn audit(draft: &Draft) -> Described {
    let moment = |name: &str, about: &str| query(name, about, instant()).build();
    draft
        .admin(HttpMethod::Get, "/audit", "adminListAudit", "The audit log")
        .parameter(query("kind", "Events of this kind.", string()))
        .parameter(query("user", "Events about this account.", string()))
        .parameter(query("subject", "Events about this subject, such as `posts/ID`.", string()))
        .parameters([moment("since", "At or after this time."), moment("until", "Before this time.")])
        .pages("The newest first.", named("AuditEvent"))
}

fn clients(draft: &Draft) -> Vec<Described> {
    vec![
        draft
            .admin(HttpMethod::Get, "/clients", "adminListClients", "The clients of the authorization server")
            .fails(&[404], Page::Never)
            .gives("The oldest first.", list_of(typed(Type::Object))),
        draft
            .admin(HttpMethod::Delete, "/clients/{id}", "adminRemoveClient", "Remove a client")
            .parameter(in_path("id", "The client's id.", string().min_length(Some(1))))
            .fails(&[404], Page::Never)
            .done("The client is removed, and its tokens are invalid."),
    ]
}

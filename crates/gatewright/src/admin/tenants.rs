use std::collections::HashMap;

use axum::extract::State;
use axum::response::Response;
use axum::routing::{delete, get};
use axum::{Json, Router};
use gatewright_auth::service_accounts::ServiceAccountError;
use gatewright_auth::users::UserStoreError;
use gatewright_auth::{AccountError, AccountName, EmailAddress, Unverified};
use gatewright_base::{ServiceId, Subject, TenantId, UserId, time};
use gatewright_entities::tenancy::SqlMemberships;
use gatewright_http::{JsonBody, Problem, Query, Segment, Segments};
use gatewright_tenancy::{TenantMember, TenantSummary};
use http::StatusCode;
use serde_json::{Value, json};

use super::AdminState;
use super::answer::{account, data, database, limit, noted, object, page, unavailable};
use super::gate::Fresh;
use super::{invitations, users};

/// Tenants and their members.
pub(super) fn routes() -> Router<AdminState> {
    Router::new()
        .route("/tenants", get(list))
        .route("/tenants/{id}", get(one))
        .route("/tenants/{id}/members", get(members).put(put))
        .route("/tenants/{id}/members/{kind}/{member}", delete(remove))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Paging {
    cursor: Option<String>,
    limit: Option<u32>,
}

async fn list(State(state): State<AdminState>, Query(paging): Query<Paging>) -> Result<Json<Value>, Problem> {
    let limit = limit(paging.limit);
    let found = memberships(&state)?.tenants(paging.cursor.as_deref(), limit).await.map_err(database)?;
    let is_full = u32::try_from(found.len()).is_ok_and(|count| count == limit);
    let cursor = found.last().filter(|_| is_full).map(|last| last.id.as_str().to_owned());
    Ok(page(found.iter().map(|tenant| summary(&state, tenant)).collect(), cursor))
}

/// A tenant begins with its first member, whom an operator adds on its page, so a tenant without members is valid.
async fn one(State(state): State<AdminState>, Segment(id): Segment) -> Result<Json<Value>, Problem> {
    let found = memberships(&state)?.tenant(&named(&id)?).await.map_err(database)?;
    Ok(data(summary(&state, &found)))
}

fn summary(state: &AdminState, tenant: &TenantSummary) -> Value {
    let fields = [
        ("id", tenant.id.as_str().into()),
        ("name", tenant.name.as_deref().into()),
        ("members", tenant.members.into()),
    ];
    object(state.config.server.json_case, fields)
}

async fn members(
    State(state): State<AdminState>,
    Segment(id): Segment,
    Query(paging): Query<Paging>,
) -> Result<Json<Value>, Problem> {
    let (tenant, limit) = (named(&id)?, limit(paging.limit));
    let after = match paging.cursor.as_deref().filter(|cursor| !cursor.is_empty()) {
        None => None,
        Some(cursor) => {
            let after = cursor.split_once('/').and_then(|(kind, id)| subject(kind, id).ok());
            Some(after.ok_or_else(|| Problem::bad_request("invalid cursor for this list"))?)
        }
    };
    let found = memberships(&state)?.members(&tenant, after.as_ref(), limit).await.map_err(database)?;
    let is_full = u32::try_from(found.len()).is_ok_and(|count| count == limit);
    let cursor = found.last().filter(|_| is_full).map(|last| at(&last.subject));
    let names = Names::of(&state, &found).await?;
    Ok(page(found.iter().map(|member| names.shown(&state, member)).collect(), cursor))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Put {
    /// An address, or `service:NAME`.
    member: String,
    #[serde(default)]
    roles: Vec<String>,
    /// Whether the account may be one whose mailbox nobody has proven.
    #[serde(default)]
    unverified: bool,
}

async fn put(
    State(state): State<AdminState>,
    _: Fresh,
    Segment(id): Segment,
    JsonBody(body): JsonBody<Put>,
) -> Result<Response, Problem> {
    // The first member creates the tenant, whose identifier is its name.
    let tenant = crate::tenant_id(&id).map_err(|error| Problem::not_found(error.to_string()))?;
    let roles = users::roles(&invitations::tenant_roles(&state.config, "roles", body.roles)?)?;
    let member = called(&state, &body.member, body.unverified.into()).await?;
    let memberships = memberships(&state)?;
    let before = memberships.roles_of(&tenant, &member).await.map_err(database)?;
    memberships.put(&tenant, &member, &roles).await.map_err(database)?;
    let given = [("before", json!(before)), ("roles", json!(roles)), ("unverified", body.unverified.into())];
    let details = [("member", at(&member).into())].into_iter().chain(given);
    Ok(noted(StatusCode::NO_CONTENT, details))
}

async fn remove(
    State(state): State<AdminState>,
    Segments([id, kind, member]): Segments<3>,
) -> Result<Response, Problem> {
    let (tenant, member) = (named(&id)?, subject(&kind, &member)?);
    if !memberships(&state)?.remove(&tenant, &member).await.map_err(database)? {
        return Err(missing());
    }
    Ok(noted(StatusCode::NO_CONTENT, [("member", at(&member).into())]))
}

fn memberships(state: &AdminState) -> Result<&SqlMemberships, Problem> {
    let none = || Problem::not_found("no entity has `multi_tenant = true`: there are no tenants");
    state.memberships.as_ref().ok_or_else(none)
}

fn named(tenant: &str) -> Result<TenantId, Problem> {
    TenantId::parse(tenant).map_err(|_| Problem::not_found("no such tenant"))
}

fn subject(kind: &str, id: &str) -> Result<Subject, Problem> {
    match kind {
        "user" => UserId::parse(id).map(Subject::User).map_err(|_| missing()),
        "service" => ServiceId::parse(id).map(Subject::Service).map_err(|_| missing()),
        _ => Err(missing()),
    }
}

fn missing() -> Problem {
    Problem::not_found("no such member")
}

/// The key of a member: `user/42`.
fn at(member: &Subject) -> String {
    match member {
        Subject::User(id) => format!("user/{}", id.as_str()),
        Subject::Service(id) => format!("service/{}", id.as_str()),
    }
}

/// The account with an address, or the service account with a name.
async fn called(state: &AdminState, name: &str, unverified: Unverified) -> Result<Subject, Problem> {
    let unknown = || {
        Problem::invalid_field(
            "member",
            "unknown",
            "must be the address of an account, or `service:NAME` of a service account",
        )
    };
    if let Some(name) = name.strip_prefix("service:") {
        let services = state.auth.service_accounts().ok_or_else(unknown)?;
        return match services.find(name).await {
            Ok(found) => Ok(Subject::Service(found.id)),
            Err(ServiceAccountError::NotFound) => Err(unknown()),
            Err(error) => Err(unavailable(&error)),
        };
    }
    let email = EmailAddress::parse(name).map_err(|_| unknown())?;
    match state.auth.accounts().resolve(AccountName::Address(email.as_str()), unverified).await {
        Ok(found) => Ok(Subject::User(found.id)),
        Err(AccountError::Users(UserStoreError::NotFound)) => Err(unknown()),
        Err(error) => Err(account(error)),
    }
}

/// The names of some members' accounts, if the accounts still exist.
struct Names {
    emails: HashMap<UserId, String>,
    services: HashMap<ServiceId, String>,
}

impl Names {
    async fn of(state: &AdminState, members: &[TenantMember]) -> Result<Self, Problem> {
        let (mut users, mut services) = (Vec::new(), Vec::new());
        for member in members {
            match &member.subject {
                Subject::User(id) => users.push(id.clone()),
                Subject::Service(id) => services.push(id.clone()),
            }
        }
        let users = state.auth.accounts().find_among(&users).await.map_err(account)?;
        let services = match state.auth.service_accounts() {
            None => Vec::new(),
            Some(store) => store.find_among(&services).await.map_err(|error| unavailable(&error))?,
        };
        Ok(Self {
            emails: users.into_iter().filter_map(|user| Some((user.id.clone(), user.address()?.to_string()))).collect(),
            services: services.into_iter().map(|service| (service.id, service.name)).collect(),
        })
    }

    fn shown(&self, state: &AdminState, member: &TenantMember) -> Value {
        let (kind, email, name) = match &member.subject {
            Subject::User(id) => ("user", self.emails.get(id), None),
            Subject::Service(id) => ("service", None, self.services.get(id)),
        };
        object(
            state.config.server.json_case,
            [
                ("kind", kind.into()),
                ("id", member.subject.as_str().into()),
                ("email", email.cloned().into()),
                ("name", name.cloned().into()),
                ("roles", json!(member.roles)),
                ("since", time::format(member.since).into()),
            ],
        )
    }
}

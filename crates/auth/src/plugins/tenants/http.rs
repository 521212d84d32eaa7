use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, patch};
use axum::{Json, Router};
use gatewright_base::{JsonCase, Roles, Secret, ServiceId, Subject, TenantId, UserId, time};
use gatewright_http::{JsonBody, Problem, Query, Segment, Segments};
use gatewright_tenancy::TenantOfUser;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::flow::{Flow, Invite, Listed, TenantError};
use crate::email::EmailAddress;
use crate::fresh::{FreshError, Given};
use crate::invitations::Invitation;
use crate::label::Label;
use crate::plugins::invitations;
use crate::problem;
use crate::session::Session;
use crate::web::{Case, Visitor};

/// The default number of members on one page.
const DEFAULT_LIMIT: u32 = 50;
/// The most members of one page.
const MAX_LIMIT: u32 = 200;

pub(super) fn routes(flow: Arc<Flow>) -> Router {
    Router::new()
        .route("/tenants", get(list).post(create))
        .route("/tenants/{id}/members", get(members).post(invite))
        .route("/tenants/{id}/members/{member}", patch(set_roles).delete(remove))
        .route("/tenants/{id}/invitations/{invitation}", delete(withdraw))
        .with_state(flow)
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTenant {
    name: String,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NewInvitation {
    email: String,
    roles: Option<Vec<String>>,
    next: Option<String>,
    /// The proof that an old session needs for a role that administers the tenant.
    password: Option<Secret>,
    code: Option<Secret>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRoles {
    roles: Vec<String>,
    /// The proof, as for an invitation.
    password: Option<Secret>,
    code: Option<Secret>,
}

#[derive(serde::Deserialize)]
struct Place {
    limit: Option<u32>,
    cursor: Option<String>,
}

async fn list(State(flow): State<Arc<Flow>>, caller: Session) -> Result<Json<Value>, Problem> {
    let tenants: Vec<_> = flow.list(&caller).await.map_err(refuse)?.iter().map(tenant).collect();
    Ok(Json(json!({ "tenants": tenants })))
}

async fn create(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    caller: Session,
    JsonBody(body): JsonBody<NewTenant>,
) -> Result<(StatusCode, Json<Value>), Response> {
    let name = Label::parse(&body.name)
        .map_err(|error| Problem::invalid_field("name", "invalid", error.to_string()).into_response())?;
    let id = flow.create(&caller, &name, &visitor.client).await.map_err(answer)?;
    Ok((StatusCode::CREATED, Json(json!({ "id": id, "name": name, "roles": [gatewright_tenancy::OWNER] }))))
}

async fn members(
    State(flow): State<Arc<Flow>>,
    Case(case): Case,
    caller: Session,
    Segment(id): Segment,
    Query(place): Query<Place>,
) -> Result<Json<Value>, Problem> {
    let tenant = tenant_id(&id)?;
    let limit = place.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(Problem::bad_request(format!("the query parameter limit is 1 to {MAX_LIMIT}")));
    }
    let after = place.cursor.as_deref().map(parse_cursor).transpose()?.flatten();
    let page = flow.members(&caller, &tenant, after.as_ref(), limit).await.map_err(refuse)?;
    let members: Vec<_> = page.members.iter().map(|listed| member(listed, case)).collect();
    let mut body = json!({ "members": members, (case.spell("has_more")): page.has_more });
    if page.has_more
        && let Some(last) = page.members.last()
    {
        body["cursor"] = cursor(&last.member.subject).into();
    }
    if after.is_none() {
        body["invitations"] = page.invitations.iter().map(|found| invitation(found, case)).collect();
    }
    Ok(Json(body))
}

async fn invite(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    Case(case): Case,
    caller: Session,
    Segment(id): Segment,
    JsonBody(body): JsonBody<NewInvitation>,
) -> Result<(StatusCode, Json<Value>), Response> {
    let tenant = tenant_id(&id).map_err(IntoResponse::into_response)?;
    let email = EmailAddress::parse(&body.email)
        .map_err(|_| Problem::invalid_field("email", "invalid", "not a valid email address").into_response())?;
    let given = Given { password: body.password, code: body.code };
    let new = Invite { email, roles: body.roles, next: body.next };
    let sent = flow.invite(&caller, &tenant, new, &given, &visitor.client).await.map_err(answer)?;
    Ok((StatusCode::CREATED, Json(invitation(&sent, case))))
}

async fn set_roles(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    caller: Session,
    Members { tenant, member }: Members,
    JsonBody(body): JsonBody<NewRoles>,
) -> Result<Json<Value>, Response> {
    let given = Given { password: body.password, code: body.code };
    let roles = flow.set_roles(&caller, &tenant, &member, body.roles, &given, &visitor.client).await;
    let roles = roles.map_err(answer)?;
    Ok(Json(json!({ "id": member, "roles": roles })))
}

async fn remove(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    caller: Session,
    Members { tenant, member }: Members,
) -> Result<StatusCode, Problem> {
    flow.remove(&caller, &tenant, &member, &visitor.client).await.map_err(refuse)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn withdraw(
    State(flow): State<Arc<Flow>>,
    caller: Session,
    Segments([id, invitation]): Segments<2>,
) -> Result<StatusCode, Problem> {
    flow.withdraw(&caller, &tenant_id(&id)?, &invitation).await.map_err(refuse)?;
    Ok(StatusCode::NO_CONTENT)
}

/// The tenant and the member that a path names.
struct Members {
    tenant: TenantId,
    member: UserId,
}

impl<S: Sync + Send> axum::extract::FromRequestParts<S> for Members {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut http::request::Parts, state: &S) -> Result<Self, Problem> {
        let Ok(Segments([id, member])) = Segments::from_request_parts(parts, state).await;
        let member = UserId::parse(&member).map_err(|_| Problem::not_found("no such member"))?;
        Ok(Self { tenant: tenant_id(&id)?, member })
    }
}

fn no_tenant() -> Problem {
    Problem::not_found("no such tenant")
}

fn tenant_id(text: &str) -> Result<TenantId, Problem> {
    TenantId::parse(text).map_err(|_| no_tenant())
}

fn cursor(subject: &Subject) -> String {
    format!("user:{}", subject.as_str())
}

/// The cursor names a user; earlier ones may name a service account, before which there is no user.
fn parse_cursor(text: &str) -> Result<Option<UserId>, Problem> {
    let invalid = || Problem::bad_request("invalid cursor for this list");
    match text.split_once(':').ok_or_else(invalid)? {
        ("user", id) => UserId::parse(id).map(Some).map_err(|_| invalid()),
        ("service", id) => ServiceId::parse(id).map(|_| None).map_err(|_| invalid()),
        _ => Err(invalid()),
    }
}

fn tenant(tenant: &TenantOfUser) -> Value {
    json!({ "id": tenant.id, "name": tenant.name, "roles": names(&tenant.roles) })
}

fn member(listed: &Listed, case: JsonCase) -> Map<String, Value> {
    let kind = if matches!(listed.member.subject, Subject::User(_)) { "user" } else { "service" };
    let fields = [
        ("id", listed.member.subject.as_str().into()),
        ("kind", kind.into()),
        ("email", json!(listed.email)),
        ("roles", names(&listed.member.roles)),
        ("joined_at", time::format(listed.member.since).into()),
    ];
    fields.into_iter().map(|(name, value): (_, Value)| (case.spell(name), value)).collect()
}

fn invitation(invitation: &Invitation, case: JsonCase) -> Value {
    let fields = [
        ("id", Value::from(invitation.id.as_str())),
        ("email", invitation.email.as_str().into()),
        ("roles", invitation.tenant_roles.clone().into()),
        ("expires_at", time::format(invitation.expires_at).into()),
    ];
    Value::Object(fields.into_iter().map(|(name, value)| (case.spell(name), value)).collect())
}

fn names(roles: &Roles) -> Value {
    roles.iter().map(Value::from).collect()
}

fn answer(error: TenantError) -> Response {
    match error {
        TenantError::Denied(denied) | TenantError::Fresh(FreshError::Denied(denied)) => denied.into_response(),
        error => refuse(error).into_response(),
    }
}

fn refuse(error: TenantError) -> Problem {
    let detail = error.to_string();
    match error {
        // Only callers that count no attempt come here with it.
        TenantError::Denied(denied) => denied.into(),
        TenantError::SelfServiceOff => Problem::forbidden(detail).with_code("tenant_creation_closed"),
        TenantError::NoTenant | TenantError::NoMember | TenantError::NoInvitation => Problem::not_found(detail),
        TenantError::Forbidden => Problem::forbidden(detail),
        TenantError::LastOwner => Problem::conflict(detail).with_code("last_owner"),
        TenantError::TooManyTenants => Problem::conflict(detail).with_code("too_many_tenants"),
        TenantError::InvitationClaimed(left) => invitations::claimed(left),
        TenantError::TooManyInvitations => Problem::conflict(detail).with_code("too_many_invitations"),
        TenantError::Roles(_) => Problem::invalid_field("roles", "invalid", detail),
        TenantError::NoMailer => problem::not_configured("email delivery not configured"),
        TenantError::StepUp(error) => error.into(),
        TenantError::Fresh(error) => error.into(),
        TenantError::SessionEnded => problem::no_session(),
        TenantError::Store(error) => problem::store_failed(&error),
        TenantError::Users(error) => error.into(),
        TenantError::Invitations(error) => problem::store_failed(&error),
    }
}

use axum::extract::State;
use axum::response::Response;
use axum::routing::{delete, get};
use axum::{Json, Router};
use gatewright_auth::EmailAddress;
use gatewright_auth::plugins::invitations::{Invitation, NewInvitation};
use gatewright_base::{InvitationId, JsonCase, Roles, Subject, TenantId, time};
use gatewright_http::{JsonBody, Problem, Segment};
use http::StatusCode;
use serde_json::{Value, json};

use super::AdminState;
use super::answer::{account, data, noted, object};
use super::gate::{Fresh, Operator};
use super::users;
use crate::Config;

/// Invitations to register, or to gain roles and a membership.
pub(super) fn routes() -> Router<AdminState> {
    Router::new().route("/invitations", get(list).post(invite)).route("/invitations/{id}", delete(withdraw))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct New {
    email: String,
    roles: Option<Vec<String>>,
    tenant: Option<String>,
    #[serde(rename = "tenantRoles", alias = "tenant_roles", default)]
    tenant_roles: Vec<String>,
    next: Option<String>,
}

async fn list(State(state): State<AdminState>) -> Result<Json<Value>, Problem> {
    let open = state.auth.accounts().invitations(None).await.map_err(account)?;
    let case = state.config.server.json_case;
    Ok(data(open.iter().map(|invitation| shown(invitation, case)).collect::<Vec<_>>()))
}

async fn invite(
    State(state): State<AdminState>,
    operator: Operator,
    _: Fresh,
    JsonBody(body): JsonBody<New>,
) -> Result<Response, Problem> {
    let email = EmailAddress::parse(&body.email)
        .map_err(|error| Problem::invalid_field("email", "invalid", error.to_string()))?;
    let roles = body.roles.map(|roles| users::roles(&roles)).transpose()?;
    let mut new = NewInvitation::new(email.clone()).roles(roles).next(body.next);
    if let Some(tenant) = &body.tenant {
        let tenant =
            crate::tenant_id(tenant).map_err(|error| Problem::invalid_field("tenant", "invalid", error.to_string()))?;
        new = new.tenant(tenant, tenant_roles(&state.config, "tenantRoles", body.tenant_roles)?);
    } else if !body.tenant_roles.is_empty() {
        return Err(Problem::invalid_field("tenantRoles", "invalid", "roles in a tenant need `tenant`"));
    }
    if let Subject::User(own) = &operator.subject {
        new = new.invited_by(own.clone());
    }
    let issued = state.auth.accounts().invite(new).await.map_err(account)?;
    let mut members = vec![
        ("id", issued.id.as_str().into()),
        ("email", email.as_str().into()),
        ("expires_at", time::format(issued.expires_at).into()),
        ("mailed", issued.mailed.into()),
    ];
    if state.config.server.dev_mode {
        // Outside of dev mode only the mailbox gets the link, because the link proves the mailbox.
        members.push(("link", issued.link.expose().into()));
    }
    let answer = (StatusCode::CREATED, data(object(state.config.server.json_case, members)));
    Ok(noted(answer, [("invitation", issued.id.as_str().into()), ("email", email.as_str().into())]))
}

async fn withdraw(State(state): State<AdminState>, Segment(id): Segment) -> Result<StatusCode, Problem> {
    let missing = || Problem::not_found("no such invitation");
    let id = InvitationId::parse(&id).map_err(|_| missing())?;
    if !state.auth.accounts().withdraw_invitation(&id, None).await.map_err(account)? {
        return Err(missing());
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Roles within a tenant. All of them must exist. Without any, that of a plain member.
pub(super) fn tenant_roles(config: &Config, field: &'static str, roles: Vec<String>) -> Result<Vec<String>, Problem> {
    if roles.is_empty() {
        return Ok(vec![gatewright_tenancy::MEMBER.to_owned()]);
    }
    let own = [gatewright_tenancy::OWNER, gatewright_tenancy::ADMIN, gatewright_tenancy::MEMBER];
    let is_known = |role: &String| own.contains(&role.as_str()) || config.tenancy.roles.contains_key(role);
    match roles.iter().find(|role| !is_known(role)) {
        Some(unknown) => {
            let problem = format!("there is no tenant role {unknown:?}; `[tenancy.roles]` declares them");
            Err(Problem::invalid_field(field, "invalid", problem))
        }
        None => Ok(roles),
    }
}

fn shown(invitation: &Invitation, case: JsonCase) -> Value {
    object(
        case,
        [
            ("id", invitation.id.as_str().into()),
            ("email", invitation.email.as_str().into()),
            ("roles", json!(invitation.roles.as_ref().map(|roles: &Roles| roles.iter().collect::<Vec<_>>()))),
            ("tenant", invitation.tenant.as_ref().map(TenantId::as_str).into()),
            ("tenant_roles", json!(invitation.tenant_roles)),
            ("created_at", time::format(invitation.created_at).into()),
            ("expires_at", time::format(invitation.expires_at).into()),
        ],
    )
}

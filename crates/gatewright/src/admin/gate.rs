//! Decides which callers may administer, and records their acts.

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use gatewright_auth::Assurance;
use gatewright_auth::audit::{AuditEvent, AuditKind, PendingEvent};
use gatewright_auth::tokens::TokenDraft;
use gatewright_base::{Credential, Identity, Principal, Scopes, Subject, TenantId, TenantLimit, Unavailable, UserId};
use gatewright_entities::tenancy::Named;
use gatewright_http::{ClientAddr, Problem, cross_site};
use http::request::Parts;
use http::{Method, StatusCode};

use super::AdminState;
use super::answer::{self, Noted};
use crate::config::Admin;

/// The kind of a request, which determines the scope that a token needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Read,
    Write,
}

/// When an act whose audit event could not be stored is worth trying again.
const RETRY: Duration = Duration::from_secs(5);

/// The methods that any route has.
const METHODS: [Method; 6] = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// A caller who may administer. In the extensions of every request behind [`pass`].
#[derive(Debug, Clone)]
pub(super) struct Operator {
    pub(super) identity: Identity,
    pub(super) subject: Subject,
    pub(super) email: Option<String>,
    pub(super) address: Option<IpAddr>,
    /// Whether the second factor or the password was proven a short time ago, or the credential is one that cannot.
    pub(super) is_fresh: bool,
    /// Whether the credential may change something.
    pub(super) may_write: bool,
}

/// Admits operators and records their changes.
pub(super) async fn pass(State(state): State<AdminState>, request: Request, next: Next) -> Response {
    // No route has a handler for other methods: it answers which ones it has.
    if !METHODS.contains(request.method()) {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let operator = match admit(&state, &mut parts).await {
        Ok(operator) => operator,
        Err(problem) => return problem.answer(&parts.headers),
    };
    if let Err(problem) = takes_query(&parts) {
        return problem.answer(&parts.headers);
    }
    let act = Act::of(&state, &mut parts, &operator).await;
    parts.extensions.insert(operator);
    let request = Request::from_parts(parts, body);
    let Some(act) = act else { return next.run(request).await };
    // In a separate task: the act is recorded even if the caller disconnects.
    let acting = tokio::spawn(async move {
        let begun = match act.begin(&state).await {
            Ok(begun) => begun,
            Err(problem) => return problem.into_response(),
        };
        let response = next.run(request).await;
        let noted = response.extensions().get::<Noted>().cloned();
        act.record(begun, response.status(), noted).await;
        response
    });
    match acting.await {
        Ok(response) => response,
        Err(error) => Problem::internal(&error).into_response(),
    }
}

/// The routes whose GET reads the query. Each refuses parameters that it does not know.
const WITH_QUERY: [&str; 12] = [
    "/jobs/{name}/history",
    "/users",
    "/audit",
    "/lockouts",
    "/mails",
    "/outbox/deliveries",
    "/tenants",
    "/tenants/{id}/members",
    "/records/{entity}",
    "/records/{entity}/{id}",
    "/events/{entity}",
    "/backup",
];

/// Refuses a parameter of a route that takes none: whoever sends it expects an effect, such as fewer results.
fn takes_query(parts: &Parts) -> Result<(), Problem> {
    let name = parts.uri.query().unwrap_or_default().split(['=', '&']).next().unwrap_or_default();
    let route = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or_default();
    let path = route.strip_prefix(super::PATH).and_then(|path| path.strip_prefix("/api")).unwrap_or(route);
    let reads = matches!(parts.method, Method::GET | Method::HEAD) && WITH_QUERY.contains(&path);
    if name.is_empty() || reads {
        return Ok(());
    }
    let name: String = name.chars().take(64).collect();
    Err(Problem::bad_request(format!("the query parameter {name} is unknown here: this path takes none")))
}

async fn admit(state: &AdminState, parts: &mut Parts) -> Result<Operator, Problem> {
    let address = ClientAddr::from_request_parts(parts, &()).await.ok().and_then(ClientAddr::ip);
    let identity = parts.extensions.get::<Identity>().cloned().unwrap_or_default();
    let principal = match &identity {
        Identity::Anonymous => return Err(Problem::unauthorized("authentication is required")),
        Identity::Pending(_) => return Err(second_factor_required()),
        Identity::Known(principal) => principal.clone(),
    };
    let assurance = parts.extensions.get::<Assurance>().copied();
    let want = wanted(parts);
    let admin = &state.config.admin;
    match &principal.credential {
        Credential::Session { impersonated_by: Some(_), .. } => {
            return Err(Problem::forbidden("an operator who acts as a user cannot do this").with_code("impersonated"));
        }
        Credential::Session { .. } | Credential::Jwt { .. } => {
            refuse_other_sites(state, parts)?;
            holds_role(admin, &principal)?;
            let proven = assurance.is_some_and(|assurance| assurance.second_factor);
            if admin.require_two_factor && !(proven && has_factor(state, &principal.subject).await?) {
                return Err(second_factor_required());
            }
        }
        Credential::ApiToken { tenants: TenantLimit::Only(_) | TenantLimit::Nowhere, .. } => {
            return Err(Problem::forbidden("a program that a user connected cannot do this"));
        }
        Credential::ApiToken { scopes, tenants: TenantLimit::Unlimited, .. } => {
            let scope = want.scope();
            if !covers(scopes, scope) {
                let missing = format!("the token lacks the scope {}:{scope}", TokenDraft::ADMIN);
                let problem = Problem::out_of_scope(missing, TokenDraft::ADMIN, scope);
                return Err(problem.with_code("insufficient_scope"));
            }
            if matches!(principal.subject, Subject::User(_)) {
                holds_role(admin, &principal)?;
                if admin.require_two_factor && !has_factor(state, &principal.subject).await? {
                    return Err(second_factor_required());
                }
            }
        }
        Credential::Grant(_) => return Err(Problem::forbidden("an embedded surface cannot do this")),
    }
    let is_token = matches!(principal.credential, Credential::ApiToken { .. });
    let now = state.ambient.now();
    let proven_recently =
        assurance.is_some_and(|assurance| now.duration_since(assurance.proven_at).unsigned_abs() <= admin.fresh);
    let may_write = principal.credential.scopes().is_none_or(|scopes| covers(scopes, Want::Write.scope()));
    Ok(Operator {
        subject: principal.subject.clone(),
        email: principal.email.as_deref().map(str::to_owned),
        address,
        is_fresh: is_token || proven_recently,
        may_write,
        identity,
    })
}

/// A question that may be long is sent by POST, but counts as a read.
fn wanted(parts: &Parts) -> Want {
    let asks = parts.extensions.get::<MatchedPath>().is_some_and(|path| path.as_str().ends_with("/explain"));
    if asks || matches!(parts.method, Method::GET | Method::HEAD) { Want::Read } else { Want::Write }
}

impl Want {
    fn scope(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Wildcards for the resource do not count: a token for everything that its owner does every day is not for operators.
fn covers(scopes: &Scopes, verb: &str) -> bool {
    scopes.iter().any(|scope| scope.resource() == TokenDraft::ADMIN && scope.covers(TokenDraft::ADMIN, verb))
}

fn holds_role(admin: &Admin, principal: &Principal) -> Result<(), Problem> {
    if principal.roles.contains(&admin.role) {
        return Ok(());
    }
    Err(Problem::forbidden(format!("the role \"{}\" is required", admin.role)))
}

/// Whether the account has a second factor still: an operator may have removed it since.
async fn has_factor(state: &AdminState, subject: &Subject) -> Result<bool, Problem> {
    let Subject::User(user) = subject else { return Ok(false) };
    state.auth.accounts().has_second_factor(user).await.map_err(answer::account)
}

fn second_factor_required() -> Problem {
    Problem::forbidden("two-factor verification required").with_code("two_factor_required")
}

/// Whether the credentials of a stream still belong to an operator.
pub(super) async fn still_administers(state: &AdminState, identity: &Identity) -> Result<bool, Unavailable> {
    let Identity::Known(principal) = identity else { return Ok(false) };
    let admin = &state.config.admin;
    let holds_role = matches!(principal.subject, Subject::Service(_)) || principal.roles.contains(&admin.role);
    // A JWT's second factor was checked when the stream began.
    let allows = match &principal.credential {
        Credential::ApiToken { scopes, .. } => covers(scopes, Want::Read.scope()),
        Credential::Grant(_) | Credential::Session { impersonated_by: Some(_), .. } => false,
        Credential::Session { two_factor_verified, .. } => *two_factor_verified || !admin.require_two_factor,
        Credential::Jwt { .. } => true,
    };
    if !(holds_role && allows) {
        return Ok(false);
    }
    match &principal.subject {
        Subject::User(_) if admin.require_two_factor => {
            has_factor(state, &principal.subject).await.map_err(|_| Unavailable)
        }
        Subject::User(_) | Subject::Service(_) => Ok(true),
    }
}

/// No page of another origin works here, not even one that the browser backend allows: it could do all that the operator can.
fn refuse_other_sites(state: &AdminState, parts: &Parts) -> Result<(), Problem> {
    let own = cross_site::own_origins(parts, state.origin.as_ref());
    if cross_site::from_sibling(&parts.headers) || cross_site::from_another_site(&parts.headers, &own) {
        return Err(cross_site::refusal());
    }
    Ok(())
}

/// An operator who signed in recently, for acts that are hard to undo. Others get 403 `fresh_sign_in_required`.
#[derive(Debug, Clone)]
pub(super) struct Fresh;

impl<S: Sync> FromRequestParts<S> for Fresh {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match parts.extensions.get::<Operator>() {
            Some(operator) if operator.is_fresh => Ok(Self),
            _ => Err(Problem::forbidden("sign in again to do this").with_code("fresh_sign_in_required")),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Problem::unauthorized("authentication is required"))
    }
}

/// Something that is being done, for the audit log.
struct Act {
    /// Method and route: `PUT /admin/api/users/{id}/roles`.
    action: String,
    /// The target of the act: `users/42`, `posts/7`.
    subject: Option<String>,
    /// The account that it is done to, or else the one that does it.
    account: Option<UserId>,
    /// The tenant that the request named, for acts on records.
    tenant: Option<TenantId>,
    operator: Operator,
    credential: Vec<(&'static str, String)>,
}

impl Act {
    /// `None` for a request that changes nothing.
    async fn of(state: &AdminState, parts: &mut Parts, operator: &Operator) -> Option<Self> {
        let downloads = ["/backup", "/export"].iter().any(|end| parts.uri.path().ends_with(end));
        if wanted(parts) == Want::Read && !downloads {
            return None;
        }
        let route = parts.extensions.get::<MatchedPath>().map(|path| path.as_str().to_owned()).unwrap_or_default();
        let named = RawPathParams::from_request_parts(parts, &()).await.ok();
        let value = |wanted: &str| {
            let mut pairs = named.iter().flat_map(|params| params.iter());
            let visible = |value: &str| value.chars().filter(|c| !c.is_control()).take(200).collect::<String>();
            pairs.find(|(name, _)| *name == wanted).map(|(_, value)| visible(value))
        };
        let id = value("id");
        let tenant = match Named::read(&parts.headers, &state.config.tenancy.header()) {
            Named::Tenant(tenant) if value("entity").is_some() => Some(tenant),
            Named::Tenant(_) | Named::Nothing | Named::Unreadable => None,
        };
        let kind = match value("entity") {
            Some(entity) => Some(table(state, entity)),
            None => route.strip_prefix("/admin/api/").and_then(|rest| rest.split('/').next()).map(str::to_owned),
        };
        let subject = id.as_ref().zip(kind.as_ref()).map(|(id, kind)| format!("{kind}/{id}"));
        let target = id.filter(|_| route.starts_with("/admin/api/users/")).and_then(|id| UserId::parse(&id).ok());
        let actor = match &operator.subject {
            Subject::User(id) => Some(id.clone()),
            Subject::Service(_) => None,
        };
        let credential = match operator.identity.principal().map(|principal| &principal.credential) {
            Some(Credential::Session { id, .. }) => vec![("session", id.as_str().to_owned())],
            Some(Credential::ApiToken { id, .. }) => vec![("token_id", id.as_str().to_owned())],
            _ => vec![],
        };
        let action = format!("{} {route}", parts.method);
        Some(Self { action, subject, account: target.or(actor), tenant, operator: operator.clone(), credential })
    }

    /// Stores the act before it takes effect. It is refused if that fails.
    async fn begin(&self, state: &AdminState) -> Result<PendingEvent, Problem> {
        let kind = match &self.operator.subject {
            Subject::User(_) => "actor",
            Subject::Service(_) => "service_id",
        };
        let audit = state.auth.audit();
        let mut event = audit
            .event(AuditKind::AdminActed)
            .remote(self.operator.address)
            .about(self.subject.clone())
            .with("action", self.action.as_str())
            .with(kind, self.operator.subject.as_str());
        event.user_id.clone_from(&self.account);
        if let Some(tenant) = &self.tenant {
            event = event.with("tenant_id", tenant.as_str());
        }
        for (name, value) in &self.credential {
            event = event.with(name, value.as_str());
        }
        audit.begin_act(event).await.map_err(|error| {
            tracing::error!(%error, action = self.action, "an operator's act was refused");
            Problem::unavailable("the audit log cannot be written, so nothing was done", RETRY)
        })
    }

    async fn record(self, begun: PendingEvent, status: StatusCode, noted: Option<Noted>) {
        tracing::info!(action = self.action, subject = self.subject, %status, "an operator acted");
        let details = noted.filter(|_| is_done(status)).map(|Noted(details)| details).unwrap_or_default();
        let complete = |event: AuditEvent| {
            let event = event.with("status", status.as_u16());
            details.into_iter().fold(event, |event, (name, value)| event.with(&name, value))
        };
        begun.done_with(complete).await;
    }
}

/// An entity can be named by its table or its name; the log uses the table.
fn table(state: &AdminState, entity: String) -> String {
    let plan = state.entities.plans().iter().find(|plan| plan.name() == entity);
    plan.map_or(entity, |plan| plan.table().to_owned())
}

fn is_done(status: StatusCode) -> bool {
    status.is_success() || status.is_redirection()
}

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use gatewright_base::{Roles, Secret, time};
use gatewright_http::{Caller, Problem, Query, Segment, Submission};
use serde_json::{Value, json};

use super::flow::Flow;
use super::issuing::words_of;
use super::page::{self, Opened};
use crate::Core;
use crate::mail::Invited;
use crate::screens::paths::with_query;
use crate::session::Session;
use crate::web::{By, Case, Visitor, guarded, onward, redirect_next, see_other};

pub(crate) fn routes(core: &Arc<Core>) -> Router {
    let Some(flow) = Flow::new(core) else { return Router::new() };
    Router::new()
        .route("/invitations/accept", guarded(core, None, post(accept)).get(show))
        .route("/tenants/accept", get(show_of_tenant))
        .route("/invitations/{token}", get(describe))
        .with_state(Arc::new(flow))
}

#[derive(serde::Deserialize)]
struct Link {
    invite: Option<Secret>,
    next: Option<String>,
}

#[derive(serde::Deserialize)]
struct LinkOfTenant {
    token: Option<Secret>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    invite: Secret,
}

/// The page of an invitation where no screens are mounted. Where they are, it is a part of `/register`.
async fn show(State(flow): State<Arc<Flow>>, caller: Caller, visitor: Visitor, Query(link): Query<Link>) -> Response {
    let token = link.invite.unwrap_or_else(|| Secret::new(""));
    if flow.core.screens.get().is_some() {
        let next = link.next.iter().map(|next| ("next", next.as_str()));
        let pairs = [("invite", token.expose())].into_iter().chain(next);
        return see_other(Secret::new(with_query("/register", pairs)).expose());
    }
    let next = link.next.as_deref().and_then(|next| flow.core.redirects.next(next));
    match page::open(&flow, &caller, &visitor, &token, next.as_ref(), false).await {
        Opened::Page(page) => page,
        Opened::Registration { .. } => see_other("/register"),
    }
}

/// The link of an invitation to a tenant that was mailed before these and the others were one.
async fn show_of_tenant(
    flow: State<Arc<Flow>>,
    caller: Caller,
    visitor: Visitor,
    Query(link): Query<LinkOfTenant>,
) -> Response {
    show(flow, caller, visitor, Query(Link { invite: link.token, next: None })).await
}

/// What the holder of the token is invited to, for a front end's own page. Nothing is accepted.
async fn describe(
    State(flow): State<Arc<Flow>>,
    Case(case): Case,
    Segment(token): Segment,
) -> Result<Json<Value>, Problem> {
    let found = flow.find(&Secret::new(token)).await?.ok_or_else(|| Problem::not_found("no such invitation"))?;
    let Invited { tenant, inviter } = words_of(&flow.core, &found).await;
    let account = found.roles.iter().flat_map(Roles::iter).map(str::to_owned);
    let roles: Vec<String> = if found.tenant.is_some() { found.tenant_roles } else { account.collect() };
    let fields = [
        ("email", Value::from(found.email.as_str())),
        ("inviter", inviter.into()),
        ("tenant", tenant.into()),
        ("roles", roles.into()),
        ("expires_at", time::format(found.expires_at).into()),
    ];
    Ok(Json(Value::Object(fields.into_iter().map(|(name, value)| (case.spell(name), value)).collect())))
}

/// Only for a session of the invited address.
async fn accept(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    By(session): By<Session>,
    submission: Submission<Body>,
) -> Response {
    let Submission { value: Body { invite }, kind, next } = submission;
    match flow.accept(&invite, &session, &visitor.client).await {
        Ok(invitation) if kind.is_form() => {
            let Some(tenant) = &invitation.tenant else {
                return redirect_next(&flow.core, next.as_ref(), "/");
            };
            let name = flow.tenant_name(tenant).await.unwrap_or_else(|_| tenant.as_str().to_owned());
            page::joined(&name, onward(&flow.core, next.as_ref(), "/"))
        }
        Ok(invitation) => {
            let mut body = json!({ "accepted": true });
            if let Some(tenant) = invitation.tenant {
                body["tenant"] = tenant.as_str().into();
            }
            Json(body).into_response()
        }
        Err(error) => kind.refuse(error.into()),
    }
}

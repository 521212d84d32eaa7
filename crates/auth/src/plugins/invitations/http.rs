use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use gatewright_base::Secret;
use gatewright_http::{Caller, Next, Query, Submission};
use serde_json::json;

use super::flow::Flow;
use super::page::{self, Opened};
use crate::Core;
use crate::background::to_its_end;
use crate::screens::paths::with_query;
use crate::session::Session;
use crate::web::{By, Visitor, guarded, redirect_next, see_other};

pub(crate) fn routes(core: &Arc<Core>) -> Router {
    let Some(flow) = Flow::new(core) else { return Router::new() };
    Router::new()
        .route("/invitations/accept", guarded(core, None, post(accept)).get(show))
        .route("/tenants/accept", get(show_of_tenant))
        .with_state(Arc::new(flow))
}

#[derive(serde::Deserialize)]
struct Link {
    invite: Option<Secret>,
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
        return see_other(Secret::new(with_query("/register", [("invite", token.expose())])).expose());
    }
    match page::open(&flow, &caller, &visitor, &token, false).await {
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
    show(flow, caller, visitor, Query(Link { invite: link.token })).await
}

/// Only for a session of the invited address.
async fn accept(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    By(session): By<Session>,
    submission: Submission<Body>,
) -> Response {
    let Submission { value: Body { invite }, kind, next } = submission;
    let accepting = flow.clone();
    // Completed even if the caller disconnects: otherwise a claim could be left without a result.
    let accepted = to_its_end(async move { accepting.accept(&invite, &session, &visitor.client).await });
    match accepted.await {
        Ok(invitation) if kind.is_form() => {
            let Some(tenant) = &invitation.tenant else {
                return redirect_next(&flow.core, next.as_ref(), "/");
            };
            let name = flow.tenant_name(tenant).await.unwrap_or_else(|_| tenant.as_str().to_owned());
            page::joined(&name, next.as_ref().map_or("/", Next::as_str))
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

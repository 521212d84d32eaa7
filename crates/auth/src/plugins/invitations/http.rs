use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use gatewright_base::Secret;
use gatewright_http::{Problem, Submission};
use serde_json::json;

use super::flow::{AcceptError, Flow};
use crate::Core;
use crate::plugins::web::{By, Visitor, go_on, guarded};
use crate::problem::{self, store_failed};
use crate::session::Session;

pub(super) fn routes(core: &Arc<Core>) -> Router {
    let Some(flow) = Flow::new(core) else { return Router::new() };
    Router::new().route("/invitations/accept", guarded(core, None, post(accept))).with_state(Arc::new(flow))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    invite: Secret,
}

/// For a session of the invited address alone.
async fn accept(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    By(session): By<Session>,
    submission: Submission<Body>,
) -> Response {
    match flow.accept(&submission.value.invite, &session, &visitor.client).await {
        Ok(_) if submission.kind.is_form() => go_on(&flow.core, submission.next.as_ref(), "/"),
        Ok(invitation) => {
            let mut body = json!({ "accepted": true });
            if let Some(tenant) = invitation.tenant {
                body["tenant"] = tenant.as_str().into();
            }
            Json(body).into_response()
        }
        Err(error) => submission.kind.refuse(error.into()),
    }
}

impl From<AcceptError> for Problem {
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::Unknown => problem::invalid_token(),
            AcceptError::OtherAddress => Self::forbidden(error.to_string()).with_code("other_address"),
            AcceptError::Full => Self::conflict(error.to_string()).with_code("too_many_members"),
            AcceptError::StepUp(error) => error.into(),
            AcceptError::Users(error) => error.into(),
            AcceptError::Prove(error) => error.into(),
            AcceptError::Store(_) | AcceptError::Tenant(_) => store_failed(&error),
        }
    }
}

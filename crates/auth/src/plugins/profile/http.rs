use std::sync::Arc;

use axum::extract::State;
use axum::routing::patch;
use axum::{Json, Router};
use gatewright_http::{PatchJson, Problem};
use serde_json::{Value, json};

use crate::core::Core;
use crate::profiles::{ChangeError, Profiles, own_user};
use crate::session::Session;
use crate::web::{Visitor, guarded};

/// The change of a profile. `GET /me` shows the profile.
pub(super) fn routes(core: &Arc<Core>, profiles: Profiles) -> Router {
    let change = guarded(core, None, patch(change));
    Router::new().route("/me", change).with_state(RouteState { core: core.clone(), profiles })
}

#[derive(Clone)]
struct RouteState {
    core: Arc<Core>,
    profiles: Profiles,
}

/// Only for a session.
async fn change(
    State(state): State<RouteState>,
    visitor: Visitor,
    session: Session,
    PatchJson { bytes, is_merge_patch }: PatchJson,
) -> Result<Json<Value>, Problem> {
    let body = (&*bytes, is_merge_patch);
    state.profiles.change(&state.core.audit, &session.user().id, body, &visitor.client).await?;
    Ok(Json(json!({ "user": own_user(state.core.profiles.as_ref(), session.user()).await? })))
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Refused(problem) => problem,
            ChangeError::Contended => Self::conflict(error.to_string()),
            ChangeError::Users(error) => error.into(),
        }
    }
}

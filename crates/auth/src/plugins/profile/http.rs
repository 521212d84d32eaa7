use std::sync::Arc;

use axum::extract::State;
use axum::routing::patch;
use axum::{Json, Router};
use gatewright_http::{Problem, RawJson};
use serde_json::{Value, json};

use super::flow::{ChangeError, Profiles, own_user};
use crate::Core;
use crate::plugins::web::{Visitor, guarded};
use crate::session::Session;

/// Beside `GET /me`, which shows the profile.
pub(super) fn routes(core: &Arc<Core>, profiles: Profiles) -> Router {
    let change = guarded(core, None, patch(change));
    Router::new().route("/me", change).with_state(Desk { core: core.clone(), profiles })
}

#[derive(Clone)]
struct Desk {
    core: Arc<Core>,
    profiles: Profiles,
}

/// For a session alone.
async fn change(
    State(desk): State<Desk>,
    visitor: Visitor,
    session: Session,
    RawJson(body): RawJson,
) -> Result<Json<Value>, Problem> {
    desk.profiles.change(&desk.core, &session.user().id, &body, &visitor.client).await?;
    Ok(Json(json!({ "user": own_user(&desk.core, session.user()).await? })))
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

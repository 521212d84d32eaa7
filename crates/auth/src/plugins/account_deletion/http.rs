use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use gatewright_http::{Problem, Submission};
use serde_json::json;

use super::flow::{DeleteError, Flow};
use super::section::deleted;
use crate::accounts::AccountError;
use crate::fresh::{FreshError, Given};
use crate::problem::{no_session, store_failed};
use crate::session::Session;
use crate::web::{By, Visitor, guarded, without_session};

pub(super) fn routes(flow: Arc<Flow>) -> Router {
    let delete = guarded(&flow.core, None, post(delete));
    Router::new().route("/delete-account", delete).with_state(flow)
}

/// Only for a session with a fresh proof.
async fn delete(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    By(session): By<Session>,
    submission: Submission<Given>,
) -> Response {
    let kind = submission.kind;
    match flow.delete(&session, &submission.value, &visitor.client).await {
        Ok(()) if kind.is_form() => without_session(deleted(), &flow.core),
        Ok(()) => without_session(Json(json!({ "deleted": true })).into_response(), &flow.core),
        Err(DeleteError::Fresh(FreshError::Denied(denied))) => denied.into_response(),
        Err(error) => kind.refuse(error.into()),
    }
}

impl From<DeleteError> for Problem {
    fn from(error: DeleteError) -> Self {
        match error {
            DeleteError::Fresh(error) => error.into(),
            DeleteError::Account(AccountError::LastOwner(_)) => {
                Self::conflict(error.to_string()).with_code("last_owner")
            }
            // Another request was first, or the session has ended.
            DeleteError::Account(AccountError::Users(crate::users::UserStoreError::NotFound)) => no_session(),
            DeleteError::Account(AccountError::Users(error)) => error.into(),
            DeleteError::Account(error) => store_failed(&error),
        }
    }
}

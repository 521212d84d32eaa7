use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use gatewright_http::{Problem, Segment};

use super::AdminState;
use super::answer::account;
use super::gate::Fresh;
use super::users::named;

/// `GET /users/{id}/export`: what the service stores about an account, and the records that name it.
pub(super) fn routes() -> Router<AdminState> {
    Router::new().route("/users/{id}/export", get(export))
}

/// All at once is more than the permission to read one by one.
async fn export(State(state): State<AdminState>, _: Fresh, Segment(id): Segment) -> Result<Response, Problem> {
    let id = named(&id)?;
    state.auth.accounts().find_by_id(&id).await.map_err(account)?;
    state.auth.export(&id, state.config.server.json_case).await
}

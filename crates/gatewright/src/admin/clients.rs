use axum::extract::{Path, State};
use axum::routing::{delete, get};
use axum::{Json, Router};
use gatewright_auth::plugins::authorization_server::OAuth2Clients;
use gatewright_http::Problem;
use http::StatusCode;
use serde_json::{Value, json};

use super::Desk;
use super::answer::{data, object, unavailable};
use super::gate::Fresh;

/// The clients of the authorization server.
pub(super) fn routes() -> Router<Desk> {
    Router::new().route("/clients", get(list)).route("/clients/{id}", delete(remove))
}

async fn list(State(desk): State<Desk>) -> Result<Json<Value>, Problem> {
    let clients = clients(&desk)?.list().await.map_err(|error| unavailable(&error))?;
    let rows = clients.iter().map(|client| {
        object(
            desk.config.server.json_case,
            [
                ("id", client.id.as_str().into()),
                ("name", client.name.as_str().into()),
                ("confidential", client.confidential.into()),
                ("service", client.service.as_ref().map(gatewright_base::ServiceId::as_str).into()),
                ("redirect_uris", json!(client.redirect_uris)),
                ("scopes", json!(client.scopes)),
            ],
        )
    });
    Ok(data(rows.collect::<Vec<_>>()))
}

async fn remove(State(desk): State<Desk>, _: Fresh, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    if !clients(&desk)?.remove(&id).await.map_err(|error| unavailable(&error))? {
        return Err(Problem::not_found("no such client"));
    }
    Ok(StatusCode::NO_CONTENT)
}

fn clients(desk: &Desk) -> Result<OAuth2Clients, Problem> {
    let off = || Problem::not_found("the authorization server is off; set `authorization_server.enabled = true`");
    desk.auth.oauth2_clients().ok_or_else(off)
}

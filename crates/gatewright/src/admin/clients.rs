use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{delete, get};
use axum::{Json, Router};
use gatewright_auth::plugins::authorization_server::{Connection, OAuth2Clients};
use gatewright_base::{JsonCase, TenantId, time};
use gatewright_http::Problem;
use http::StatusCode;
use serde_json::{Value, json};

use super::Desk;
use super::answer::{account, data, moment, noted, object, unavailable};
use super::gate::Fresh;
use super::users::named;

/// The clients of the authorization server, and the programs that users connected.
pub(super) fn routes() -> Router<Desk> {
    Router::new()
        .route("/clients", get(list))
        .route("/clients/{id}", delete(remove))
        .route("/users/{id}/connections", get(connections))
        .route("/users/{id}/connections/{connection}", delete(disconnect))
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

async fn connections(State(desk): State<Desk>, Path(id): Path<String>) -> Result<Json<Value>, Problem> {
    let (id, case) = (named(&id)?, desk.config.server.json_case);
    desk.auth.accounts().find_by_id(&id).await.map_err(account)?;
    let Some(clients) = desk.auth.oauth2_clients() else { return Ok(data(Vec::<Value>::new())) };
    let found = clients.connections(&id).await.map_err(|error| unavailable(&error))?;
    Ok(data(found.iter().map(|connection| connected(connection, case)).collect::<Vec<_>>()))
}

async fn disconnect(
    State(desk): State<Desk>,
    Path((id, connection)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let id = named(&id)?;
    if !clients(&desk)?.disconnect(&id, &connection).await.map_err(|error| unavailable(&error))? {
        return Err(Problem::not_found("no such connection"));
    }
    Ok(noted(StatusCode::NO_CONTENT, [("disconnected", connection.into())]))
}

fn connected(connection: &Connection, case: JsonCase) -> Value {
    object(
        case,
        [
            ("id", connection.id.as_str().into()),
            ("client", connection.client.as_str().into()),
            ("name", connection.name.as_str().into()),
            ("host", connection.host.as_deref().into()),
            ("tenant", connection.tenant.as_ref().map(TenantId::as_str).into()),
            ("scopes", json!(connection.scopes)),
            ("created_at", time::format(connection.created_at).into()),
            ("last_used_at", moment(connection.last_used_at)),
        ],
    )
}

fn clients(desk: &Desk) -> Result<OAuth2Clients, Problem> {
    let off = || Problem::not_found("the authorization server is off; set `authorization_server.enabled = true`");
    desk.auth.oauth2_clients().ok_or_else(off)
}

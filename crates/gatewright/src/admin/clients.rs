use axum::extract::State;
use axum::response::Response;
use axum::routing::{delete, get};
use axum::{Json, Router};
use gatewright_auth::plugins::authorization_server::{Connection, OAuth2Clients, scope_text};
use gatewright_base::{JsonCase, Scopes, TenantId, time};
use gatewright_http::{Problem, Segment, Segments};
use http::StatusCode;
use serde_json::{Value, json};

use super::AdminState;
use super::answer::{account, data, moment, noted, object, unavailable};
use super::gate::Fresh;
use super::users::named;

/// The clients of the authorization server, and the programs that users connected.
pub(super) fn routes() -> Router<AdminState> {
    Router::new()
        .route("/clients", get(list))
        .route("/clients/{id}", delete(remove))
        .route("/users/{id}/connections", get(connections))
        .route("/users/{id}/connections/{connection}", delete(disconnect))
}

async fn list(State(state): State<AdminState>) -> Result<Json<Value>, Problem> {
    let clients = clients(&state)?.list().await.map_err(|error| unavailable(&error))?;
    let rows = clients.iter().map(|client| {
        object(
            state.config.server.json_case,
            [
                ("id", client.id.as_str().into()),
                ("name", client.name.as_str().into()),
                ("confidential", client.confidential.into()),
                ("service", client.service.as_ref().map(gatewright_base::ServiceId::as_str).into()),
                ("redirect_uris", json!(client.redirect_uris)),
                ("scopes", json!(client.scopes.as_ref().map(words))),
                ("post_logout_redirect_uris", json!(client.relying_party.post_logout_redirect_uris)),
                ("backchannel_logout_uri", json!(client.relying_party.backchannel_logout_uri)),
            ],
        )
    });
    Ok(data(rows.collect::<Vec<_>>()))
}

async fn remove(State(state): State<AdminState>, _: Fresh, Segment(id): Segment) -> Result<StatusCode, Problem> {
    if !clients(&state)?.remove(&id).await.map_err(|error| unavailable(&error))? {
        return Err(Problem::not_found("no such client"));
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn connections(State(state): State<AdminState>, Segment(id): Segment) -> Result<Json<Value>, Problem> {
    let (id, case) = (named(&id)?, state.config.server.json_case);
    state.auth.accounts().find_by_id(&id).await.map_err(account)?;
    let Some(clients) = state.auth.oauth2_clients() else { return Ok(data(Vec::<Value>::new())) };
    let found = clients.connections(&id).await.map_err(|error| unavailable(&error))?;
    Ok(data(found.iter().map(|connection| connected(connection, case)).collect::<Vec<_>>()))
}

async fn disconnect(
    State(state): State<AdminState>,
    Segments([id, connection]): Segments<2>,
) -> Result<Response, Problem> {
    let id = named(&id)?;
    if !clients(&state)?.disconnect(&id, &connection).await.map_err(|error| unavailable(&error))? {
        return Err(Problem::not_found("no such connection"));
    }
    Ok(noted(StatusCode::NO_CONTENT, [("disconnected", connection.into())]))
}

/// Scopes as a client sends them.
fn words(scopes: &Scopes) -> Vec<&str> {
    scopes.iter().map(scope_text).collect()
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
            ("scopes", json!(words(&connection.scopes))),
            ("created_at", time::format(connection.created_at).into()),
            ("last_used_at", moment(connection.last_used_at)),
        ],
    )
}

fn clients(state: &AdminState) -> Result<OAuth2Clients, Problem> {
    let off = || Problem::not_found("the authorization server is off; set `authorization_server.enabled = true`");
    state.auth.oauth2_clients().ok_or_else(off)
}

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use gatewright_base::TenantId;
use http::HeaderMap;
use http::header::CACHE_CONTROL;
use serde_json::{Value, json};

use super::client::ClientKind;
use super::client_auth::authenticate;
use super::device_page::PATH;
use super::devices::{Asking, INTERVAL, LIFETIME};
use super::error::{Code, Failure, OAuthError};
use super::request::target;
use super::server::Server;
use super::token::form;
use crate::web::Visitor;

/// `POST {base}/oauth2/device_authorization` (RFC 8628, section 3.1). It reads no cookie.
pub(super) async fn begin(State(server): State<Server>, visitor: Visitor, headers: HeaderMap, body: Bytes) -> Response {
    match begun(&server, &visitor, &headers, &body).await {
        Ok(answer) => ([(CACHE_CONTROL, "no-store")], Json(answer)).into_response(),
        Err(failure) => failure.into_response(),
    }
}

async fn begun(server: &Server, visitor: &Visitor, headers: &HeaderMap, body: &[u8]) -> Result<Value, Failure> {
    let parameters = form(headers, body)?;
    let client = authenticate(server, headers, &parameters).await?;
    if matches!(client.kind, ClientKind::Service { .. }) {
        let only = OAuthError::new(Code::UnauthorizedClient, "this client acts for itself, by client_credentials");
        return Err(only.into());
    }
    if server.core.screens.get().is_none() {
        let none = OAuthError::new(Code::UnauthorizedClient, "this server has no page for devices");
        return Err(none.into());
    }
    let resource = target(&parameters, &server.resources)?;
    let scopes = server.supported().parse(parameters.get("scope"), client.scopes.as_ref())?;
    let tenant = parameters.get("tenant").map(TenantId::parse).transpose();
    let tenant = tenant.map_err(|_| OAuthError::invalid_request("tenant is the identifier of a tenant"))?;
    let asking = Asking {
        client: &client.id,
        resource: server.resources.url(resource),
        scopes: &scopes,
        tenant: tenant.as_ref(),
        from: &visitor.client,
    };
    let Some(codes) = server.devices.begin(&server.core.ambient, &asking).await? else {
        let full = OAuthError::new(Code::TemporarilyUnavailable, "too many devices are waiting; try again later");
        return Err(full.into());
    };
    let page = format!("{}{PATH}", server.resources.base());
    Ok(json!({
        "device_code": codes.device.expose(),
        "user_code": codes.user.expose(),
        "verification_uri": page,
        "verification_uri_complete": format!("{page}?user_code={}", codes.user.expose()),
        "expires_in": LIFETIME.as_secs(),
        "interval": INTERVAL,
    }))
}

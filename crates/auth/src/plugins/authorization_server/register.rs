use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use gatewright_base::Secret;
use gatewright_http::{ClientAddr, Counted};
use http::StatusCode;
use http::header::CACHE_CONTROL;
use serde_json::{Value, json};

use super::client::{Client, ClientKind, Source};
use super::client_metadata::{Metadata, invalid};
use super::error::{Code, Failure, OAuthError};
use super::redirect::RedirectUri;
use super::scopes::joined;
use super::secret::{Hash, Kind};
use super::server::Server;
use super::token::DEVICE_CODE;
use crate::web::Visitor;

/// `POST {base}/oauth2/register` (RFC 7591).
pub(super) async fn register(State(server): State<Server>, visitor: Visitor, body: Bytes) -> Response {
    match registered(&server, &visitor, &body).await {
        Ok(answer) => (StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(answer)).into_response(),
        Err(failure) => failure.into_response(),
    }
}

async fn registered(server: &Server, visitor: &Visitor, body: &[u8]) -> Result<Value, Failure> {
    let metadata: Metadata =
        serde_json::from_slice(body).map_err(|_| invalid("the body must be the JSON of client metadata"))?;
    let redirects = metadata.redirects()?;
    let scopes = metadata.scopes(server.supported())?;
    let ambient = &server.core.ambient;
    let (kind, method, secret) = match metadata.token_endpoint_auth_method.as_deref() {
        None | Some("none") => (ClientKind::Public, "none", None),
        Some(method @ ("client_secret_basic" | "client_secret_post")) => {
            let secret: Secret = Kind::ClientSecret.generate(ambient);
            let kind = ClientKind::Confidential { secret: Hash::of(secret.expose()).as_bytes().to_vec() };
            (kind, method, Some(secret))
        }
        Some(_) => {
            return Err(invalid("token_endpoint_auth_method is none, client_secret_basic or client_secret_post").into());
        }
    };
    let client = Client {
        id: ambient.uuid().to_string(),
        name: metadata.name()?,
        kind,
        source: Source::Registration,
        redirects,
        scopes,
        identity: metadata.relying_party(server.options.openid.is_some())?,
        created_at: server.now(),
    };
    let networks = Counted::ClientRegistrations.networks(ClientAddr::new(visitor.client.address()));
    let network = networks.into_iter().last().map(|share| share.network.to_string());
    if !server.clients.add(&client, network, server.idle_since()).await? {
        let description = "too many clients are registered; try again later";
        return Err(OAuthError::new(Code::TemporarilyUnavailable, description).into());
    }
    let redirects: Vec<_> = client.redirects.iter().map(RedirectUri::as_str).collect();
    let mut answer = json!({
        "client_id": client.id,
        "client_id_issued_at": client.created_at.as_second(),
        "client_name": client.name,
        "redirect_uris": redirects,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
    });
    if metadata.is_for_devices()
        && let Some(grants) = answer["grant_types"].as_array_mut()
    {
        grants.push(DEVICE_CODE.into());
    }
    if let Some(scopes) = &client.scopes {
        answer["scope"] = joined(scopes).into();
    }
    if server.core.jwts.id_tokens().is_some()
        && let (Value::Object(answer), Ok(Value::Object(party))) =
            (&mut answer, serde_json::to_value(client.identity.shown()))
    {
        answer.extend(party);
        if client.identity.back_channel.is_some() {
            // Every logout token names the session.
            answer.insert("backchannel_logout_session_required".to_owned(), true.into());
        }
    }
    if let Some(secret) = secret {
        answer["client_secret"] = secret.expose().into();
        // 0: it does not expire.
        answer["client_secret_expires_at"] = 0.into();
    }
    Ok(answer)
}

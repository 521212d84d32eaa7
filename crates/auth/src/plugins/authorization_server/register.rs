use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use gatewright_base::{Scopes, Secret};
use http::StatusCode;
use http::header::CACHE_CONTROL;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{Client, ClientKind, Source};
use super::error::{Code, Failure, OAuthError};
use super::network::network;
use super::redirect::RedirectUri;
use super::scopes::joined;
use super::secret::{Hash, Kind};
use super::server::Server;
use crate::label::Label;
use crate::plugins::web::Visitor;

/// Client metadata (RFC 7591, section 2), as far as it means something here. Other members are ignored, as the RFC says.
#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) client_id: Option<String>,
    pub(super) client_name: Option<String>,
    #[serde(default)]
    pub(super) redirect_uris: Vec<String>,
    pub(super) grant_types: Option<Vec<String>>,
    pub(super) response_types: Option<Vec<String>>,
    pub(super) token_endpoint_auth_method: Option<String>,
    pub(super) scope: Option<String>,
}

/// The most redirect URIs of a client.
const MOST_REDIRECTS: usize = 20;

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
    let scopes = metadata.scopes(server)?;
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
        created_at: server.now(),
    };
    if !server.clients.add(&client, visitor.client.address().map(network)).await? {
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
    if let Some(scopes) = &client.scopes {
        answer["scope"] = joined(scopes).into();
    }
    if let Some(secret) = secret {
        answer["client_secret"] = secret.expose().into();
        // 0: it does not expire.
        answer["client_secret_expires_at"] = 0.into();
    }
    Ok(answer)
}

impl Metadata {
    /// What the client calls itself, for people.
    pub(super) fn name(&self) -> Result<String, OAuthError> {
        let name = self.client_name.as_deref().unwrap_or("Unnamed application");
        let label =
            Label::parse(name).map_err(|_| invalid("client_name has 1 to 100 characters, none of them control"))?;
        Ok(label.as_str().to_owned())
    }

    /// The redirect URIs, and that the client asks for no grant that it cannot have.
    pub(super) fn redirects(&self) -> Result<Vec<RedirectUri>, OAuthError> {
        let only = |list: &Option<Vec<String>>, known: &[&str]| {
            list.iter().flatten().all(|word| known.contains(&word.as_str()))
        };
        if !only(&self.grant_types, &["authorization_code", "refresh_token"]) {
            return Err(invalid("grant_types are authorization_code and refresh_token"));
        }
        if !only(&self.response_types, &["code"]) {
            return Err(invalid("response_types is code"));
        }
        let wrong = |description| OAuthError::new(Code::InvalidRedirectUri, description);
        if self.redirect_uris.is_empty() || self.redirect_uris.len() > MOST_REDIRECTS {
            return Err(wrong("1 to 20 redirect_uris are required"));
        }
        let parsed = self.redirect_uris.iter().map(|uri| RedirectUri::parse(uri)).collect::<Result<_, _>>();
        parsed.map_err(|_| wrong("a redirect URI is https, http at a loopback address, or a private scheme"))
    }

    /// What the client limits itself to.
    pub(super) fn scopes(&self, server: &Server) -> Result<Option<Scopes>, OAuthError> {
        let named = self.scope.as_deref().filter(|scope| !scope.trim().is_empty());
        named
            .map(|scope| server.supported().parse(Some(scope), None))
            .transpose()
            .map_err(|error| OAuthError::new(Code::InvalidClientMetadata, error.description))
    }
}

fn invalid(description: &'static str) -> OAuthError {
    OAuthError::new(Code::InvalidClientMetadata, description)
}

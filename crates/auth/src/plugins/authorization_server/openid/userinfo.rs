//! `GET` and `POST {base}/oauth2/userinfo`: what a program may know about the user of its access token.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use gatewright_base::{Subject, UserId};
use gatewright_http::ContentType;
use http::header::{AUTHORIZATION, CACHE_CONTROL, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::json;

use super::super::error::Failure;
use super::super::parameters::Parameters;
use super::super::server::Server;
use super::claims::IdentityClaims;
use super::words;
use crate::schemes::bearer;
use crate::tokens::{Plaintext, Resource, StoredToken};

/// Why there is no answer (RFC 6750, section 3.1).
enum Refusal {
    /// No token.
    None,
    /// Several tokens, or a body that is none.
    Ambiguous,
    Invalid,
    /// The token has no `openid`.
    Scope,
    Failed(Failure),
}

/// The token is in the header `Authorization` or in a form, and not in the address.
pub(in super::super) async fn userinfo(State(server): State<Server>, headers: HeaderMap, body: Bytes) -> Response {
    match answered(&server, &headers, &body).await {
        Ok(claims) => ([(CACHE_CONTROL, "no-store")], Json(claims)).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

async fn answered(
    server: &Server,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<serde_json::Map<String, serde_json::Value>, Refusal> {
    let form = if ContentType::of(headers) == ContentType::Form {
        Some(Parameters::parse(body).map_err(|_| Refusal::Ambiguous)?)
    } else {
        None
    };
    let posted = form.as_ref().and_then(|form| form.get("access_token"));
    let text = match (headers.contains_key(AUTHORIZATION), posted) {
        (true, Some(_)) => return Err(Refusal::Ambiguous),
        (true, None) => bearer(headers).ok_or(Refusal::Invalid)?,
        (false, Some(posted)) => posted,
        (false, None) => return Err(Refusal::None),
    };
    let (token, user) = token(server, text).await?;
    let tenant = token.delegation.as_ref().and_then(|delegation| delegation.tenant.as_ref());
    if let Some(tenant) = tenant {
        let Some(tenants) = &server.core.tenants else { return Err(Refusal::Invalid) };
        let roles = tenants.roles(tenant, &token.owner).await;
        if roles.map_err(|error| Refusal::Failed(Failure::store(error)))?.is_none() {
            return Err(Refusal::Invalid);
        }
    }
    match server.identity(&user, &token.scopes, tenant).await {
        Ok(Some(claims)) => Ok(claims),
        Ok(None) => Err(Refusal::Scope),
        // The account is disabled or deleted.
        Err(Failure::Refused(_)) => Err(Refusal::Invalid),
        Err(failure) => Err(Refusal::Failed(failure)),
    }
}

/// A valid access token of a program, and its user.
async fn token(server: &Server, text: &str) -> Result<(StoredToken, UserId), Refusal> {
    let plaintext = Plaintext::parse(text).ok_or(Refusal::Invalid)?;
    let found = server.tokens.store.find(&plaintext.hash()).await;
    let found = found.map_err(|error| Refusal::Failed(Failure::store(error)))?;
    let live = |token: &StoredToken| {
        let here = server.resources.url(Resource::Api);
        let is_here = token.delegation.as_ref().is_some_and(|delegation| delegation.audience == here);
        token.revoked_at.is_none() && !token.is_expired(server.now()) && is_here
    };
    let token = found.filter(live).ok_or(Refusal::Invalid)?;
    let Subject::User(user) = &token.owner else { return Err(Refusal::Scope) };
    let user = user.clone();
    Ok((token, user))
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, error, challenge) = match self {
            Self::None => (StatusCode::UNAUTHORIZED, "invalid_token", "Bearer"),
            Self::Ambiguous => (StatusCode::BAD_REQUEST, "invalid_request", "Bearer error=\"invalid_request\""),
            Self::Invalid => (StatusCode::UNAUTHORIZED, "invalid_token", "Bearer error=\"invalid_token\""),
            Self::Scope => {
                (StatusCode::FORBIDDEN, "insufficient_scope", "Bearer error=\"insufficient_scope\", scope=\"openid\"")
            }
            Self::Failed(failure) => return failure.into_response(),
        };
        let headers = [
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
            (WWW_AUTHENTICATE, HeaderValue::from_static(challenge)),
        ];
        (status, headers, Json(json!({ "error": error }))).into_response()
    }
}

/// The claims that can be there.
pub(in super::super) fn names(server: &Server) -> Vec<String> {
    let named = server.options.openid.iter().flat_map(IdentityClaims::names);
    ["sub", "iss", "aud", "exp", "iat", "auth_time", "nonce", "acr", "amr", "at_hash", "sid", "email", "email_verified"]
        .into_iter()
        .chain(named)
        .map(str::to_owned)
        .collect()
}

/// The scopes of OpenID Connect.
pub(in super::super) fn scopes<'a>() -> impl Iterator<Item = &'a str> {
    words::ALL.into_iter().map(|word| word.on_the_wire)
}

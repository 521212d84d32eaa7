use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use gatewright_base::Subject;
use http::header::CACHE_CONTROL;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::client::Client;
use super::client_auth::authenticate;
use super::error::{Failure, OAuthError};
use super::openid::words;
use super::scopes::joined;
use super::secret::Hash;
use super::server::Server;
use super::token::form;
use crate::tokens::{Delegation, Plaintext, StoredToken};
use crate::users::UserStoreError;

/// `POST {base}/oauth2/revoke` (RFC 7009): a client ends the grant of one of its tokens, with all of its tokens. The token may
/// be spent, expired or revoked: its client wants no access any more, and may have missed a newer token. An authorization code
/// ends its grant too, before and after it is redeemed. A token that is unknown or another client's answers the same.
pub(super) async fn revoke(State(server): State<Server>, headers: HeaderMap, body: Bytes) -> Response {
    match revoked(&server, &headers, &body).await {
        Ok(()) => StatusCode::OK.into_response(),
        Err(failure) => failure.into_response(),
    }
}

async fn revoked(server: &Server, headers: &HeaderMap, body: &[u8]) -> Result<(), Failure> {
    let parameters = form(headers, body)?;
    let client = authenticate(server, headers, &parameters).await?;
    let token = parameters.required("token", "token is missing")?;
    match access_token(server, &client, token).await? {
        // A service's client has no grant: its tokens end one by one.
        Some((stored, delegation)) if delegation.grant == client.id => {
            server.tokens.store.revoke(None, &stored.id, server.now()).await.map_err(Failure::store)?;
        }
        Some((_, delegation)) => server.end(&delegation.grant).await?,
        None => {
            if let Some(grant) = server.grants.of_any(&Hash::of(token), &client.id).await? {
                server.end(&grant).await?;
            }
        }
    }
    Ok(())
}

/// `POST {base}/oauth2/introspect` (RFC 7662): a confidential client asks about one of its own tokens.
pub(super) async fn introspect(State(server): State<Server>, headers: HeaderMap, body: Bytes) -> Response {
    match introspected(&server, &headers, &body).await {
        Ok(answer) => ([(CACHE_CONTROL, "no-store")], Json(answer)).into_response(),
        Err(failure) => failure.into_response(),
    }
}

async fn introspected(server: &Server, headers: &HeaderMap, body: &[u8]) -> Result<Value, Failure> {
    let parameters = form(headers, body)?;
    let client = authenticate(server, headers, &parameters).await?;
    if client.is_public() {
        return Err(OAuthError::invalid_client().into());
    }
    let token = parameters.required("token", "token is missing")?;
    let iss = server.resources.base();
    let access = access_token(server, &client, token).await?;
    let is_live = |token: &StoredToken| token.revoked_at.is_none() && !token.is_expired(server.now());
    if let Some((stored, delegation)) = access.filter(|(stored, _)| is_live(stored)) {
        let Some(username) = owner(server, &stored.owner).await? else { return Ok(inactive()) };
        // A program that signs users in learns the address by its scope alone.
        let is_hidden = words::IDENTITY.is_in(&stored.scopes) && !words::EMAIL.is_in(&stored.scopes);
        let username = username.filter(|_| !is_hidden);
        return Ok(active(json!({
            "active": true,
            "token_type": "Bearer",
            "scope": joined(&stored.scopes),
            "client_id": client.id,
            "username": username,
            "sub": stored.owner.as_str(),
            "aud": delegation.audience,
            "tenant": delegation.tenant,
            "iss": iss,
            "iat": stored.created_at.as_second(),
            "exp": stored.expires_at.map(Timestamp::as_second),
        })));
    }
    if let Some((grant, expires)) = server.grants.of_refresh(&Hash::of(token), &client.id, server.now()).await? {
        return Ok(active(json!({
            "active": true,
            "scope": joined(&grant.scopes),
            "client_id": client.id,
            "sub": grant.user,
            "aud": grant.resource,
            "tenant": grant.tenant,
            "iss": iss,
            "exp": expires.as_second(),
        })));
    }
    Ok(inactive())
}

/// The members of an answer that have a value.
fn active(mut answer: Value) -> Value {
    if let Value::Object(members) = &mut answer {
        members.retain(|_, value| !value.is_null());
    }
    answer
}

fn inactive() -> Value {
    json!({ "active": false })
}

/// An access token, valid or not, if it is the client's own.
async fn access_token(
    server: &Server,
    client: &Client,
    text: &str,
) -> Result<Option<(StoredToken, Delegation)>, Failure> {
    let Some(plaintext) = Plaintext::parse(text) else { return Ok(None) };
    let found = server.tokens.store.find(&plaintext.hash()).await.map_err(Failure::store)?;
    Ok(found.and_then(|token| {
        let delegation = token.delegation.clone().filter(|delegation| delegation.client == client.id)?;
        Some((token, delegation))
    }))
}

/// The name of a token's owner, if they are there and not disabled. A guest has none.
async fn owner(server: &Server, owner: &Subject) -> Result<Option<Option<String>>, Failure> {
    match owner {
        Subject::User(id) => match server.core.users.store.find_by_id(id).await {
            Ok(user) if user.disabled => Ok(None),
            Ok(user) => Ok(Some(user.address().map(|email| email.as_str().to_owned()))),
            Err(UserStoreError::NotFound) => Ok(None),
            Err(error) => Err(Failure::store(error)),
        },
        Subject::Service(id) => {
            let found = server.tokens.services.find(id).await.map_err(Failure::store)?;
            Ok(found.filter(|account| !account.disabled).map(|account| Some(account.name.clone())))
        }
    }
}

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use gatewright_base::Scopes;
use gatewright_http::{ClientAddr, ContentType};
use http::HeaderMap;
use http::header::{CACHE_CONTROL, PRAGMA};
use serde_json::{Map, Value};

use super::client::{Client, ClientKind};
use super::client_auth::authenticate;
use super::devices::Polled;
use super::error::{Code, Failure, OAuthError};
use super::parameters::Parameters;
use super::request::target;
use super::rows::{Grant, Presented, Rotated};
use super::scopes::{joined, within};
use super::secret::{Hash, proves};
use super::server::{Issued, Server};

/// `POST {base}/oauth2/token` (RFC 6749, section 3.2). It reads no cookie.
pub(super) async fn token(
    State(server): State<Server>,
    address: ClientAddr,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match issue(&server, address, &headers, &body).await {
        Ok(issued) => answer(&issued),
        Err(failure) => failure.into_response(),
    }
}

/// The parameters of a form that a program posts.
pub(super) fn form(headers: &HeaderMap, body: &[u8]) -> Result<Parameters, OAuthError> {
    if ContentType::of(headers) != ContentType::Form {
        return Err(OAuthError::invalid_request("the body must be application/x-www-form-urlencoded"));
    }
    Parameters::parse(body)
}

async fn issue(server: &Server, from: ClientAddr, headers: &HeaderMap, body: &[u8]) -> Result<Issued, Failure> {
    let parameters = form(headers, body)?;
    let grant_type = parameters.required("grant_type", "grant_type is missing")?;
    let client = authenticate(server, headers, &parameters).await?;
    match grant_type {
        "authorization_code" => by_code(server, from, &client, &parameters).await,
        "refresh_token" => by_refresh_token(server, from, &client, &parameters).await,
        "client_credentials" => by_credentials(server, &client, &parameters).await,
        DEVICE_CODE => by_device_code(server, from, &client, &parameters).await,
        _ => Err(OAuthError::new(
            Code::UnsupportedGrantType,
            "grant_type is authorization_code, refresh_token, client_credentials or urn:ietf:params:oauth:grant-type:device_code",
        )
        .into()),
    }
}

/// A code is bound to its client, its redirect URI, the verifier of its challenge and its resource. A request with a wrong
/// one of these uses up the code.
async fn by_code(
    server: &Server,
    from: ClientAddr,
    client: &Client,
    parameters: &Parameters,
) -> Result<Issued, Failure> {
    let refused = || OAuthError::invalid_grant("unknown, expired or spent code, or not of this client");
    let code = Hash::of(parameters.required("code", "code is missing")?);
    let verifier = parameters.required("code_verifier", "code_verifier is missing: PKCE is required")?;
    let until = server.now().checked_add(server.options.refresh_ttl).unwrap_or(jiff::Timestamp::MAX);
    let grant = match server.grants.redeem(&code, &client.id, server.now(), until).await? {
        Presented::Good(grant) => grant,
        Presented::Replayed(grant) => {
            server.replayed("code", &grant, from).await?;
            return Err(refused().into());
        }
        Presented::Unknown => return Err(refused().into()),
    };
    let same_redirect = match (&grant.redirect_uri, parameters.get("redirect_uri")) {
        (Some(kept), Some(named)) => named == kept,
        (Some(_), None) => false,
        (None, named) => named.is_none_or(|named| client.redirect(Some(named)).is_some()),
    };
    let named = parameters.get("resource").map(|url| server.resources.parse(url));
    let same_resource =
        named.is_none_or(|named| named.is_some_and(|named| server.resources.url(named) == grant.resource));
    let wrong = match (same_redirect, proves(verifier, &grant.challenge), same_resource) {
        (true, true, true) => None,
        (false, _, _) => Some(OAuthError::invalid_grant("redirect_uri is not that of the authorization request")),
        (_, false, _) => Some(OAuthError::invalid_grant("code_verifier does not match the code_challenge")),
        (_, _, false) => {
            Some(OAuthError::new(Code::InvalidTarget, "resource is not that of the authorization request"))
        }
    };
    if let Some(wrong) = wrong {
        server.end(&grant.id).await?;
        return Err(wrong.into());
    }
    let issued = server.tokens_for(client, &grant).await?;
    server.end_surplus(&grant.user, &grant.client).await?;
    Ok(issued)
}

/// The grant type of devices (RFC 8628, section 3.4).
pub(super) const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// A device polls until its user has decided. Its code is the code of the grant, and valid once.
async fn by_device_code(
    server: &Server,
    from: ClientAddr,
    client: &Client,
    parameters: &Parameters,
) -> Result<Issued, Failure> {
    let refused = || OAuthError::invalid_grant("unknown or spent device code, or not of this client");
    let code = Hash::of(parameters.required("device_code", "device_code is missing")?);
    let not_yet = |code, description| Err(OAuthError::new(code, description).into());
    match server.devices.poll(&code, &client.id, server.now()).await? {
        Polled::Allowed => {}
        Polled::Pending => return not_yet(Code::AuthorizationPending, "the user has not decided"),
        Polled::TooSoon => return not_yet(Code::SlowDown, "wait five seconds more between two requests"),
        Polled::Denied => return not_yet(Code::AccessDenied, "the user refused"),
        Polled::Expired => return not_yet(Code::ExpiredToken, "the device code has expired; begin again"),
        Polled::Unknown => return Err(refused().into()),
    }
    let until = server.later(server.options.refresh_ttl);
    match server.grants.redeem(&code, &client.id, server.now(), until).await? {
        Presented::Good(grant) => {
            let issued = server.tokens_for(client, &grant).await?;
            server.end_surplus(&grant.user, &grant.client).await?;
            Ok(issued)
        }
        Presented::Replayed(grant) => {
            server.replayed("device_code", &grant, from).await?;
            Err(refused().into())
        }
        Presented::Unknown => Err(refused().into()),
    }
}

/// A refresh token is valid once. The next one is issued with the access token. With OpenID Connect, the spent one gives the same
/// answer again for a moment, so that two refreshes at once do not sign the user out.
async fn by_refresh_token(
    server: &Server,
    from: ClientAddr,
    client: &Client,
    parameters: &Parameters,
) -> Result<Issued, Failure> {
    let refused = || OAuthError::invalid_grant("unknown, expired or spent refresh token, or not of this client");
    let token = Hash::of(parameters.required("refresh_token", "refresh_token is missing")?);
    let other = OAuthError::new(Code::InvalidTarget, "resource is not that of the authorization request");
    let wider = OAuthError::new(Code::InvalidScope, "the scope goes beyond what the user allowed");
    let resource = parameters.get("resource").map(|url| server.resources.parse(url));
    let resource = resource.map(|named| named.map(|named| server.resources.url(named).to_owned()));
    let scope = parameters.get("scope");
    let scopes = scope.map(|_| server.supported().parse(scope, client.scopes.as_ref()));
    // The request is checked before the token is used up, so that a mistake does not end the connection.
    let check = move |grant: &Grant| -> Result<Scopes, OAuthError> {
        if resource.as_ref().is_some_and(|named| named.as_ref() != Some(&grant.resource)) {
            return Err(other.clone());
        }
        match &scopes {
            None => Ok(grant.scopes.clone()),
            Some(Ok(asked)) => within(asked, &grant.scopes).ok_or_else(|| wider.clone()),
            Some(Err(error)) => Err(error.clone()),
        }
    };
    // The answer is drawn first, so that it is there for a second request as soon as the token is spent.
    let drawn = match server.grants.of_refresh(&token, &client.id, server.now()).await? {
        Some((grant, _)) => {
            let scopes = check(&grant)?;
            server.still_allowed(&grant, false).await?;
            Some(server.draw(&grant, scopes, false).await?)
        }
        None => None,
    };
    let kept = drawn.as_ref().filter(|_| server.options.openid.is_some());
    let answer = kept.map(|drawn| server.answers.seal(drawn, &token));
    match (server.grants.rotate(&token, &client.id, server.now(), answer, check).await?, drawn) {
        (Rotated::Good(grant, _), Some(drawn)) => server.issue(client, &grant, drawn).await,
        (Rotated::Again(grant, scopes, sealed), _) => {
            server.still_allowed(&grant, false).await?;
            let drawn = server.answers.open(&sealed, &token).filter(|drawn| drawn.scopes == scopes);
            server.issue(client, &grant, drawn.ok_or_else(refused)?).await
        }
        (Rotated::Refused(error), _) => Err(error.into()),
        (Rotated::Replayed(grant), _) => {
            server.replayed("refresh_token", &grant, from).await?;
            Err(refused().into())
        }
        (Rotated::Unknown | Rotated::Good(..), _) => Err(refused().into()),
    }
}

/// For a client that the operator tied to a service account, and no other.
async fn by_credentials(server: &Server, client: &Client, parameters: &Parameters) -> Result<Issued, Failure> {
    if !matches!(client.kind, ClientKind::Service { .. }) {
        let not = OAuthError::new(Code::UnauthorizedClient, "this client has no service account to act as");
        return Err(not.into());
    }
    let resource = target(parameters, &server.resources)?;
    // The operator's scopes are not limited to those that users can be asked for.
    let limit = client.scopes.clone().unwrap_or_default();
    let scopes = match parameters.get("scope") {
        None => limit,
        Some(text) => {
            let wider = || OAuthError::new(Code::InvalidScope, "this client may not request that scope");
            let words = text.split(' ').filter(|word| !word.is_empty());
            let asked = words.map(str::parse).collect::<Result<_, _>>().map_err(|_| wider())?;
            within(&asked, &limit).ok_or_else(wider)?
        }
    };
    let issued = server.tokens_for_service(client, resource, scopes).await?;
    let gone = || OAuthError::new(Code::UnauthorizedClient, "the service account is disabled or deleted");
    issued.ok_or_else(|| gone().into())
}

fn answer(issued: &Issued) -> Response {
    let mut body = Map::new();
    body.insert("access_token".to_owned(), issued.access.expose().into());
    body.insert("token_type".to_owned(), "Bearer".into());
    body.insert("expires_in".to_owned(), issued.expires_in.as_secs().into());
    if let Some(refresh) = &issued.refresh {
        body.insert("refresh_token".to_owned(), refresh.expose().into());
    }
    if let Some(id_token) = &issued.id_token {
        body.insert("id_token".to_owned(), id_token.expose().into());
    }
    body.insert("scope".to_owned(), joined(&issued.scopes).into());
    if let Some(tenant) = &issued.tenant {
        body.insert("tenant".to_owned(), tenant.as_str().into());
    }
    ([(CACHE_CONTROL, "no-store"), (PRAGMA, "no-cache")], Json(Value::Object(body))).into_response()
}

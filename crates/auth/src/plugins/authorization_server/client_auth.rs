use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use percent_encoding::percent_decode_str;

use super::client::{Client, ClientKind, Source, document_url};
use super::error::{Failure, OAuthError};
use super::openid::relying::Relying;
use super::parameters::Parameters;
use super::server::Server;

/// The client that calls an endpoint for programs (RFC 6749, section 2.3): by `Authorization: Basic`, by `client_id`
/// and `client_secret` in the body or, for public clients, only by `client_id`. Two methods in one request are refused.
pub(super) async fn authenticate(
    server: &Server,
    headers: &HeaderMap,
    parameters: &Parameters,
) -> Result<Client, Failure> {
    let (id, secret) = match (headers.get(AUTHORIZATION), parameters.get("client_secret")) {
        (Some(_), Some(_)) => {
            let twice = OAuthError::invalid_request("the client authenticates in two ways at once");
            return Err(twice.into());
        }
        (Some(header), None) => {
            let (id, secret) = header.to_str().ok().and_then(basic).ok_or_else(OAuthError::invalid_client)?;
            if parameters.get("client_id").is_some_and(|named| named != id) {
                return Err(OAuthError::invalid_client().into());
            }
            (id, Some(secret))
        }
        (None, secret) => {
            let id = parameters.get("client_id").ok_or_else(OAuthError::invalid_client)?;
            (id.to_owned(), secret.map(str::to_owned))
        }
    };
    let client = match document_url(&id) {
        // Its document was read when the user was asked, and a code or refresh token is bound to its identifier. For an
        // unauthenticated caller, nothing is fetched.
        Some(_) => Some(Client {
            name: id.clone(),
            id,
            kind: ClientKind::Public,
            source: Source::Document,
            redirects: Vec::new(),
            scopes: None,
            identity: Relying::default(),
            created_at: server.now(),
        }),
        None => server.clients.find(&id).await?,
    };
    let client = client.ok_or_else(OAuthError::invalid_client)?;
    let proven = match secret {
        Some(secret) => client.has_secret(&secret),
        None => client.is_public(),
    };
    if proven { Ok(client) } else { Err(OAuthError::invalid_client().into()) }
}

/// The two halves of `Basic`, each form-encoded before (RFC 6749, section 2.3.1).
fn basic(header: &str) -> Option<(String, String)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(BASE64_STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    let decoded = |text: &str| {
        let spaced = text.replace('+', " ");
        percent_decode_str(&spaced).decode_utf8().ok().map(std::borrow::Cow::into_owned)
    };
    Some((decoded(id)?, decoded(secret)?)).filter(|(_, secret)| !secret.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_password_of_basic_are_form_encoded() {
        let header = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
        let pair = |id: &str, secret: &str| Some((id.to_owned(), secret.to_owned()));
        assert_eq!(basic(&header("a:b")), pair("a", "b"));
        assert_eq!(basic(&header("a%3Ab:c%2Bd+e")), pair("a:b", "c+d e"));
        assert_eq!(basic(&header("a:b:c")), pair("a", "b:c"));
        for bad in ["Basic", "Basic !", "Bearer YTpi", &header("a"), &header("a:")] {
            assert_eq!(basic(bad), None, "{bad}");
        }
    }
}

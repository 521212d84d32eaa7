//! The checks that all providers' configurations pass.

use url::Url;

use super::OAuthClient;
use super::endpoint::{Endpoint, InvalidEndpoint};
use crate::init_error::AuthInitError;

/// The error for a provider's setting.
pub(super) fn wrong(provider: &str, problem: &str) -> AuthInitError {
    AuthInitError::Setting { setting: "auth.oauth", problem: format!("the provider \"{provider}\": {problem}") }
}

/// The account of a program. With `signs`, it signs its client secrets itself.
pub(super) fn client(provider: &str, client: &OAuthClient, signs: bool) -> Result<(), AuthInitError> {
    if client.id.is_empty() {
        return Err(wrong(provider, "the client id is empty"));
    }
    if client.secret.is_empty() && !signs {
        return Err(wrong(provider, "the client secret is empty"));
    }
    Ok(())
}

/// An endpoint: the configured one or, without it, the provider's own.
pub(super) fn endpoint(provider: &str, configured: Option<Url>, own: &str) -> Result<Endpoint, AuthInitError> {
    let endpoint = configured.map_or_else(|| Endpoint::parse(own), Endpoint::new);
    endpoint.map_err(|invalid @ InvalidEndpoint| wrong(provider, &format!("an endpoint is refused: {invalid}")))
}

/// The address to which the browser returns. It gets the code, so the rule for endpoints applies.
pub(super) fn redirect(provider: &str, configured: Option<Url>) -> Result<Option<Url>, AuthInitError> {
    let refused = |invalid: InvalidEndpoint| wrong(provider, &format!("the redirect URL is refused: {invalid}"));
    configured.map(|url| Endpoint::new(url).map(|endpoint| endpoint.url().clone()).map_err(refused)).transpose()
}

/// A name on a button, from a provider's name.
pub(super) fn capitalised(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    first.to_ascii_uppercase() + rest
}

//! The code flow at a provider with fixed endpoints.

use gatewright_base::{Ambient, Secret};
use url::Url;

use super::client::{ClientAuth, Granted, TokenEndpoint};
use super::endpoint::Endpoint;
use super::fields::Fields;
use super::http::Answer;
use super::{Authorization, Callback, OAuthClient, ProviderError, ProviderHttp, ProviderTokens, setting};
use crate::init_error::AuthInitError;

/// The description of a provider: its name, its addresses, and its parameters.
pub(super) struct Known<'a> {
    pub(super) name: &'a str,
    pub(super) authorize: &'a str,
    pub(super) token: &'a str,
    /// The endpoint that describes the user.
    pub(super) userinfo: &'a str,
    pub(super) scope: &'a str,
    pub(super) auth: ClientAuth,
}

/// Addresses that a configuration sets instead of a provider's own, and this program's credentials there.
pub(super) struct Configured {
    pub(super) client: OAuthClient,
    pub(super) redirect_url: Option<Url>,
    pub(super) authorize_url: Option<Url>,
    pub(super) token_url: Option<Url>,
    pub(super) userinfo_url: Option<Url>,
    pub(super) send_pkce: bool,
}

/// The steps that such providers share: redirect, exchange of the code for tokens, and profile.
#[derive(Debug)]
pub(super) struct CodeFlow {
    redirect_url: Option<Url>,
    client: OAuthClient,
    scope: String,
    auth: ClientAuth,
    sends_pkce: bool,
    authorize: Endpoint,
    token: Endpoint,
    userinfo: Endpoint,
    http: ProviderHttp,
    ambient: Ambient,
}

impl CodeFlow {
    /// Checks the configuration.
    pub(super) fn new(
        known: &Known<'_>,
        configured: Configured,
        http: ProviderHttp,
        ambient: Ambient,
    ) -> Result<Self, AuthInitError> {
        let name = known.name;
        setting::client(name, &configured.client, false)?;
        Ok(Self {
            redirect_url: setting::redirect(name, configured.redirect_url)?,
            authorize: setting::endpoint(name, configured.authorize_url, known.authorize)?,
            token: setting::endpoint(name, configured.token_url, known.token)?,
            userinfo: setting::endpoint(name, configured.userinfo_url, known.userinfo)?,
            client: configured.client,
            scope: known.scope.to_owned(),
            auth: known.auth,
            sends_pkce: configured.send_pkce,
            http,
            ambient,
        })
    }

    pub(super) fn redirect_url(&self) -> Option<&Url> {
        self.redirect_url.as_ref()
    }

    pub(super) fn sends_pkce(&self) -> bool {
        self.sends_pkce
    }

    /// The redirect target, with further parameters of the provider.
    pub(super) fn authorize_url(&self, request: &Authorization<'_>, more: &[(&str, &str)]) -> Url {
        let challenge = request.proofs.challenge();
        let challenge = if self.sends_pkce { &challenge[..] } else { &[] };
        self.client.authorization(&self.authorize, &self.scope, request, &[challenge, more].concat())
    }

    /// Exchanges a code.
    pub(super) async fn exchange(&self, callback: &Callback<'_>) -> Result<ProviderTokens, ProviderError> {
        let Granted { tokens, .. } = self.token_endpoint().exchange(callback, self.sends_pkce).await?;
        Ok(tokens)
    }

    /// Exchanges a refresh token.
    pub(super) async fn refresh(&self, token: &Secret) -> Result<ProviderTokens, ProviderError> {
        let Granted { tokens, .. } = self.token_endpoint().refresh(token).await?;
        Ok(tokens)
    }

    /// The profile of an access token's user, as the provider returns it.
    pub(super) async fn user(&self, access: &Secret) -> Result<Fields, ProviderError> {
        self.get(&self.userinfo, access).await?.json()
    }

    /// Asks another of the provider's interfaces.
    pub(super) async fn get(&self, endpoint: &Endpoint, access: &Secret) -> Result<Answer, ProviderError> {
        self.http.get(endpoint, Some(access)).await
    }

    fn token_endpoint(&self) -> TokenEndpoint<'_> {
        let Self { client, token: endpoint, http, ambient, auth, .. } = self;
        TokenEndpoint { http, ambient, endpoint, client, auth: *auth }
    }
}

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gatewright_base::{Ambient, Secret};
use jiff::SignedDuration;
use serde_json::Value;
use url::Url;

use super::InvalidIdToken;
use super::claims::ClaimNames;
use super::discovery::{self, Discovered, Published};
use super::fetched::Fetched;
use super::id_token::{Expected, Unverified};
use super::keys::{KeySet, PublishedKeys};
use super::tenants::Tenants;
use crate::init_error::AuthInitError;
use crate::providers::apple::{self, ClientSecrets};
use crate::providers::client::{Granted, TokenEndpoint};
use crate::providers::endpoint::Endpoint;
use crate::providers::fields::Fields;
use crate::providers::{
    Authorization, Callback, Identified, OAuthClient, Provider, ProviderError, ProviderHttp, ProviderIdentity,
    ProviderTokens, is_provider_name, setting,
};

/// An OpenID Connect issuer and this program's account there.
#[derive(Debug, Clone)]
pub struct OidcConfig {
    /// Its name in paths and stored links: 1 to 48 lower-case letters, digits, `-` and `_`.
    pub name: String,
    /// Its name on the button. Absent: the name, with a capital letter.
    pub label: Option<String>,
    /// The issuer, exactly as its discovery document spells it: https, or http at `localhost` or `127.0.0.1`.
    pub issuer: String,
    /// This program's account there.
    pub client: OAuthClient,
    /// The callback URL. Absent: the one under the public URL.
    pub redirect_url: Option<Url>,
    /// The scopes to request; they include `openid`.
    pub scopes: Vec<String>,
    /// How long its keys are cached. An hour by default.
    pub jwks_cache: Duration,
    /// The names of the claims.
    pub claims: ClaimNames,
    /// Whether a PKCE challenge is sent.
    pub send_pkce: bool,
    /// Whether a nonce is sent, which the `id_token` must then contain.
    pub send_nonce: bool,
}

/// Sign-in with an OpenID Connect issuer: the code flow of a confidential client, with PKCE and a nonce.
#[derive(Debug)]
pub struct Oidc {
    name: String,
    label: String,
    issuer: String,
    document: Endpoint,
    client: OAuthClient,
    redirect_url: Option<Url>,
    scope: String,
    keys_ttl: SignedDuration,
    claims: ClaimNames,
    sends_pkce: bool,
    sends_nonce: bool,
    http: ProviderHttp,
    ambient: Ambient,
    discovered: Fetched<Discovered>,
    keys: Fetched<KeySet>,
    variant: Variant,
}

/// What differs from the standard.
#[derive(Debug, Default)]
pub(in crate::providers) struct Variant {
    /// Further parameters of the redirect.
    pub(in crate::providers) parameters: &'static [(&'static str, &'static str)],
    /// Whether the answer is a form, which may have the user's name.
    pub(in crate::providers) posts: bool,
    /// The issuers, if there are several. The configured one is the one that their metadata names.
    pub(in crate::providers) tenants: Option<Tenants>,
    /// Signs the client secrets, instead of a configured one.
    pub(in crate::providers) secrets: Option<ClientSecrets>,
}

impl OidcConfig {
    /// An issuer with the usual scopes and claims.
    pub fn new(name: impl Into<String>, issuer: impl Into<String>, client: OAuthClient) -> Self {
        Self {
            name: name.into(),
            label: None,
            issuer: issuer.into(),
            client,
            redirect_url: None,
            scopes: ["openid", "email", "profile"].map(str::to_owned).to_vec(),
            jwks_cache: Duration::from_hours(1),
            claims: ClaimNames::default(),
            send_pkce: true,
            send_nonce: true,
        }
    }
}

impl Oidc {
    /// Checks the configuration. The issuer is not contacted until the first sign-in.
    pub fn new(config: OidcConfig, http: ProviderHttp, ambient: Ambient) -> Result<Self, AuthInitError> {
        Self::with(config, Variant::default(), http, ambient)
    }

    pub(in crate::providers) fn with(
        config: OidcConfig,
        variant: Variant,
        http: ProviderHttp,
        ambient: Ambient,
    ) -> Result<Self, AuthInitError> {
        let name = config.name;
        let wrong = |problem: &str| Err(setting::wrong(&name, problem));
        if !is_provider_name(&name) {
            return wrong("a name is 1 to 48 lower-case letters, digits, `-` and `_`: it is part of paths");
        }
        setting::client(&name, &config.client, variant.secrets.is_some())?;
        let found_at = variant.tenants.as_ref().map_or_else(|| config.issuer.clone(), Tenants::found_at);
        let Some(document) = discovery::document(&found_at) else {
            return wrong(
                "the issuer must be an https:// address (http:// for localhost and 127.0.0.1 alone), without a query",
            );
        };
        if !config.scopes.iter().any(|scope| scope == "openid") {
            return wrong("the scopes must contain \"openid\"");
        }
        Ok(Self {
            label: config.label.unwrap_or_else(|| setting::capitalised(&name)),
            issuer: config.issuer,
            document,
            client: config.client,
            redirect_url: setting::redirect(&name, config.redirect_url)?,
            scope: config.scopes.join(" "),
            keys_ttl: SignedDuration::try_from(config.jwks_cache).unwrap_or(SignedDuration::MAX),
            claims: config.claims,
            sends_pkce: config.send_pkce,
            sends_nonce: config.send_nonce,
            http,
            discovered: Fetched::new(ambient.clone()),
            keys: Fetched::new(ambient.clone()),
            ambient,
            variant,
            name,
        })
    }

    async fn discovered(&self) -> Result<Arc<Discovered>, ProviderError> {
        let fetch = async { self.http.get(&self.document, None).await?.json::<Published>()?.check(&self.issuer) };
        self.discovered.get(None, fetch).await
    }

    /// This program's account, with the client secret of now.
    fn client(&self) -> Result<Cow<'_, OAuthClient>, ProviderError> {
        let Some(secrets) = &self.variant.secrets else { return Ok(Cow::Borrowed(&self.client)) };
        Ok(Cow::Owned(OAuthClient { id: self.client.id.clone(), secret: secrets.sign(&self.ambient)? }))
    }

    fn token_endpoint<'a>(&'a self, discovered: &'a Discovered, client: &'a OAuthClient) -> TokenEndpoint<'a> {
        let Self { http, ambient, .. } = self;
        TokenEndpoint { http, ambient, endpoint: &discovered.token, client, auth: discovered.auth }
    }

    /// Whether a callback that names `issuer` can be from here.
    fn is_named_by(&self, issuer: &str) -> bool {
        self.variant.tenants.as_ref().map_or(issuer == self.issuer, |tenants| tenants.has(issuer))
    }

    /// Runs all checks of an `id_token` and returns its claims.
    async fn verify(
        &self,
        id_token: &Secret,
        nonce: Option<&str>,
        discovered: &Discovered,
    ) -> Result<Fields, ProviderError> {
        let token = Unverified::read(id_token)?;
        let fetch = || async { KeySet::read(&self.http.get(&discovered.keys, None).await?.json::<PublishedKeys>()?) };
        let mut keys = self.keys.get(Some(self.keys_ttl), fetch()).await?;
        let id = token.key_id.as_deref();
        if keys.find(id, token.algorithm).is_err_and(|problem| problem == InvalidIdToken::UnknownKey)
            && let Some(renewed) = self.keys.renewed(&keys, fetch()).await?
        {
            keys = renewed;
        }
        let key = keys.find(id, token.algorithm)?;
        let mut claims = token.verify(key.parsed)?;
        let issuer = match &self.variant.tenants {
            Some(tenants) => Cow::Owned(tenants.issuer_of(&claims, key.issuer)?),
            None => Cow::Borrowed(&self.issuer),
        };
        let expected = Expected { issuer: &issuer, client_id: &self.client.id, nonce, now: self.ambient.now() };
        expected.check(&claims)?;
        if self.variant.tenants.is_some() {
            Tenants::complete(&mut claims)?;
        }
        Ok(claims)
    }

    async fn identity(
        &self,
        claims: &Fields,
        access: &Secret,
        discovered: &Discovered,
    ) -> Result<ProviderIdentity, ProviderError> {
        let identity = self.claims.identity(claims)?;
        match &discovered.userinfo {
            Some(userinfo) if identity.email.is_none() => {
                let more: Fields = self.http.get(userinfo, Some(access)).await?.json()?;
                self.claims.merge(identity, claims, &more)
            }
            _ => Ok(identity),
        }
    }
}

#[async_trait]
impl Provider for Oidc {
    fn name(&self) -> &str {
        &self.name
    }

    fn label(&self) -> &str {
        &self.label
    }

    fn redirect_url(&self) -> Option<&Url> {
        self.redirect_url.as_ref()
    }

    fn sends_pkce(&self) -> bool {
        self.sends_pkce
    }

    fn posts_its_answer(&self) -> bool {
        self.variant.posts
    }

    async fn authorize_url(&self, request: &Authorization<'_>) -> Result<Url, ProviderError> {
        let discovered = self.discovered().await?;
        let pkce = request.proofs.challenge().into_iter().filter(|_| self.sends_pkce);
        let nonce = self.sends_nonce.then(|| ("nonce", request.proofs.nonce()));
        let more: Vec<_> = pkce.chain(nonce).chain(self.variant.parameters.iter().copied()).collect();
        Ok(self.client.authorization(&discovered.authorize, &self.scope, request, &more))
    }

    async fn identify(&self, callback: &Callback<'_>) -> Result<Identified, ProviderError> {
        let discovered = self.discovered().await?;
        // A callback of another issuer has a code of that issuer, which must not be sent to this one (RFC 9207).
        if callback.issuer.map_or(discovered.names_itself, |issuer| !self.is_named_by(issuer)) {
            return Err(ProviderError::OtherIssuer);
        }
        let client = self.client()?;
        let exchanged = self.token_endpoint(&discovered, &client).exchange(callback, self.sends_pkce).await?;
        let Granted { tokens, id_token } = exchanged;
        let id_token = id_token.ok_or(ProviderError::Malformed("it has no id_token"))?;
        let nonce = self.sends_nonce.then(|| callback.proofs.nonce());
        let claims = self.verify(&id_token, nonce, &discovered).await?;
        // Of several issuers, the one that has sent the callback has issued the token.
        if callback.issuer.is_some_and(|issuer| claims.get("iss").and_then(Value::as_str) != Some(issuer)) {
            return Err(ProviderError::OtherIssuer);
        }
        let mut identity = self.identity(&claims, &tokens.access, &discovered).await?;
        if self.variant.posts {
            identity.name = identity.name.or_else(|| callback.user.and_then(apple::name));
        }
        Ok(Identified { identity, tokens })
    }

    async fn refresh(&self, refresh_token: &Secret) -> Result<ProviderTokens, ProviderError> {
        let discovered = self.discovered().await?;
        let client = self.client()?;
        Ok(self.token_endpoint(&discovered, &client).refresh(refresh_token).await?.tokens)
    }
}

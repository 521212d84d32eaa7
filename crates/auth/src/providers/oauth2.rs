//! Any OAuth 2.0 service with an address that describes the user.

use async_trait::async_trait;
use gatewright_base::{Ambient, Secret};
use url::Url;

use super::client::ClientAuth;
use super::code_flow::{CodeFlow, Configured, Known};
use super::fields::{self, Fields};
use super::{
    Authorization, Callback, Identified, OAuthClient, Provider, ProviderError, ProviderHttp, ProviderIdentity,
    ProviderTokens, is_provider_name, setting,
};
use crate::init_error::AuthInitError;
use crate::presets::{Claims, TokenAuth, Vouched};

/// An OAuth 2.0 service and this program's account there.
#[derive(Debug, Clone)]
pub struct OAuth2Config {
    /// Its name in paths and stored links: 1 to 48 lower-case letters, digits, `-` and `_`.
    pub name: String,
    /// Its name on the button. Absent: the name, with a capital letter.
    pub label: Option<String>,
    /// This program's account there.
    pub client: OAuthClient,
    /// The callback URL. Absent: the one under the public URL.
    pub redirect_url: Option<Url>,
    /// The authorization endpoint.
    pub authorize_url: Url,
    /// The token endpoint.
    pub token_url: Url,
    /// The endpoint that describes the user.
    pub userinfo_url: Url,
    /// The scopes to request.
    pub scopes: Vec<String>,
    /// Further parameters of the redirect.
    pub parameters: Vec<(String, String)>,
    /// How the token endpoint takes the client secret.
    pub token_auth: TokenAuth,
    /// The issuer that its callbacks name (RFC 9207). Absent: they are not compared.
    pub issuer: Option<String>,
    /// Where the description of the user has what.
    pub claims: UserClaims,
    /// Whether a PKCE challenge is sent.
    pub send_pkce: bool,
}

/// Where the description of a user has what. A place is a name, or the names on the way to it with dots in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserClaims {
    /// The user's identifier, which the service never gives to another user.
    pub subject: String,
    /// The address.
    pub email: String,
    /// Who vouches for the address.
    pub email_verified: Vouched<String>,
    /// The name to show; the first that is there.
    pub name: Vec<String>,
    /// The URL of a picture, or one with places in braces.
    pub picture: String,
}

/// Sign-in with an OAuth 2.0 service: the code flow, and then a call of its userinfo endpoint with the access token from
/// the token endpoint. PKCE binds the code to the browser.
#[derive(Debug)]
pub struct OAuth2 {
    name: String,
    label: String,
    flow: CodeFlow,
    parameters: Vec<(String, String)>,
    issuer: Option<String>,
    claims: UserClaims,
}

impl OAuth2 {
    /// Checks the configuration.
    pub fn new(config: OAuth2Config, http: ProviderHttp, ambient: Ambient) -> Result<Self, AuthInitError> {
        let OAuth2Config { name, label, client, redirect_url, scopes, parameters, token_auth, issuer, claims, .. } =
            config;
        if !is_provider_name(&name) {
            return Err(setting::wrong(&name, "its name must be 1 to 48 of a-z, 0-9, `-` and `_`"));
        }
        if claims.subject.is_empty() {
            return Err(setting::wrong(&name, "the claim with the user's identifier is not named"));
        }
        let known = Known {
            name: &name,
            authorize: config.authorize_url.as_str(),
            token: config.token_url.as_str(),
            userinfo: config.userinfo_url.as_str(),
            scope: &scopes.join(" "),
            auth: token_auth.into(),
        };
        let configured = Configured {
            client,
            redirect_url,
            authorize_url: None,
            token_url: None,
            userinfo_url: None,
            send_pkce: config.send_pkce,
        };
        let flow = CodeFlow::new(&known, configured, http, ambient)?;
        Ok(Self { label: label.unwrap_or_else(|| setting::capitalised(&name)), name, flow, parameters, issuer, claims })
    }
}

#[async_trait]
impl Provider for OAuth2 {
    fn name(&self) -> &str {
        &self.name
    }

    fn label(&self) -> &str {
        &self.label
    }

    fn redirect_url(&self) -> Option<&Url> {
        self.flow.redirect_url()
    }

    fn sends_pkce(&self) -> bool {
        self.flow.sends_pkce()
    }

    async fn authorize_url(&self, request: &Authorization<'_>) -> Result<Url, ProviderError> {
        let more: Vec<_> = self.parameters.iter().map(|(name, value)| (&**name, &**value)).collect();
        Ok(self.flow.authorize_url(request, &more))
    }

    async fn identify(&self, callback: &Callback<'_>) -> Result<Identified, ProviderError> {
        // A callback of another service has a code of that service, which must not be sent to this one (RFC 9207).
        if self.issuer.is_some() && callback.issuer != self.issuer.as_deref() {
            return Err(ProviderError::OtherIssuer);
        }
        let tokens = self.flow.exchange(callback).await?;
        let user = self.flow.user(&tokens.access).await?;
        Ok(Identified { identity: self.claims.identity(&user)?, tokens })
    }

    async fn refresh(&self, refresh_token: &Secret) -> Result<ProviderTokens, ProviderError> {
        self.flow.refresh(refresh_token).await
    }
}

impl UserClaims {
    fn identity(&self, user: &Fields) -> Result<ProviderIdentity, ProviderError> {
        let email = fields::text(user, &self.email);
        let vouched = match &self.email_verified {
            Vouched::By(place) => fields::flag(user, place) == Some(true),
            Vouched::Always => true,
            Vouched::Never => false,
        };
        Ok(ProviderIdentity {
            provider_id: fields::identifier(user, &self.subject).ok_or_else(fields::no_user_identifier)?,
            email_verified: email.is_some() && vouched,
            email,
            name: self.name.iter().find_map(|place| fields::text(user, place)),
            avatar_url: fields::picture(user, &self.picture),
        })
    }
}

impl From<&Claims> for UserClaims {
    fn from(claims: &Claims) -> Self {
        Self {
            subject: claims.subject.to_owned(),
            email: claims.email.to_owned(),
            email_verified: match claims.email_verified {
                Vouched::By(place) => Vouched::By(place.to_owned()),
                Vouched::Always => Vouched::Always,
                Vouched::Never => Vouched::Never,
            },
            name: claims.name.iter().map(|&place| place.to_owned()).collect(),
            picture: claims.picture.to_owned(),
        }
    }
}

impl From<TokenAuth> for ClientAuth {
    fn from(auth: TokenAuth) -> Self {
        match auth {
            TokenAuth::Basic => Self::Basic,
            TokenAuth::Post => Self::Post,
        }
    }
}

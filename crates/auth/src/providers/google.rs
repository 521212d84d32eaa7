use async_trait::async_trait;
use gatewright_base::{Ambient, Secret};
use url::Url;

use super::client::ClientAuth;
use super::code_flow::{CodeFlow, Configured, Known};
use super::fields::{self, Fields};
use super::{
    Authorization, Callback, Identified, OAuthClient, Provider, ProviderError, ProviderHttp, ProviderIdentity,
    ProviderTokens,
};
use crate::init_error::AuthInitError;

/// The configuration of Google. Each endpoint defaults to Google's own.
#[derive(Debug, Clone)]
pub struct GoogleConfig {
    /// This program's account there.
    pub client: OAuthClient,
    /// The callback URL. Absent: the one under the public URL.
    pub redirect_url: Option<Url>,
    /// The authorization endpoint.
    pub authorize_url: Option<Url>,
    /// The token endpoint.
    pub token_url: Option<Url>,
    /// The endpoint that describes the user.
    pub userinfo_url: Option<Url>,
    /// Whether a PKCE challenge is sent.
    pub send_pkce: bool,
}

/// Sign-in with Google: the code flow, and then a call of the userinfo endpoint with the access token from the token
/// endpoint. No `id_token` is read, so no nonce is sent: PKCE binds the code to the browser.
#[derive(Debug)]
pub struct Google(CodeFlow);

const GOOGLE: Known<'_> = Known {
    name: "google",
    authorize: "https://accounts.google.com/o/oauth2/v2/auth",
    token: "https://oauth2.googleapis.com/token",
    userinfo: "https://openidconnect.googleapis.com/v1/userinfo",
    scope: "openid email profile",
    auth: ClientAuth::Post,
};

impl GoogleConfig {
    /// Google with its own endpoints.
    pub fn new(client: OAuthClient) -> Self {
        Self { client, redirect_url: None, authorize_url: None, token_url: None, userinfo_url: None, send_pkce: true }
    }
}

impl Google {
    /// Checks the configuration.
    pub fn new(config: GoogleConfig, http: ProviderHttp, ambient: Ambient) -> Result<Self, AuthInitError> {
        let GoogleConfig { client, redirect_url, authorize_url, token_url, userinfo_url, send_pkce } = config;
        let configured = Configured { client, redirect_url, authorize_url, token_url, userinfo_url, send_pkce };
        CodeFlow::new(&GOOGLE, configured, http, ambient).map(Self)
    }
}

#[async_trait]
impl Provider for Google {
    fn name(&self) -> &'static str {
        GOOGLE.name
    }

    fn label(&self) -> &'static str {
        "Google"
    }

    fn redirect_url(&self) -> Option<&Url> {
        self.0.redirect_url()
    }

    fn sends_pkce(&self) -> bool {
        self.0.sends_pkce()
    }

    async fn authorize_url(&self, request: &Authorization<'_>) -> Result<Url, ProviderError> {
        // Without it, no refresh token is issued.
        Ok(self.0.authorize_url(request, &[("access_type", "offline")]))
    }

    async fn identify(&self, callback: &Callback<'_>) -> Result<Identified, ProviderError> {
        let tokens = self.0.exchange(callback).await?;
        let user = self.0.user(&tokens.access).await?;
        Ok(Identified { identity: identity(&user)?, tokens })
    }

    async fn refresh(&self, refresh_token: &Secret) -> Result<ProviderTokens, ProviderError> {
        self.0.refresh(refresh_token).await
    }
}

/// Reads either form of Google's userinfo: the standard one, and the legacy one of `/oauth2/v2/userinfo` with `id` and
/// `verified_email`.
fn identity(user: &Fields) -> Result<ProviderIdentity, ProviderError> {
    let provider_id = fields::identifier(user, "sub").or_else(|| fields::identifier(user, "id"));
    let email = fields::text(user, "email");
    let verified = fields::flag(user, "email_verified").or_else(|| fields::flag(user, "verified_email"));
    Ok(ProviderIdentity {
        provider_id: provider_id.ok_or_else(fields::no_user_identifier)?,
        email_verified: email.is_some() && verified == Some(true),
        email,
        name: fields::text(user, "name"),
        avatar_url: fields::picture(user, "picture"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(user: &Value) -> Result<ProviderIdentity, ProviderError> {
        identity(user.as_object().unwrap())
    }

    #[test]
    fn an_address_is_verified_only_if_google_says_so() {
        for (verified, expected) in [
            (json!({ "email_verified": true }), true),
            (json!({ "email_verified": "true" }), true),
            (json!({ "verified_email": true }), true),
            (json!({ "email_verified": false }), false),
            (json!({ "verified_email": false }), false),
            // The current form has priority.
            (json!({ "email_verified": false, "verified_email": true }), false),
            (json!({ "email_verified": 1 }), false),
            (json!({}), false),
        ] {
            let mut user = json!({ "sub": "1", "email": "ann@example.com" });
            user.as_object_mut().unwrap().extend(verified.as_object().unwrap().clone());
            assert_eq!(read(&user).unwrap().email_verified, expected, "{user}");
        }
        assert!(!read(&json!({ "sub": "1", "email_verified": true })).unwrap().email_verified, "without an address");
    }

    #[test]
    fn a_profile_without_identifier_is_an_error() {
        for user in [json!({}), json!({ "sub": "" }), json!({ "email": "ann@example.com", "email_verified": true })] {
            assert_eq!(read(&user), Err(fields::no_user_identifier()), "{user}");
        }
    }
}

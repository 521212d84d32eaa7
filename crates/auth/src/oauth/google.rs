use async_trait::async_trait;
use gatewright_base::{Ambient, Secret};
use url::Url;

use super::client::{ClientAuth, Granted, TokenEndpoint};
use super::endpoint::Endpoint;
use super::fields::{self, Fields};
use super::{
    Identified, OAuthClient, Provider, ProviderError, ProviderHttp, ProviderIdentity, ProviderTokens, setting,
};
use crate::AuthInitError;

/// How to reach Google. Each address is its own unless one is given.
#[derive(Debug, Clone)]
pub struct GoogleConfig {
    /// This program's account there.
    pub client: OAuthClient,
    /// Where the browser comes back to, in place of the address under the public URL.
    pub redirect_url: Option<Url>,
    /// The authorization endpoint.
    pub authorize_url: Option<Url>,
    /// The token endpoint.
    pub token_url: Option<Url>,
    /// The endpoint that describes the user.
    pub userinfo_url: Option<Url>,
}

/// Sign-in with Google: the code flow, and then the userinfo endpoint, asked with the access token that came straight
/// from the token endpoint.
#[derive(Debug)]
pub struct Google {
    client: OAuthClient,
    redirect_url: Option<Url>,
    authorize: Endpoint,
    token: Endpoint,
    userinfo: Endpoint,
    http: ProviderHttp,
    ambient: Ambient,
}

const AUTHORIZE: &str = "https://accounts.google.com/o/oauth2/v2/auth";
const TOKEN: &str = "https://oauth2.googleapis.com/token";
const USERINFO: &str = "https://openidconnect.googleapis.com/v1/userinfo";
const SCOPE: &str = "openid email profile";

impl GoogleConfig {
    /// Google at its own addresses.
    pub fn new(client: OAuthClient) -> Self {
        Self { client, redirect_url: None, authorize_url: None, token_url: None, userinfo_url: None }
    }
}

impl Google {
    /// Checks the configuration.
    pub fn new(config: GoogleConfig, http: ProviderHttp, ambient: Ambient) -> Result<Self, AuthInitError> {
        setting::client("google", &config.client)?;
        Ok(Self {
            redirect_url: setting::redirect("google", config.redirect_url)?,
            authorize: setting::endpoint("google", config.authorize_url, AUTHORIZE)?,
            token: setting::endpoint("google", config.token_url, TOKEN)?,
            userinfo: setting::endpoint("google", config.userinfo_url, USERINFO)?,
            client: config.client,
            http,
            ambient,
        })
    }

    fn token_endpoint(&self) -> TokenEndpoint<'_> {
        let Self { client, token: endpoint, http, ambient, .. } = self;
        TokenEndpoint { http, ambient, endpoint, client, auth: ClientAuth::Post }
    }
}

#[async_trait]
impl Provider for Google {
    fn name(&self) -> &'static str {
        "google"
    }

    fn label(&self) -> &'static str {
        "Google"
    }

    fn redirect_url(&self) -> Option<&Url> {
        self.redirect_url.as_ref()
    }

    async fn authorize_url(&self, state: &str, redirect: &Url) -> Result<Url, ProviderError> {
        // Without it there is never a refresh token.
        let offline = [("access_type", "offline")];
        Ok(self.client.authorization(&self.authorize, SCOPE, state, redirect, &offline))
    }

    async fn identify(&self, code: &Secret, redirect: &Url) -> Result<Identified, ProviderError> {
        let Granted { tokens, .. } = self.token_endpoint().exchange(code, redirect).await?;
        let user = self.http.get(&self.userinfo, Some(&tokens.access)).await?.json()?;
        Ok(Identified { identity: identity(&user)?, tokens })
    }

    async fn refresh(&self, refresh_token: &Secret) -> Result<ProviderTokens, ProviderError> {
        Ok(self.token_endpoint().refresh(refresh_token).await?.tokens)
    }
}

/// Reads either form of Google's userinfo: the standard one, and the legacy one of `/oauth2/v2/userinfo` with `id` and
/// `verified_email`.
fn identity(user: &Fields) -> Result<ProviderIdentity, ProviderError> {
    let provider_id = fields::identifier(user, "sub").or_else(|| fields::identifier(user, "id"));
    let email = fields::text(user, "email");
    let verified = fields::flag(user, "email_verified").or_else(|| fields::flag(user, "verified_email"));
    Ok(ProviderIdentity {
        provider_id: provider_id.ok_or_else(fields::nobody)?,
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
    fn an_address_is_verified_only_where_google_says_so() {
        for (verified, expected) in [
            (json!({ "email_verified": true }), true),
            (json!({ "email_verified": "true" }), true),
            (json!({ "verified_email": true }), true),
            (json!({ "email_verified": false }), false),
            (json!({ "verified_email": false }), false),
            // The present form has the say.
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
    fn whoever_has_no_identifier_is_nobody() {
        for user in [json!({}), json!({ "sub": "" }), json!({ "email": "ann@example.com", "email_verified": true })] {
            assert_eq!(read(&user), Err(fields::nobody()), "{user}");
        }
    }
}

use async_trait::async_trait;
use gatewright_base::{Ambient, Secret};
use http::StatusCode;
use serde::Deserialize;
use url::Url;

use super::client::ClientAuth;
use super::code_flow::{CodeFlow, Configured, Known};
use super::endpoint::Endpoint;
use super::fields::{self, Fields};
use super::{
    Authorization, Callback, Identified, OAuthClient, Provider, ProviderError, ProviderHttp, ProviderIdentity,
    ProviderTokens, setting,
};
use crate::init_error::AuthInitError;

/// The configuration of GitHub. Each endpoint defaults to GitHub's own (GitHub Enterprise Server has others).
#[derive(Debug, Clone)]
pub struct GitHubConfig {
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
    /// The listing of the user's addresses.
    pub emails_url: Option<Url>,
    /// Whether a PKCE challenge is sent.
    pub send_pkce: bool,
}

/// Sign-in with GitHub: the code flow, the profile, and the listing of addresses. Only the listing says which are
/// verified.
#[derive(Debug)]
pub struct GitHub {
    flow: CodeFlow,
    emails: Endpoint,
}

const GITHUB: Known<'_> = Known {
    name: "github",
    authorize: "https://github.com/login/oauth/authorize",
    token: "https://github.com/login/oauth/access_token",
    userinfo: "https://api.github.com/user",
    scope: "read:user user:email",
    auth: ClientAuth::Post,
};
const EMAILS: &str = "https://api.github.com/user/emails?per_page=100";

impl GitHubConfig {
    /// GitHub with its own endpoints.
    pub fn new(client: OAuthClient) -> Self {
        Self {
            client,
            redirect_url: None,
            authorize_url: None,
            token_url: None,
            userinfo_url: None,
            emails_url: None,
            send_pkce: true,
        }
    }
}

impl GitHub {
    /// Checks the configuration.
    pub fn new(config: GitHubConfig, http: ProviderHttp, ambient: Ambient) -> Result<Self, AuthInitError> {
        let GitHubConfig { client, redirect_url, authorize_url, token_url, userinfo_url, emails_url, send_pkce } =
            config;
        let configured = Configured { client, redirect_url, authorize_url, token_url, userinfo_url, send_pkce };
        let emails = setting::endpoint(GITHUB.name, emails_url, EMAILS)?;
        Ok(Self { flow: CodeFlow::new(&GITHUB, configured, http, ambient)?, emails })
    }

    /// The listing, or none if the user did not grant it. Any other failure ends the sign-in: without the listing a
    /// known address would look unknown, and a second account would be created.
    async fn listed(&self, access: &Secret) -> Result<Vec<ListedEmail>, ProviderError> {
        let answer = self.flow.get(&self.emails, access).await?;
        match answer.status() {
            StatusCode::FORBIDDEN | StatusCode::NOT_FOUND if !answer.is_throttled() => Ok(Vec::new()),
            _ => answer.json(),
        }
    }
}

#[async_trait]
impl Provider for GitHub {
    fn name(&self) -> &'static str {
        GITHUB.name
    }

    fn label(&self) -> &'static str {
        "GitHub"
    }

    fn redirect_url(&self) -> Option<&Url> {
        self.flow.redirect_url()
    }

    fn sends_pkce(&self) -> bool {
        self.flow.sends_pkce()
    }

    async fn authorize_url(&self, request: &Authorization<'_>) -> Result<Url, ProviderError> {
        Ok(self.flow.authorize_url(request, &[]))
    }

    async fn identify(&self, callback: &Callback<'_>) -> Result<Identified, ProviderError> {
        let tokens = self.flow.exchange(callback).await?;
        let user = self.flow.user(&tokens.access).await?;
        let listed = self.listed(&tokens.access).await?;
        Ok(Identified { identity: identity(&user, &listed)?, tokens })
    }

    async fn refresh(&self, refresh_token: &Secret) -> Result<ProviderTokens, ProviderError> {
        self.flow.refresh(refresh_token).await
    }
}

/// One row of the listing.
#[derive(Debug, Deserialize)]
struct ListedEmail {
    email: String,
    #[serde(default)]
    primary: bool,
    #[serde(default)]
    verified: bool,
}

/// The verified primary address or, without one, the first verified one; otherwise any address, unverified. The
/// profile's own address is only one that its owner chose to show, and is not verified.
fn identity(user: &Fields, listed: &[ListedEmail]) -> Result<ProviderIdentity, ProviderError> {
    let verified = || listed.iter().filter(|row| row.verified && !row.email.is_empty());
    let vouched = verified().find(|row| row.primary).or_else(|| verified().next());
    let email = match vouched {
        Some(row) => Some(row.email.clone()),
        None => fields::text(user, "email")
            .or_else(|| listed.iter().find(|row| row.primary && !row.email.is_empty()).map(|row| row.email.clone())),
    };
    Ok(ProviderIdentity {
        provider_id: fields::identifier(user, "id").ok_or_else(fields::no_user_identifier)?,
        email,
        email_verified: vouched.is_some(),
        name: fields::text(user, "name").or_else(|| fields::text(user, "login")),
        avatar_url: fields::picture(user, "avatar_url"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_the_listing_verifies_an_address() {
        let row = |email: &str, primary: bool, verified: bool| json!({ "email": email, "primary": primary, "verified": verified, "visibility": null });
        let shown = json!("shown@example.com");
        let rows: [(&Value, Value, Option<&str>, bool); 8] = [
            (&shown, json!([row("p@x", true, true), row("o@x", false, true)]), Some("p@x"), true),
            (&shown, json!([row("o@x", false, true), row("p@x", true, true)]), Some("p@x"), true),
            (&shown, json!([row("p@x", true, false), row("o@x", false, true)]), Some("o@x"), true),
            (&shown, json!([row("p@x", true, false)]), Some("shown@example.com"), false),
            (&shown, json!([]), Some("shown@example.com"), false),
            (&Value::Null, json!([row("p@x", true, false), row("o@x", false, false)]), Some("p@x"), false),
            (&Value::Null, json!([row("", true, true)]), None, false),
            (&Value::Null, json!([]), None, false),
        ];
        for (profile, listed, email, verified) in rows {
            let user = json!({ "id": 1, "login": "octocat", "email": profile });
            let rows: Vec<ListedEmail> = serde_json::from_value(listed.clone()).unwrap();
            let found = identity(user.as_object().unwrap(), &rows).unwrap();
            assert_eq!((found.email.as_deref(), found.email_verified), (email, verified), "{profile} {listed}");
        }
    }

    /// Another user may take a freed name; the number is never reused.
    #[test]
    fn a_login_name_is_not_used_as_identifier() {
        let user = json!({ "login": "octocat" });
        assert_eq!(identity(user.as_object().unwrap(), &[]), Err(fields::no_user_identifier()));
    }
}

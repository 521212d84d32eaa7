use gatewright_base::{Ambient, Secret};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use url::{Url, form_urlencoded};

use super::endpoint::Endpoint;
use super::http::ProviderHttp;
use super::{Authorization, Callback, ProviderError, ProviderTokens};

/// This program's account at a provider.
#[derive(Debug, Clone)]
pub struct OAuthClient {
    /// The public name.
    pub id: String,
    /// The client secret, for the token endpoint.
    pub secret: Secret,
}

/// How a client proves itself to the token endpoint (RFC 6749, section 2.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientAuth {
    /// In the `Authorization` header: `client_secret_basic`.
    Basic,
    /// In the form: `client_secret_post`.
    Post,
}

/// A token endpoint, with the parameters of its calls.
pub(super) struct TokenEndpoint<'a> {
    pub(super) http: &'a ProviderHttp,
    pub(super) ambient: &'a Ambient,
    pub(super) endpoint: &'a Endpoint,
    pub(super) client: &'a OAuthClient,
    pub(super) auth: ClientAuth,
}

/// Tokens, with the `id_token` where the provider sends one.
pub(super) struct Granted {
    pub(super) tokens: ProviderTokens,
    pub(super) id_token: Option<Secret>,
}

/// The longest lifetime that is believed, in seconds: ten years.
const MAX_LIFETIME: f64 = 315_360_000.0;

impl OAuthClient {
    /// The redirect target: the endpoint with the request of RFC 6749, section 4.1.1, and further parameters of the
    /// provider.
    pub(super) fn authorization(
        &self,
        endpoint: &Endpoint,
        scope: &str,
        request: &Authorization<'_>,
        more: &[(&str, &str)],
    ) -> Url {
        let mut url = endpoint.url().clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.id)
            .append_pair("redirect_uri", request.redirect.as_str())
            .append_pair("scope", scope)
            .append_pair("state", request.state)
            .extend_pairs(more);
        url
    }
}

impl TokenEndpoint<'_> {
    /// Exchanges a code (section 4.1.3), with the verifier of its challenge if one was sent (RFC 7636, section 4.5).
    pub(super) async fn exchange(&self, callback: &Callback<'_>, pkce: bool) -> Result<Granted, ProviderError> {
        let grant = ("grant_type", "authorization_code");
        let (code, redirect) = (("code", callback.code.expose()), ("redirect_uri", callback.redirect.as_str()));
        let verifier = ("code_verifier", callback.proofs.verifier().expose());
        let form = [grant, code, redirect, verifier];
        self.ask(if pkce { &form } else { &form[..3] }).await
    }

    /// Exchanges a refresh token (section 6).
    pub(super) async fn refresh(&self, token: &Secret) -> Result<Granted, ProviderError> {
        self.ask(&[("grant_type", "refresh_token"), ("refresh_token", token.expose())]).await
    }

    async fn ask(&self, form: &[(&str, &str)]) -> Result<Granted, ProviderError> {
        let answer = match self.auth {
            ClientAuth::Basic => {
                // Both are form-encoded before they are joined by a colon.
                let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
                let (id, secret) = (encoded(&self.client.id), Secret::new(encoded(self.client.secret.expose())));
                self.http.post(self.endpoint, form, Some((&id, &secret))).await?
            }
            ClientAuth::Post => {
                let own = [("client_id", self.client.id.as_str()), ("client_secret", self.client.secret.expose())];
                self.http.post(self.endpoint, &[form, &own].concat(), None).await?
            }
        };
        if answer.status().is_server_error() {
            return Err(answer.refused());
        }
        // GitHub answers 200 to errors as well.
        if let Ok(Failure { error }) = answer.json_of_any_status() {
            return Err(ProviderError::refused(error.code()));
        }
        granted(answer.json()?, self.ambient.now())
    }
}

/// Section 5.2.
#[derive(Deserialize)]
struct Failure {
    error: Error,
}

/// Facebook's error is an object.
#[derive(Deserialize)]
#[serde(untagged)]
enum Error {
    Code(String),
    Object { r#type: String },
}

impl Error {
    fn code(&self) -> &str {
        match self {
            Self::Code(code) | Self::Object { r#type: code } => code,
        }
    }
}

/// Section 5.1.
#[derive(Deserialize)]
struct Success {
    access_token: Secret,
    token_type: Option<String>,
    refresh_token: Option<Secret>,
    expires_in: Option<Seconds>,
    scope: Option<Scopes>,
    id_token: Option<Secret>,
}

/// Twitch writes a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scopes {
    Text(String),
    List(Vec<String>),
}

/// Some providers write the number as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Seconds {
    Number(f64),
    Text(String),
}

fn granted(success: Success, now: Timestamp) -> Result<Granted, ProviderError> {
    if success.access_token.is_empty() {
        return Err(ProviderError::Malformed("its access token is empty"));
    }
    if success.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(ProviderError::Malformed("its access token is not a bearer token"));
    }
    let lifetime = match success.expires_in {
        None => None,
        Some(Seconds::Number(seconds)) => Some(seconds),
        Some(Seconds::Text(text)) => {
            Some(text.parse().map_err(|_| ProviderError::Malformed("expires_in is not a number"))?)
        }
    };
    let ends = |seconds: f64| {
        let lifetime = SignedDuration::try_from_secs_f64(seconds.clamp(0.0, MAX_LIFETIME)).unwrap_or_default();
        now.checked_add(lifetime).unwrap_or(Timestamp::MAX)
    };
    let scope = success.scope.map(|scopes| match scopes {
        Scopes::Text(text) => text,
        Scopes::List(list) => list.join(" "),
    });
    let tokens = ProviderTokens {
        access: success.access_token,
        refresh: success.refresh_token.filter(|token| !token.is_empty()),
        expires_at: lifetime.map(ends),
        scope: scope.filter(|scope| !scope.is_empty()),
    };
    Ok(Granted { tokens, id_token: success.id_token })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Granted, ProviderError> {
        granted(serde_json::from_str(json).unwrap(), "2026-01-02T03:04:05Z".parse().unwrap())
    }

    #[test]
    fn answers_are_read_as_providers_write_them() {
        let rows = [
            (r#"{"access_token":"a","expires_in":3600,"token_type":"Bearer"}"#, Some("2026-01-02T04:04:05Z")),
            (r#"{"access_token":"a","expires_in":"60","token_type":"bearer"}"#, Some("2026-01-02T03:05:05Z")),
            (r#"{"access_token":"a","expires_in":-5}"#, Some("2026-01-02T03:04:05Z")),
            (r#"{"access_token":"a","expires_in":1e300}"#, Some("2035-12-31T03:04:05Z")),
            (r#"{"access_token":"a","refresh_token":"","scope":"","expires_in":null}"#, None),
        ];
        for (json, expires_at) in rows {
            let tokens = read(json).unwrap_or_else(|error| panic!("{json}: {error}")).tokens;
            assert_eq!(tokens.expires_at, expires_at.map(|time| time.parse().unwrap()), "{json}");
            assert!(tokens.refresh.is_none() && tokens.scope.is_none(), "{json}");
        }
    }

    #[test]
    fn scopes_are_a_text_or_a_list() {
        for (scope, expected) in
            [(r#""a b""#, Some("a b")), (r#"["a","b"]"#, Some("a b")), ("[]", None), ("null", None)]
        {
            let tokens = read(&format!(r#"{{"access_token":"a","scope":{scope}}}"#)).unwrap().tokens;
            assert_eq!(tokens.scope.as_deref(), expected, "{scope}");
        }
    }

    #[test]
    fn answers_that_are_not_usable_are_refused() {
        for json in [
            r#"{"access_token":""}"#,
            r#"{"access_token":"a","token_type":"mac"}"#,
            r#"{"access_token":"a","expires_in":"soon"}"#,
        ] {
            assert!(matches!(read(json), Err(ProviderError::Malformed(_))), "{json}");
        }
    }

    #[test]
    fn parameters_of_the_endpoint_are_kept() {
        let client = OAuthClient { id: "id&1".into(), secret: Secret::new("s") };
        let endpoint = Endpoint::parse("https://idp.example.com/auth?tenant=7").unwrap();
        let back = Url::parse("https://app.example.com/auth/oauth/x/callback").unwrap();
        let proofs = crate::providers::Proofs::new(&Secret::new("a browser"), "st.ate");
        let request = Authorization::new("st.ate", &back, &proofs);
        let url = client.authorization(&endpoint, "openid email", &request, &[("access_type", "offline")]);
        assert_eq!(
            url.as_str(),
            "https://idp.example.com/auth?tenant=7&response_type=code&client_id=id%261\
             &redirect_uri=https%3A%2F%2Fapp.example.com%2Fauth%2Foauth%2Fx%2Fcallback\
             &scope=openid+email&state=st.ate&access_type=offline"
        );
    }
}

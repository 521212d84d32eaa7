use std::time::Duration;

use gatewright_base::Secret;
use url::Url;

use super::oauth2::OAuth2;
use super::presets::PresetProvider;
use super::read::Section;

/// `[auth.oauth]`: sign-in with other providers.
#[derive(Debug, Clone)]
pub struct OAuth {
    /// Signs the `state` parameter of sign-ins with providers.
    pub state_secret: Secret,
    /// Earlier secrets. States that they signed stay valid during a rotation.
    pub state_previous_secrets: Vec<Secret>,
    /// Encrypts stored provider tokens. Absent: none are stored.
    pub token_encryption_key: Option<Secret>,
    /// Earlier keys, with which stored tokens may still be encrypted.
    pub token_previous_encryption_keys: Vec<Secret>,
    /// Google.
    pub google: Option<OAuthProvider>,
    /// GitHub.
    pub github: Option<OAuthProvider>,
    /// Providers with a preset, in the order of their buttons.
    pub presets: Vec<PresetProvider>,
    /// OpenID Connect providers.
    pub oidc: Vec<Oidc>,
    /// Other OAuth 2.0 services.
    pub oauth2: Vec<OAuth2>,
}

/// A built-in provider. Each URL overrides the provider's own.
#[derive(Debug, Clone)]
pub struct OAuthProvider {
    /// The client's identifier at the provider.
    pub client_id: String,
    /// The client's secret at the provider.
    pub client_secret: Secret,
    /// The callback URL. Absent: built from the public URL.
    pub redirect_url: Option<Url>,
    /// The authorization endpoint.
    pub authorize_url: Option<Url>,
    /// The token endpoint.
    pub token_url: Option<Url>,
    /// The endpoint that describes the user.
    pub userinfo_url: Option<Url>,
    /// GitHub's listing of a user's addresses.
    pub emails_url: Option<Url>,
    /// Whether a PKCE challenge is sent.
    pub send_pkce: bool,
}

/// `[[auth.oauth.oidc]]`: one OpenID Connect provider, found by discovery.
#[derive(Debug, Clone)]
pub struct Oidc {
    /// The provider's name in paths.
    pub name: String,
    /// The label of its button. Absent: `name`.
    pub label: Option<String>,
    /// The issuer, exactly as its discovery document spells it.
    pub issuer: String,
    /// The client's identifier at the provider.
    pub client_id: String,
    /// The client's secret at the provider.
    pub client_secret: Secret,
    /// The callback URL. Absent: built from the public URL.
    pub redirect_url: Option<Url>,
    /// The scopes to request.
    pub scopes: Vec<String>,
    /// How long the provider's keys are cached.
    pub jwks_cache: Duration,
    /// The names of the claims.
    pub claims: Claims,
    /// Whether a PKCE challenge is sent.
    pub send_pkce: bool,
    /// Whether a nonce is sent.
    pub send_nonce: bool,
}

/// The names of the claims that describe a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The user's identifier at the provider.
    pub subject: String,
    /// The address.
    pub email: String,
    /// The name to show.
    pub name: String,
    /// A picture's URL.
    pub picture: String,
    /// Whether the provider has verified the address.
    pub email_verified: String,
}

impl Default for OAuth {
    fn default() -> Self {
        Self {
            state_secret: Secret::new(""),
            state_previous_secrets: Vec::new(),
            token_encryption_key: None,
            token_previous_encryption_keys: Vec::new(),
            google: None,
            github: None,
            presets: Vec::new(),
            oidc: Vec::new(),
            oauth2: Vec::new(),
        }
    }
}

impl Default for Claims {
    fn default() -> Self {
        Self {
            subject: "sub".to_owned(),
            email: "email".to_owned(),
            name: "name".to_owned(),
            picture: "picture".to_owned(),
            email_verified: "email_verified".to_owned(),
        }
    }
}

impl OAuth {
    /// Whether any provider is configured.
    pub fn has_providers(&self) -> bool {
        let lists = !self.presets.is_empty() || !self.oidc.is_empty() || !self.oauth2.is_empty();
        self.google.is_some() || self.github.is_some() || lists
    }

    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self {
            state_secret: section.value(
                "state_secret",
                Secret::new(""),
                "Key that signs the `state` parameter. Required outside dev mode if a provider is configured.",
            ),
            state_previous_secrets: section.value(
                "state_previous_secrets",
                Vec::new(),
                "Other secrets whose `state` parameters are accepted, for [rotation](deployment.md#rotating-secrets).",
            ),
            token_encryption_key: section
                .optional("token_encryption_key", "If set, provider tokens are stored, encrypted with it.")
                .filter(|key: &Secret| !key.is_empty()),
            token_previous_encryption_keys: section.value(
                "token_previous_encryption_keys",
                Vec::new(),
                "Earlier keys that stored tokens may still be encrypted with.",
            ),
            google: section.optional_section("google", |s| OAuthProvider::read(s, false)),
            github: section.optional_section("github", |s| OAuthProvider::read(s, true)),
            presets: PresetProvider::read_all(section),
            oidc: section.sections("oidc", Oidc::read),
            oauth2: section.sections("oauth2", OAuth2::read),
        }
    }
}

impl OAuthProvider {
    fn read(section: &mut Section<'_>, lists_emails: bool) -> Self {
        let (client_id, client_secret, redirect_url) = registration(section);
        Self {
            client_id,
            client_secret,
            redirect_url,
            authorize_url: section.derived("authorize_url", "the provider's", "Its authorization endpoint."),
            token_url: section.derived("token_url", "the provider's", "Its token endpoint."),
            userinfo_url: section.derived("userinfo_url", "the provider's", "Its endpoint that describes the user."),
            emails_url: lists_emails
                .then(|| {
                    section.derived(
                        "emails_url",
                        "the provider's",
                        "Its endpoint that lists the addresses of an account.",
                    )
                })
                .flatten(),
            send_pkce: send_pkce(section),
        }
    }
}

impl Oidc {
    fn read(section: &mut Section<'_>) -> Self {
        let default = Claims::default();
        let name = section
            .required("name", "Its name in paths and in the database: 1 to 48 lower-case letters, digits, `-` or `_`.");
        let label = section.derived("label", "`name`", "The label of its button.");
        let issuer = section.required("issuer", "The URL of the issuer, from whose metadata the endpoints are read.");
        let (client_id, client_secret, redirect_url) = registration(section);
        Self {
            name,
            label,
            issuer,
            client_id,
            client_secret,
            redirect_url,
            scopes: section.value(
                "scopes",
                ["openid", "email", "profile"].map(str::to_owned).to_vec(),
                "The requested scopes. Must contain `openid`.",
            ),
            jwks_cache: section.seconds(
                "jwks_cache_seconds",
                Duration::from_hours(1),
                "How long the issuer's keys are cached.",
            ),
            claims: section.section("claims", |s| Claims {
                subject: s.value("subject", default.subject, "The claim with the user's identifier."),
                email: s.value("email", default.email, "The claim with the address."),
                name: s.value("name", default.name, "The claim with the display name."),
                picture: s.value("picture", default.picture, "The claim with the URL of a picture."),
                email_verified: s.value(
                    "email_verified",
                    default.email_verified,
                    "The claim that says whether the provider has verified the address.",
                ),
            }),
            send_pkce: send_pkce(section),
            send_nonce: send_nonce(section),
        }
    }
}

pub(super) fn send_nonce(section: &mut Section<'_>) -> bool {
    let about =
        "Whether a nonce is sent, which the `id_token` must contain. `false` only for an issuer that refuses it.";
    section.value("send_nonce", true, about)
}

pub(super) fn send_pkce(section: &mut Section<'_>) -> bool {
    let about = "Whether a PKCE challenge is sent, so that a stolen code works in no other browser. `false` only for a \
                 provider that refuses it.";
    section.value("send_pkce", true, about)
}

/// The application's registration with a provider: its identifier, its secret and its callback URL.
pub(super) fn registration(section: &mut Section<'_>) -> (String, Secret, Option<Url>) {
    (
        section.required("client_id", "The client id of the application at the provider."),
        section.required_secret("client_secret", "The client secret of the application at the provider."),
        redirect_url(section),
    )
}

pub(super) fn redirect_url(section: &mut Section<'_>) -> Option<Url> {
    let about = "The callback URL, to which the provider redirects the browser.";
    section.derived("redirect_url", "below `server.public_url`", about)
}

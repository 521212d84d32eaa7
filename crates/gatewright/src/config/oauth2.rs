use gatewright_base::Secret;
use url::Url;

use super::oauth::{registration, send_pkce};
use super::read::{Keyword, Section};

/// `[[auth.oauth.oauth2]]`: an OAuth 2.0 service with an address that describes the user.
#[derive(Debug, Clone)]
pub struct OAuth2 {
    /// The provider's name in paths.
    pub name: String,
    /// The label of its button. Absent: `name`.
    pub label: Option<String>,
    /// The client's identifier at the provider.
    pub client_id: String,
    /// The client's secret at the provider.
    pub client_secret: Secret,
    /// The callback URL. Absent: built from the public URL.
    pub redirect_url: Option<Url>,
    /// The authorization endpoint.
    pub authorize_url: Url,
    /// The token endpoint.
    pub token_url: Url,
    /// The endpoint that describes the user.
    pub userinfo_url: Url,
    /// The scopes to request.
    pub scopes: Vec<String>,
    /// How the token endpoint takes the client secret.
    pub token_auth: TokenAuth,
    /// The issuer that its callbacks name. Absent: they are not compared.
    pub issuer: Option<String>,
    /// Where the description of the user has what.
    pub claims: OAuth2Claims,
    /// Whether a PKCE challenge is sent.
    pub send_pkce: bool,
}

/// How a token endpoint takes the client secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenAuth {
    /// In the `Authorization` header.
    Basic,
    /// In the form.
    Post,
}

/// Where the description of a user has what: a name, or the names on the way to it with dots in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuth2Claims {
    /// The user's identifier at the provider.
    pub subject: String,
    /// The address.
    pub email: String,
    /// The name to show.
    pub name: String,
    /// A picture's URL.
    pub picture: String,
    /// Whether the provider has verified the address. Absent: it has not.
    pub email_verified: Option<String>,
}

impl Keyword for TokenAuth {
    const WORDS: &'static [(&'static str, Self)] =
        &[("client_secret_basic", Self::Basic), ("client_secret_post", Self::Post)];
}

impl OAuth2 {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let name = section
            .required("name", "Its name in paths and in the database: 1 to 48 lower-case letters, digits, `-` or `_`.");
        let label = section.derived("label", "`name`", "The label of its button.");
        let (client_id, client_secret, redirect_url) = registration(section);
        Self {
            name,
            label,
            client_id,
            client_secret,
            redirect_url,
            authorize_url: section.required_url("authorize_url", "Its authorization endpoint."),
            token_url: section.required_url("token_url", "Its token endpoint."),
            userinfo_url: section.required_url(
                "userinfo_url",
                "Its endpoint that describes the user, as JSON, to the bearer of an access token.",
            ),
            scopes: section.value("scopes", Vec::new(), "The requested scopes."),
            token_auth: section.value(
                "token_auth",
                TokenAuth::Basic,
                "How its token endpoint takes the client secret.",
            ),
            issuer: section.optional(
                "issuer",
                "If set, a callback must name it as `iss` (RFC 9207). Set it if the service documents this parameter.",
            ),
            claims: section.section("claims", OAuth2Claims::read),
            send_pkce: send_pkce(section),
        }
    }
}

impl OAuth2Claims {
    fn read(section: &mut Section<'_>) -> Self {
        Self {
            subject: section.value(
                "subject",
                "sub".to_owned(),
                "Where the answer has the user's identifier: a name, or the names on the way to it with dots in between \
                 (`data.id`). The service must never give it to another user.",
            ),
            email: section.value("email", "email".to_owned(), "Where it has the address."),
            name: section.value("name", "name".to_owned(), "Where it has the display name."),
            picture: section.value("picture", "picture".to_owned(), "Where it has the URL of a picture."),
            email_verified: section.optional(
                "email_verified",
                "Where it says that the service has verified the address. Without it, every address is unverified.",
            ),
        }
    }
}

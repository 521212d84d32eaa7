use async_trait::async_trait;
use gatewright_base::Secret;
use jiff::Timestamp;
use url::Url;

use super::ProviderError;

/// An identity provider: the two halves of the authorization code flow (RFC 6749, section 4.1), and the refresh
/// (section 6).
///
/// A provider returns the URL to which the browser is redirected, and later exchanges the code of the callback for an
/// identity. The flow does everything else: the state, the cookie, and the decision about the identity.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Its name in paths and in stored links: `google`, `github`, or the name of an OpenID Connect provider. It must
    /// never change, because links are stored under it.
    fn name(&self) -> &str;

    /// Its name on the button: `Google`.
    fn label(&self) -> &str;

    /// The callback URL, if it is configured for this provider. [`authorize_url`](Self::authorize_url) and
    /// [`identify`](Self::identify) are then called with it.
    fn redirect_url(&self) -> Option<&Url> {
        None
    }

    /// The URL to which the browser is redirected, with `state` and `redirect` in the query.
    async fn authorize_url(&self, state: &str, redirect: &Url) -> Result<Url, ProviderError>;

    /// Exchanges `code` for tokens, checks the provider's answer, and returns the identity. `redirect` must be the one
    /// of [`authorize_url`](Self::authorize_url). Succeeds once for a code.
    async fn identify(&self, code: &Secret, redirect: &Url) -> Result<Identified, ProviderError>;

    /// Exchanges a refresh token for new tokens. An answer without a refresh token leaves the old one valid.
    async fn refresh(&self, refresh_token: &Secret) -> Result<ProviderTokens, ProviderError>;
}

/// Whether this is a valid name of a provider: 1 to 48 lower-case letters, digits, `-` and `_`. It is part of paths.
pub fn is_provider_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    (1..=48).contains(&name.len()) && name.bytes().all(plain)
}

/// The identity that signed in at a provider, and the tokens for calls on its behalf.
#[derive(Debug, Clone)]
pub struct Identified {
    /// The user's identity.
    pub identity: ProviderIdentity,
    /// The tokens of this sign-in.
    pub tokens: ProviderTokens,
}

/// An identity at a provider. Only `provider_id` identifies it; everything else may change between sign-ins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderIdentity {
    /// The provider's own identifier of the person: 1 to 255 characters, never empty, unique at this provider and at no
    /// other.
    pub provider_id: String,
    /// The address, as the provider spells it. Unchecked text.
    pub email: Option<String>,
    /// Whether the provider reports the address as verified. Always false without one.
    pub email_verified: bool,
    /// The name to show. Unchecked text.
    pub name: Option<String>,
    /// A picture's address: https, or absent.
    pub avatar_url: Option<String>,
}

/// The tokens that a token endpoint returned.
#[derive(Debug, Clone)]
pub struct ProviderTokens {
    /// The access token, for calls of the provider's API.
    pub access: Secret,
    /// The refresh token. Absent in an answer to a refresh: the old one stays valid.
    pub refresh: Option<Secret>,
    /// When `access` expires. Absent: the provider did not say, or it does not expire.
    pub expires_at: Option<Timestamp>,
    /// The granted scopes, as the provider spells them.
    pub scope: Option<String>,
}

use async_trait::async_trait;
use gatewright_base::Secret;
use jiff::Timestamp;
use url::Url;

use super::ProviderError;

/// Somebody else who knows who a visitor is: the two halves of the authorization code flow (RFC 6749, section 4.1), and
/// the refresh (section 6).
///
/// A provider sends the browser away and later turns the code it comes back with into an identity. Everything between
/// (the state, the cookie, what becomes of the identity) is the flow's business, and nothing of it a provider's.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Its word in paths and in stored links: `google`, `github`, or the name of an OpenID Connect provider. It never
    /// changes, for links are stored under it.
    fn name(&self) -> &str;

    /// What a button calls it: `Google`.
    fn label(&self) -> &str;

    /// Where the browser comes back to, if that is configured for this provider in particular. What it returns is then
    /// what [`authorize_url`](Self::authorize_url) and [`identify`](Self::identify) are given.
    fn redirect_url(&self) -> Option<&Url> {
        None
    }

    /// Where the browser is sent, with `state` and `redirect` in the query.
    async fn authorize_url(&self, state: &str, redirect: &Url) -> Result<Url, ProviderError>;

    /// Exchanges `code` for tokens, checks all that the provider's answer must pass, and says who it is. `redirect` is
    /// the one that the code was asked for with. Succeeds once for a code.
    async fn identify(&self, code: &Secret, redirect: &Url) -> Result<Identified, ProviderError>;

    /// Exchanges a refresh token for new tokens. An answer without a refresh token leaves the old one valid.
    async fn refresh(&self, refresh_token: &Secret) -> Result<ProviderTokens, ProviderError>;
}

/// Whether a provider can be called so: 1 to 48 lower-case letters, digits, `-` and `_`. It stands in paths.
pub fn is_provider_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    (1..=48).contains(&name.len()) && name.bytes().all(plain)
}

/// Who came back from a provider, and what it may be asked with on their behalf.
#[derive(Debug, Clone)]
pub struct Identified {
    /// Who it is.
    pub identity: ProviderIdentity,
    /// The tokens of this sign-in.
    pub tokens: ProviderTokens,
}

/// An identity at a provider. `provider_id` alone names it; all else may change from one sign-in to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderIdentity {
    /// The provider's own identifier of the person: 1 to 255 characters, never empty, unique at this provider and at no
    /// other.
    pub provider_id: String,
    /// The address, as the provider spells it. Unchecked text.
    pub email: Option<String>,
    /// Whether the provider vouches for the address. Always false without one.
    pub email_verified: bool,
    /// The name to show. Unchecked text.
    pub name: Option<String>,
    /// A picture's address: https, or absent.
    pub avatar_url: Option<String>,
}

/// What a token endpoint gave.
#[derive(Debug, Clone)]
pub struct ProviderTokens {
    /// What the provider's interfaces are called with.
    pub access: Secret,
    /// What new tokens are asked for with. Absent in an answer to a refresh: the old one stays.
    pub refresh: Option<Secret>,
    /// When `access` ends. Absent: the provider did not say, or it does not end.
    pub expires_at: Option<Timestamp>,
    /// What was granted, as the provider spells it.
    pub scope: Option<String>,
}

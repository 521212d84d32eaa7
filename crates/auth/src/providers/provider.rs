use async_trait::async_trait;
use gatewright_base::Secret;
use jiff::Timestamp;
use url::Url;

use super::{Proofs, ProviderError};

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

    /// Whether [`authorize_url`](Self::authorize_url) has [`Proofs::challenge`] in its query. If it returns true, a flow
    /// whose URL lacks the challenge is refused with 500. False is for a provider that refuses PKCE, or that gets the
    /// challenge by another way than the URL (RFC 9126).
    fn sends_pkce(&self) -> bool {
        true
    }

    /// Whether the provider sends its answer by a form, which the browser posts from the provider's page (OAuth 2.0 Form Post
    /// Response Mode). The cookies of the flow are then `SameSite=None` and `Secure`, and the callback accepts POST.
    fn posts_its_answer(&self) -> bool {
        false
    }

    /// The URL to which the browser is redirected, with the parts of `request` in the query.
    async fn authorize_url(&self, request: &Authorization<'_>) -> Result<Url, ProviderError>;

    /// Exchanges the code for tokens, with [`Proofs::verifier`], checks the provider's answer, and returns the identity.
    /// Succeeds once for a code. An identity that is read from an `id_token` needs the check of its `nonce` against
    /// [`Proofs::nonce`].
    async fn identify(&self, callback: &Callback<'_>) -> Result<Identified, ProviderError>;

    /// Exchanges a refresh token for new tokens. An answer without a refresh token leaves the old one valid.
    async fn refresh(&self, refresh_token: &Secret) -> Result<ProviderTokens, ProviderError>;
}

/// The parts of a redirect to a provider that belong to one flow.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Authorization<'a> {
    /// `state`, which comes back in the callback.
    pub state: &'a str,
    /// `redirect_uri`, the callback URL.
    pub redirect: &'a Url,
    /// PKCE and the nonce.
    pub proofs: &'a Proofs,
}

/// A callback of a provider, in the browser that began the flow.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Callback<'a> {
    /// `code`.
    pub code: &'a Secret,
    /// The callback URL of the redirect.
    pub redirect: &'a Url,
    /// `iss`, if there is one: the issuer that the callback claims to come from (RFC 9207).
    pub issuer: Option<&'a str>,
    /// `user`, if there is one: text about the user, as Apple sends it at the first sign-in. The browser may have changed
    /// it.
    pub user: Option<&'a str>,
    /// The proofs of the redirect.
    pub proofs: &'a Proofs,
}

impl<'a> Authorization<'a> {
    /// The parts of a redirect.
    pub fn new(state: &'a str, redirect: &'a Url, proofs: &'a Proofs) -> Self {
        Self { state, redirect, proofs }
    }
}

impl<'a> Callback<'a> {
    /// A callback without `iss` and `user`.
    pub fn new(code: &'a Secret, redirect: &'a Url, proofs: &'a Proofs) -> Self {
        Self { code, redirect, issuer: None, user: None, proofs }
    }

    /// Sets `iss`.
    pub fn issuer(self, issuer: Option<&'a str>) -> Self {
        Self { issuer, ..self }
    }

    /// Sets `user`.
    pub fn user(self, user: Option<&'a str>) -> Self {
        Self { user, ..self }
    }
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

use jiff::SignedDuration;

use super::openid::claims::IdentityClaims;
use super::scopes::SupportedScopes;

/// The configuration of the authorization server.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) scopes: SupportedScopes,
    pub(super) dynamic_registration: bool,
    pub(super) client_documents: bool,
    pub(super) access_ttl: SignedDuration,
    pub(super) refresh_ttl: SignedDuration,
    pub(super) code_ttl: SignedDuration,
    /// The further claims about users; `None` without OpenID Connect.
    pub(super) openid: Option<IdentityClaims>,
}

//! The ways to sign in, for the sign-in screen and other plugins.

use async_trait::async_trait;
use gatewright_base::UserId;

use crate::users::BoxError;

/// A kind of credential that a user signs in with, besides passwords and providers: passkeys. A user who has one may
/// remove the last link to a provider.
#[async_trait]
pub(crate) trait SignInCredential: Send + Sync + 'static {
    /// Whether this user can sign in with it.
    async fn is_usable(&self, user: &UserId) -> Result<bool, BoxError>;
}

/// A link on the sign-in screen: another method, or the way to a new password.
#[derive(Debug, Clone)]
pub(crate) struct SignInLink {
    /// The key of its text, or its words.
    pub(crate) label: String,
    /// The value `name` of its text.
    pub(crate) name: Option<String>,
    pub(crate) href: String,
}

/// A provider that people can sign in with.
#[derive(Debug, Clone)]
pub(crate) struct KnownProvider {
    /// Its word in paths.
    pub(crate) name: String,
    /// Its name for users.
    pub(crate) label: String,
}

//! Ways in that belong to an account itself, beside its password and its providers: passkeys.

use async_trait::async_trait;
use gatewright_base::UserId;

use crate::users::BoxError;

/// A kind of credential that its owner signs in with. While an account has one, its last link to a provider may go.
#[async_trait]
pub(crate) trait OwnWayIn: Send + Sync + 'static {
    /// Whether this user can sign in with it.
    async fn opens(&self, user: &UserId) -> Result<bool, BoxError>;
}

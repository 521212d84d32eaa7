use async_trait::async_trait;
use gatewright_base::UserId;
use jiff::Timestamp;

use crate::users::BoxError;

/// A kind of credential that a plugin keeps, which a claim drops.
#[async_trait]
pub trait Credentials: Send + Sync + 'static {
    /// Its name in the audit event: `api_tokens`.
    fn name(&self) -> &'static str;

    /// Whether they end when an operator disables the account. Others are refused until it is enabled again.
    fn ends_when_disabled(&self) -> bool {
        false
    }

    /// Drops those that were added at or after `since`, and returns how many there were: somebody else may have added them.
    /// A kind that does not keep when each was added drops all.
    async fn drop_since(&self, user: &UserId, since: Timestamp) -> Result<u64, BoxError> {
        let _ = since;
        self.drop_all(user).await
    }

    /// Drops all of this user's, and returns how many there were.
    async fn drop_all(&self, user: &UserId) -> Result<u64, BoxError>;

    /// What the export of a user's account says of them: no secret. Keys are in snake case.
    async fn describe(&self, user: &UserId) -> Result<Vec<serde_json::Value>, BoxError> {
        let _ = user;
        Ok(Vec::new())
    }

    /// Removes all that is kept of a user whose account is deleted, of credentials that ended long ago too.
    async fn forget(&self, user: &UserId) -> Result<(), BoxError> {
        self.drop_all(user).await.map(|_| ())
    }
}

use async_trait::async_trait;
use gatewright_base::UserId;
use jiff::Timestamp;

use crate::users::BoxError;

/// A kind of credential that a plugin stores. A claim of the account removes them.
#[async_trait]
pub trait Credentials: Send + Sync + 'static {
    /// Its name in the audit event: `api_tokens`.
    fn name(&self) -> &'static str;

    /// Whether they end when an operator disables the account. Others are refused until it is enabled again.
    fn ends_when_disabled(&self) -> bool {
        false
    }

    /// Removes the credentials that were added at or after `since`, because another person may have added them, and
    /// returns how many there were. A kind without such times removes all.
    async fn drop_since(&self, user: &UserId, since: Timestamp) -> Result<u64, BoxError> {
        let _ = since;
        self.drop_all(user).await
    }

    /// Removes all credentials of this user, and returns how many there were.
    async fn drop_all(&self, user: &UserId) -> Result<u64, BoxError>;

    /// The credentials as JSON for the export of a user's account, without secrets. Keys are in snake case.
    async fn describe(&self, user: &UserId) -> Result<Vec<serde_json::Value>, BoxError> {
        let _ = user;
        Ok(Vec::new())
    }

    /// Removes all data about a user whose account is deleted, including expired and revoked credentials.
    async fn forget(&self, user: &UserId) -> Result<(), BoxError> {
        self.drop_all(user).await.map(|_| ())
    }
}

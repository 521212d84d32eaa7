//! The invitations that an account has sent, as something that has access to what the account may give: a new password withdraws
//! them.

use async_trait::async_trait;
use gatewright_base::{Ambient, UserId};
use jiff::Timestamp;

use crate::credentials::Credentials;
use crate::invitations::{Invitation, Invitations};
use crate::users::BoxError;

/// The open invitations of each sender.
pub(crate) struct SentInvitations {
    invitations: Invitations,
    ambient: Ambient,
}

impl SentInvitations {
    pub(crate) fn new(invitations: Invitations, ambient: Ambient) -> Self {
        Self { invitations, ambient }
    }

    async fn open(&self, user: &UserId) -> Result<Vec<Invitation>, BoxError> {
        Ok(self.invitations.of_account(user, None, self.ambient.now()).await?)
    }
}

#[async_trait]
impl Credentials for SentInvitations {
    fn name(&self) -> &'static str {
        "sent_invitations"
    }

    async fn drop_since(&self, user: &UserId, since: Timestamp) -> Result<u64, BoxError> {
        Ok(self.invitations.withdraw_sent(user, Some(since), self.ambient.now()).await?)
    }

    async fn added_since(&self, user: &UserId, since: Timestamp) -> Result<Vec<String>, BoxError> {
        let open = self.open(user).await?.into_iter();
        Ok(open.filter(|open| open.created_at >= since).map(|open| open.email.to_string()).collect())
    }

    async fn drop_all(&self, user: &UserId) -> Result<u64, BoxError> {
        Ok(self.invitations.withdraw_sent(user, None, self.ambient.now()).await?)
    }

    /// An export lists all invitations, also those to the account.
    fn is_exported(&self) -> bool {
        false
    }

    async fn names(&self, user: &UserId) -> Result<Vec<String>, BoxError> {
        Ok(self.open(user).await?.into_iter().map(|open| open.email.to_string()).collect())
    }
}

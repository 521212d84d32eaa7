use async_trait::async_trait;
use gatewright_base::UserId;
use jiff::Timestamp;

use super::TokenKey;
use crate::email::EmailAddress;
use crate::users::BoxError;

/// Where single-use tokens live. [`SqlSingleUseStore`](super::SqlSingleUseStore) is the built-in one.
#[async_trait]
pub trait SingleUseStore: Send + Sync + 'static {
    /// Keeps a new token. May clear away tokens that expired at or before `now`.
    async fn put(&self, token: &IssuedToken, now: Timestamp) -> Result<(), SingleUseStoreError>;

    /// The token with this key and purpose, spent and expired or not.
    async fn find(&self, key: &TokenKey, purpose: Purpose) -> Result<Option<IssuedToken>, SingleUseStoreError>;

    /// Spends the token with this key and purpose, if at `now` it is neither spent nor expired. Of any number of
    /// concurrent calls exactly one gets `true`.
    async fn spend(&self, key: &TokenKey, purpose: Purpose, now: Timestamp) -> Result<bool, SingleUseStoreError>;

    /// Removes the tokens that were issued for `email` or for `user`: those of `purpose` or, without one, all of them.
    async fn remove(
        &self,
        user: &UserId,
        email: &EmailAddress,
        purpose: Option<Purpose>,
    ) -> Result<u64, SingleUseStoreError>;

    /// Removes tokens that expired at or before `now`, at most `limit` of them, and returns how many there were. A store
    /// whose tokens expire by themselves has nothing to do.
    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64, SingleUseStoreError> {
        let _ = (now, limit);
        Ok(0)
    }

    /// Whether tokens are lost with the process and unknown to other replicas. Outside dev mode that must be allowed in
    /// so many words.
    fn in_memory(&self) -> bool {
        false
    }
}

/// What a token is good for, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Signing in.
    MagicLink,
    /// Proving a mailbox.
    EmailVerification,
    /// Setting a new password.
    PasswordReset,
    /// Giving an account another address.
    EmailChange,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Self; 4] = [Self::MagicLink, Self::EmailVerification, Self::PasswordReset, Self::EmailChange];

    /// The name that stores keep. It never changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::MagicLink => "magic_link",
            Self::EmailVerification => "email_verification",
            Self::PasswordReset => "password_reset",
            Self::EmailChange => "email_change",
        }
    }
}

/// A token as a store knows it. Holds no secret and redeems nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedToken {
    /// What it is looked up by. Unique.
    pub key: TokenKey,
    /// What it is good for.
    pub purpose: Purpose,
    /// The address it is mailed to.
    pub email: EmailAddress,
    /// The account it is for. A magic link has none: there may be no account yet.
    pub user_id: Option<UserId>,
    /// Where its owner wants to go afterwards: a path on this origin.
    pub next: Option<String>,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
    /// Whether it was spent.
    pub spent: bool,
}

impl IssuedToken {
    /// Whether it can still be spent at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        !self.spent && now < self.expires_at
    }
}

/// The store of single-use tokens could not do its work, so nothing is known.
#[derive(Debug, thiserror::Error)]
#[error("the store of single-use tokens failed: {0}")]
pub struct SingleUseStoreError(#[source] BoxError);

impl SingleUseStoreError {
    /// Any error of a store.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }
}

impl From<gatewright_db::Error> for SingleUseStoreError {
    fn from(error: gatewright_db::Error) -> Self {
        Self::new(error)
    }
}

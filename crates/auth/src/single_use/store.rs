use async_trait::async_trait;
use gatewright_base::UserId;
use jiff::Timestamp;

use super::TokenKey;
use crate::email::EmailAddress;
use crate::users::BoxError;

/// Stores single-use tokens. [`SqlSingleUseStore`](super::SqlSingleUseStore) is the built-in one.
#[async_trait]
pub trait SingleUseStore: Send + Sync + 'static {
    /// Stores a new token. May remove tokens that expired at or before `now`.
    async fn put(&self, token: &IssuedToken, now: Timestamp) -> Result<(), SingleUseStoreError>;

    /// The token with this key and purpose, spent and expired or not.
    async fn find(&self, key: &TokenKey, purpose: Purpose) -> Result<Option<IssuedToken>, SingleUseStoreError>;

    /// Spends the token with this key and purpose, if at `now` it is neither spent nor expired. Of concurrent calls
    /// exactly one returns `true`.
    async fn spend(&self, key: &TokenKey, purpose: Purpose, now: Timestamp) -> Result<bool, SingleUseStoreError>;

    /// Removes the tokens that were issued for `email` or for `user`: those of `purpose` or, without one, all of them.
    async fn remove(
        &self,
        user: &UserId,
        email: &EmailAddress,
        purpose: Option<Purpose>,
    ) -> Result<u64, SingleUseStoreError>;

    /// Removes tokens that expired at or before `now`, at most `limit` of them, and returns how many there were. A
    /// store that expires tokens itself need not implement it.
    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64, SingleUseStoreError> {
        let _ = (now, limit);
        Ok(0)
    }

    /// Whether tokens are lost when the process ends and unknown to other replicas. Outside dev mode this must be
    /// allowed by `allow_in_memory_stores`.
    fn in_memory(&self) -> bool {
        false
    }
}

/// The purpose of a token. It is valid for no other.
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
    /// Signing in by a code that is mailed without a link.
    EmailCode,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Self; 5] =
        [Self::MagicLink, Self::EmailVerification, Self::PasswordReset, Self::EmailChange, Self::EmailCode];

    /// The name that stores save. It never changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::MagicLink => "magic_link",
            Self::EmailVerification => "email_verification",
            Self::PasswordReset => "password_reset",
            Self::EmailChange => "email_change",
            Self::EmailCode => "email_code",
        }
    }
}

/// What must come together with a token. It is stored with the token when it is issued, so the bearer of a link cannot
/// choose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Demand {
    /// Nothing: a program requested the mail, or the page of the link asks for a new password.
    Nothing,
    /// The browser that requested the mail or, from any other, the code in the mail. A mail scanner has neither.
    Browser,
    /// A session of the account, or the code on the page that requested the mail.
    Account,
}

impl Demand {
    /// The demand of a new token. `by_form`: a browser's form requested the mail.
    pub(crate) fn of(purpose: Purpose, by_form: bool) -> Self {
        match (purpose, by_form) {
            (Purpose::EmailChange, _) => Self::Account,
            (Purpose::PasswordReset | Purpose::EmailCode, _)
            | (Purpose::MagicLink | Purpose::EmailVerification, false) => Self::Nothing,
            (Purpose::MagicLink | Purpose::EmailVerification, true) => Self::Browser,
        }
    }

    /// The name that stores save. It never changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Browser => "browser",
            Self::Account => "account",
        }
    }

    /// The demand with this stored name. Without one (a token from an earlier version), the strictest of its purpose.
    pub fn of_stored(name: Option<&str>, purpose: Purpose) -> Self {
        let known =
            [Self::Nothing, Self::Browser, Self::Account].into_iter().find(|demand| Some(demand.name()) == name);
        known.unwrap_or_else(|| Self::of(purpose, true))
    }
}

/// A token in a store. It contains no secret and cannot be redeemed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedToken {
    /// The hash by which it is looked up. Unique.
    pub key: TokenKey,
    /// Its purpose.
    pub purpose: Purpose,
    /// The address it is mailed to.
    pub email: EmailAddress,
    /// The account it is for. A magic link has none: there may be no account yet.
    pub user_id: Option<UserId>,
    /// `next`, the path on this origin to which its owner returns afterwards.
    pub next: Option<String>,
    /// What must come together with it.
    pub demand: Demand,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// When it expires.
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

/// The store of single-use tokens failed, so the result is unknown.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_without_a_stored_demand_gets_the_strictest_of_its_purpose() {
        let demands = [Demand::Nothing, Demand::Browser, Demand::Account];
        for purpose in Purpose::ALL {
            let strictest = match purpose {
                Purpose::MagicLink | Purpose::EmailVerification => Demand::Browser,
                Purpose::PasswordReset | Purpose::EmailCode => Demand::Nothing,
                Purpose::EmailChange => Demand::Account,
            };
            for name in [None, Some(""), Some("Nothing")] {
                assert_eq!(Demand::of_stored(name, purpose), strictest, "{name:?} {purpose:?}");
            }
            for demand in demands {
                assert_eq!(Demand::of_stored(Some(demand.name()), purpose), demand);
            }
        }
    }
}

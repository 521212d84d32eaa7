use super::SessionStoreError;
use crate::users::BoxError;

/// Why there is no session. In every case nothing is left behind that a cookie could open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MintError {
    /// The user's second factor could not be looked up, or a session that owes one could not be kept: 500.
    #[error("the second factor cannot be enforced: {0}")]
    TwoFactorEnforcement(#[source] BoxError),
    /// The session could not be kept.
    #[error(transparent)]
    Store(#[from] SessionStoreError),
    /// An operator has disabled the account. Callers are told what a wrong password is told.
    #[error("the account is disabled")]
    Disabled,
    /// The mailbox was never proven, which the configuration demands.
    #[error("the email address is not verified")]
    EmailUnverified,
    /// The pending session was completed or ended by somebody else meanwhile.
    #[error("the pending session is gone")]
    Gone,
}

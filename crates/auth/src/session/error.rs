use super::SessionStoreError;
use crate::users::BoxError;

/// Why a session was not created. In every case no usable session is stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MintError {
    /// The user's second factor could not be looked up, or a pending session could not be stored: 500.
    #[error("the second factor cannot be enforced: {0}")]
    TwoFactorEnforcement(#[source] BoxError),
    /// The session could not be stored.
    #[error(transparent)]
    Store(#[from] SessionStoreError),
    /// An operator has disabled the account. Callers get the same answer as for a wrong password.
    #[error("the account is disabled")]
    Disabled,
    /// The mailbox was never proven, and the configuration requires it.
    #[error("the email address is not verified")]
    EmailUnverified,
    /// A concurrent request has completed or ended the pending session.
    #[error("the pending session is gone")]
    Gone,
}

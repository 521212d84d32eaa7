use std::time::Duration;

use gatewright_http::Problem;

use crate::invitations::ClaimError;
use crate::mailbox::ProveError;
use crate::problem::{self, store_failed};
use crate::step_up::StepUpError;
use crate::users::{BoxError, UserStoreError};

/// Why an invitation was not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AcceptError {
    /// The invitation is unknown, accepted, withdrawn or expired.
    #[error("the invitation is invalid or expired")]
    Unknown,
    /// The invitation is being accepted, or was when a server stopped. The claim ends after at most this long.
    #[error("the invitation is being accepted; try again in a minute")]
    Claimed(Duration),
    /// It is for another address than that of the account.
    #[error("the invitation is for another address than that of this account")]
    OtherAddress,
    #[error(transparent)]
    StepUp(#[from] StepUpError),
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error(transparent)]
    Prove(#[from] ProveError),
    #[error("the invitations cannot be read: {0}")]
    Store(#[from] gatewright_db::Error),
    #[error("the tenant has reached its limit of members")]
    Full,
    #[error("the tenants cannot be used: {0}")]
    Tenant(#[source] BoxError),
}

/// 409: the invitation is being accepted.
pub(crate) fn claimed(left: Duration) -> Problem {
    let detail = "the invitation is being accepted; try again in a minute";
    Problem::conflict(detail).with_code("invitation_claimed").retry_after(left)
}

impl From<ClaimError> for AcceptError {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Unknown => Self::Unknown,
            ClaimError::Claimed(left) => Self::Claimed(left),
            ClaimError::Store(error) => Self::Store(error),
        }
    }
}

impl From<AcceptError> for Problem {
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::Unknown => problem::invalid_token(),
            AcceptError::Claimed(left) => claimed(left),
            AcceptError::OtherAddress => Self::forbidden(error.to_string()).with_code("other_address"),
            AcceptError::Full => Self::conflict(error.to_string()).with_code("too_many_members"),
            AcceptError::StepUp(error) => error.into(),
            AcceptError::Users(error) => error.into(),
            AcceptError::Prove(error) => error.into(),
            AcceptError::Store(_) | AcceptError::Tenant(_) => store_failed(&error),
        }
    }
}

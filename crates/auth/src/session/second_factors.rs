use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Secret, SessionId, UserId};
use jiff::Timestamp;

#[cfg(feature = "two-factor")]
use super::TwoFactorMarkerWithin;
use super::{MintError, NewSession, PendingMarker, SessionStore, SessionStoreError, TwoFactorMarker};
use crate::users::BoxError;

/// A kind of second factor. The two-factor plugin implements it; hosts may add their own.
#[async_trait]
pub trait SecondFactor: Send + Sync + 'static {
    /// Whether this user has an enabled second factor. An error rejects the sign-in.
    async fn enabled(&self, user: &UserId) -> Result<bool, BoxError>;

    /// Whether `code` proves the user's factor now. A code works once. Used for fresh proofs within a session. The
    /// default implementation, for factors without codes, returns `false`.
    async fn prove(&self, user: &UserId, code: &Secret) -> Result<bool, BoxError> {
        let _ = (user, code);
        Ok(false)
    }

    /// Removes the user's factor, even if its enrollment was not completed; `false` if there was none. For trusted
    /// callers, who have checked that the request is allowed.
    async fn remove(&self, user: &UserId) -> Result<bool, BoxError>;

    /// What of the user's factor was added at or after `since`, because another person may have added it. The default
    /// implementation, for factors without times, returns every enabled factor.
    async fn added_since(&self, user: &UserId, since: Timestamp) -> Result<AddedFactor, BoxError> {
        let _ = since;
        Ok(if self.enabled(user).await? { AddedFactor::Factor } else { AddedFactor::Nothing })
    }

    /// Removes what [`added_since`](Self::added_since) returns.
    async fn remove_since(&self, user: &UserId, since: Timestamp) -> Result<AddedFactor, BoxError> {
        let added = self.added_since(user, since).await?;
        if added == AddedFactor::Factor {
            self.remove(user).await?;
        }
        Ok(added)
    }
}

/// What of a second factor was added since a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddedFactor {
    /// There is none, or it is older.
    Nothing,
    /// The factor is older, and its backup codes were replaced.
    BackupCodes,
    /// The factor itself.
    Factor,
}

impl AddedFactor {
    /// Its name in audit events; `None` for nothing.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::BackupCodes => Some("backup_codes"),
            Self::Factor => Some("second_factor"),
        }
    }
}

/// All parts that the mint needs for second factors: the checkers of users, and the marker of sessions.
///
/// A session store without a marker gets one that fails, so that requests do not ask for the marker again.
pub(super) struct SecondFactors {
    factors: Vec<Arc<dyn SecondFactor>>,
    pending: Arc<dyn PendingMarker>,
    verified: Arc<dyn TwoFactorMarker>,
}

/// The session store does not support second factors.
#[derive(Debug, thiserror::Error)]
#[error("the session store has no {0}")]
struct Unsupported(&'static str);

/// The marker for a session store without one.
struct NoMarker;

impl SecondFactors {
    pub(super) fn new(factors: Vec<Arc<dyn SecondFactor>>, store: &Arc<dyn SessionStore>) -> Self {
        Self {
            factors,
            pending: store.clone().pending_marker().unwrap_or_else(|| Arc::new(NoMarker)),
            verified: store.clone().two_factor_marker().unwrap_or_else(|| Arc::new(NoMarker)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.factors.len()
    }

    /// Whether any of them says that this user has a second factor.
    pub(super) async fn enabled(&self, user: &UserId) -> Result<bool, BoxError> {
        for factor in &self.factors {
            if factor.enabled(user).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether `code` proves one of this user's second factors. It is spent.
    pub(super) async fn prove(&self, user: &UserId, code: &Secret) -> Result<bool, BoxError> {
        for factor in &self.factors {
            if factor.enabled(user).await? && factor.prove(user, code).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes every second factor of this user; `false` if there was none.
    pub(super) async fn remove(&self, user: &UserId) -> Result<bool, BoxError> {
        let mut any = false;
        for factor in &self.factors {
            any |= factor.remove(user).await?;
        }
        Ok(any)
    }

    /// What of this user's factors was added at or after `since`, each once.
    pub(super) async fn added_since(&self, user: &UserId, since: Timestamp) -> Result<Vec<&'static str>, BoxError> {
        let mut added = Vec::new();
        for factor in &self.factors {
            added.extend(factor.added_since(user, since).await?.name());
        }
        added.dedup();
        Ok(added)
    }

    /// Removes what was added at or after `since`, and returns it.
    pub(super) async fn remove_since(&self, user: &UserId, since: Timestamp) -> Result<Vec<&'static str>, BoxError> {
        let mut removed = Vec::new();
        for factor in &self.factors {
            removed.extend(factor.remove_since(user, since).await?.name());
        }
        removed.dedup();
        Ok(removed)
    }

    /// Keeps a session that is pending from its first moment.
    pub(super) async fn create_pending(&self, new: &NewSession) -> Result<(), MintError> {
        // Every failure here is one of the second factor: without its mark the session must not exist.
        self.pending.create_pending(new).await.map_err(|error| MintError::TwoFactorEnforcement(error.into()))
    }

    /// Replaces the pending session `old` by `new`, which is verified.
    pub(super) async fn complete(&self, old: &SessionId, new: &NewSession) -> Result<(), MintError> {
        existed(self.verified.complete(old, new).await)
    }

    /// The marker of sessions in a transaction of the service's database.
    #[cfg(feature = "two-factor")]
    pub(super) fn marker_within(&self) -> Option<Arc<dyn TwoFactorMarkerWithin>> {
        self.verified.clone().within()
    }

    /// Marks one session of this user as verified and all others as not verified.
    pub(super) async fn mark_verified(&self, user: &UserId, id: &SessionId) -> Result<(), MintError> {
        existed(self.verified.mark_verified(user, id).await)
    }
}

fn existed(marked: Result<bool, SessionStoreError>) -> Result<(), MintError> {
    match marked {
        Ok(true) => Ok(()),
        Ok(false) => Err(MintError::Gone),
        Err(error) if error.is::<Unsupported>() => Err(MintError::TwoFactorEnforcement(error.into())),
        Err(error) => Err(error.into()),
    }
}

#[async_trait]
impl PendingMarker for NoMarker {
    async fn create_pending(&self, _: &NewSession) -> Result<(), SessionStoreError> {
        Err(SessionStoreError::new(Unsupported("pending marker")))
    }
}

#[async_trait]
impl TwoFactorMarker for NoMarker {
    async fn complete(&self, _: &SessionId, _: &NewSession) -> Result<bool, SessionStoreError> {
        Err(SessionStoreError::new(Unsupported("two-factor marker")))
    }

    async fn mark_verified(&self, _: &UserId, _: &SessionId) -> Result<bool, SessionStoreError> {
        Err(SessionStoreError::new(Unsupported("two-factor marker")))
    }
}

use async_trait::async_trait;
use gatewright_base::UserId;
use jiff::Timestamp;

use super::{CodeHash, TotpSecret};
use crate::users::BoxError;

/// Where second factors live: one for each user, with its backup codes. [`SqlTwoFactorStore`](super::SqlTwoFactorStore)
/// is the built-in one.
///
/// Each operation is one atomic step, for any number of replicas: of concurrent calls that spend the same thing exactly
/// one is told `true`.
#[async_trait]
pub trait TwoFactorStore: Send + Sync + 'static {
    /// The user's factor, enabled or begun.
    async fn find(&self, user: &UserId) -> Result<Option<Factor>, TwoFactorStoreError>;

    /// Keeps the secret of an enrollment that begins at `at`, in place of one that was begun before. `false`, and nothing
    /// changed, if a factor is enabled.
    async fn begin(&self, user: &UserId, secret: &TotpSecret, at: Timestamp) -> Result<bool, TwoFactorStoreError>;

    /// Enables the factor that was begun with `secret`, its step `step` spent, and puts `codes` in the place of all
    /// backup codes. `false`, and nothing changed, if there is no such begun factor.
    async fn enable(
        &self,
        user: &UserId,
        secret: &TotpSecret,
        step: i64,
        codes: &[CodeHash],
    ) -> Result<bool, TwoFactorStoreError>;

    /// Spends `step`, a number of half minutes since 1970, and all before it. `false` if it is spent already, or if the
    /// user has no enabled factor with `secret`.
    async fn spend_step(&self, user: &UserId, secret: &TotpSecret, step: i64) -> Result<bool, TwoFactorStoreError>;

    /// Spends a backup code. `false` if the user has no such code, or no enabled factor.
    async fn spend_backup_code(&self, user: &UserId, code: &CodeHash) -> Result<bool, TwoFactorStoreError>;

    /// Puts `codes` in the place of all backup codes. `false`, and nothing changed, without an enabled factor.
    async fn replace_backup_codes(&self, user: &UserId, codes: &[CodeHash]) -> Result<bool, TwoFactorStoreError>;

    /// Removes the factor, enabled or begun, and the backup codes; `false` if there was none.
    async fn remove(&self, user: &UserId) -> Result<bool, TwoFactorStoreError>;

    /// Whether factors are lost with the process. Outside dev mode that must be allowed in so many words.
    fn in_memory(&self) -> bool {
        false
    }
}

/// A user's second factor.
#[derive(Debug, Clone)]
pub struct Factor {
    /// What codes are computed with.
    pub secret: TotpSecret,
    /// Whether it was confirmed with a first code. If not, it protects nothing yet.
    pub enabled: bool,
}

/// The store of second factors could not do its work, so nothing is known.
#[derive(Debug, thiserror::Error)]
#[error("the two-factor store failed: {0}")]
pub struct TwoFactorStoreError(#[source] BoxError);

impl TwoFactorStoreError {
    /// Any error of a store.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }
}

impl From<gatewright_db::Error> for TwoFactorStoreError {
    fn from(error: gatewright_db::Error) -> Self {
        Self::new(error)
    }
}

use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{SessionId, UserId};
use gatewright_db::{Db, Error, Tx};
use jiff::Timestamp;

use super::{CodeHash, TotpSecret};
use crate::users::BoxError;

/// Stores second factors: one for each user, with its backup codes. [`SqlTwoFactorStore`](super::SqlTwoFactorStore) is
/// the built-in one.
///
/// Each operation is atomic across replicas: of concurrent calls that spend the same code, exactly one returns `true`.
#[async_trait]
pub trait TwoFactorStore: Send + Sync + 'static {
    /// The user's factor, enabled or not yet enabled.
    async fn find(&self, user: &UserId) -> Result<Option<Factor>, TwoFactorStoreError>;

    /// Stores the secret of an enrollment, and replaces one that was begun before. Returns `false` and changes nothing
    /// if a factor is enabled.
    async fn begin(&self, user: &UserId, secret: &TotpSecret, begun: &Begun) -> Result<bool, TwoFactorStoreError>;

    /// Enables the factor that was begun with `secret`, marks `step` as used, and replaces all backup codes by `codes`.
    /// Returns `false` and changes nothing if there is no such factor.
    async fn enable(
        &self,
        user: &UserId,
        secret: &TotpSecret,
        step: i64,
        codes: &[CodeHash],
    ) -> Result<bool, TwoFactorStoreError>;

    /// Spends `step`, a number of 30-second steps since 1970, and all earlier steps. `false` if it is spent already, or
    /// if the user has no enabled factor with `secret`.
    async fn spend_step(&self, user: &UserId, secret: &TotpSecret, step: i64) -> Result<bool, TwoFactorStoreError>;

    /// Spends a backup code. `false` if the user has no such code, or no enabled factor.
    async fn spend_backup_code(&self, user: &UserId, code: &CodeHash) -> Result<bool, TwoFactorStoreError>;

    /// Replaces all backup codes by `codes`, at `at`. Returns `false` and changes nothing without an enabled factor.
    async fn replace_backup_codes(
        &self,
        user: &UserId,
        codes: &[CodeHash],
        at: Timestamp,
    ) -> Result<bool, TwoFactorStoreError>;

    /// When the backup codes were replaced last; `None` if they are those of the enrollment, or if there are none. A
    /// store that does not record it returns [`Timestamp::MAX`]: an undo of a change of address then removes them.
    async fn backup_codes_replaced_at(&self, user: &UserId) -> Result<Option<Timestamp>, TwoFactorStoreError> {
        let _ = user;
        Ok(Some(Timestamp::MAX))
    }

    /// Removes the factor, enabled or begun, and the backup codes; `false` if there was none.
    async fn remove(&self, user: &UserId) -> Result<bool, TwoFactorStoreError>;

    /// Enables factors in transactions of the service's database. Absent: a factor is enabled before its session is marked, and
    /// removed again if that fails.
    fn within(self: Arc<Self>) -> Option<Arc<dyn TwoFactorsWithin>> {
        None
    }

    /// Whether factors are lost when the process ends. Outside dev mode this must be allowed by
    /// `allow_in_memory_stores`.
    fn in_memory(&self) -> bool {
        false
    }
}

/// Enables factors within the caller's transaction.
#[async_trait]
pub trait TwoFactorsWithin: Send + Sync {
    /// The database whose transactions the other method accepts.
    fn database(&self) -> &Db;

    /// As [`TwoFactorStore::enable`].
    async fn enable(
        &self,
        tx: &Tx,
        user: &UserId,
        secret: &TotpSecret,
        step: i64,
        codes: &[CodeHash],
    ) -> Result<bool, Error>;
}

/// A user's second factor.
#[derive(Debug, Clone)]
pub struct Factor {
    /// The secret from which codes are computed.
    pub secret: TotpSecret,
    /// Whether it was confirmed with a first code. If not, sign-ins do not require it yet.
    pub enabled: bool,
    /// Where and when its enrollment began, as given to [`begin`](TwoFactorStore::begin). Without it, an enrollment that
    /// is not confirmed must be begun again.
    pub begun: Option<Begun>,
}

/// Where and when an enrollment began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The session. Only it can confirm the enrollment.
    pub session: SessionId,
    /// When.
    pub at: Timestamp,
}

/// The store of second factors failed, so the result is unknown.
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

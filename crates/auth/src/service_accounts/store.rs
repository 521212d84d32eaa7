use async_trait::async_trait;
use gatewright_base::{Roles, ServiceId};
use jiff::Timestamp;

use crate::users::BoxError;

/// Stores service accounts. [`SqlServiceAccountStore`](super::SqlServiceAccountStore) is the built-in one.
#[async_trait]
pub trait ServiceAccountStore: Send + Sync + 'static {
    /// Stores a new account. If several concurrent calls have the same name, exactly one returns `true`. Returns
    /// `false` and stores nothing if the name is taken.
    async fn create(&self, account: &ServiceAccount) -> Result<bool, ServiceAccountStoreError>;

    /// The account with this id. Called on every request with one of its tokens, so the column needs an index.
    async fn find(&self, id: &ServiceId) -> Result<Option<ServiceAccount>, ServiceAccountStoreError>;

    /// The accounts with these ids that exist, in any order.
    async fn find_among(&self, ids: &[ServiceId]) -> Result<Vec<ServiceAccount>, ServiceAccountStoreError> {
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            found.extend(self.find(id).await?);
        }
        Ok(found)
    }

    /// The account with this name.
    async fn find_by_name(&self, name: &str) -> Result<Option<ServiceAccount>, ServiceAccountStoreError>;

    /// All accounts, ordered by name.
    async fn list(&self) -> Result<Vec<ServiceAccount>, ServiceAccountStoreError>;

    /// Disables or enables an account; `false` if there is none.
    async fn set_disabled(
        &self,
        id: &ServiceId,
        disabled: bool,
        at: Timestamp,
    ) -> Result<bool, ServiceAccountStoreError>;

    /// Whether accounts are lost when the process ends. Outside dev mode this must be allowed by
    /// `allow_in_memory_stores`.
    fn in_memory(&self) -> bool {
        false
    }
}

/// A service account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Its identifier.
    pub id: ServiceId,
    /// Its name, unique among service accounts.
    pub name: String,
    /// Its roles.
    pub roles: Roles,
    /// Whether its tokens are refused.
    pub disabled: bool,
    /// When it was created.
    pub created_at: Timestamp,
}

/// The store of service accounts failed, so the result is unknown.
#[derive(Debug, thiserror::Error)]
#[error("the service account store failed: {0}")]
pub struct ServiceAccountStoreError(#[source] BoxError);

impl ServiceAccountStoreError {
    /// Any error of a store.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }
}

impl From<gatewright_db::Error> for ServiceAccountStoreError {
    fn from(error: gatewright_db::Error) -> Self {
        Self::new(error)
    }
}

use async_trait::async_trait;
use gatewright_base::{Roles, ServiceId};
use jiff::Timestamp;

use crate::users::BoxError;

/// Where service accounts live. [`SqlServiceAccountStore`](super::SqlServiceAccountStore) is the built-in one.
#[async_trait]
pub trait ServiceAccountStore: Send + Sync + 'static {
    /// Keeps a new account. Of any number of concurrent calls with one name exactly one gets `true`; `false`, and nothing
    /// kept, if the name is taken.
    async fn create(&self, account: &ServiceAccount) -> Result<bool, ServiceAccountStoreError>;

    /// The account with this id. Asked for on every request that bears one of its tokens: an index belongs here.
    async fn find(&self, id: &ServiceId) -> Result<Option<ServiceAccount>, ServiceAccountStoreError>;

    /// Those of the accounts with these ids that exist, in any order.
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

    /// Whether accounts are lost with the process. Outside dev mode that must be allowed in so many words.
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
    /// What it may do.
    pub roles: Roles,
    /// Whether its tokens are refused.
    pub disabled: bool,
    /// When it was created.
    pub created_at: Timestamp,
}

/// The store of service accounts could not do its work, so nothing is known.
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

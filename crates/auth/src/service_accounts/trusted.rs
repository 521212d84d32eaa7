use std::sync::Arc;

use gatewright_base::{Roles, ServiceId};

use super::{ServiceAccount, ServiceAccountStore, ServiceAccountStoreError};
use crate::core::Core;
use crate::label::{InvalidLabel, Label};

/// Management of service accounts for trusted server code: a command line, a host's own program. No route calls it.
/// From [`Auth::service_accounts`](crate::Auth::service_accounts).
#[derive(Clone)]
pub struct ServiceAccounts {
    core: Arc<Core>,
    store: Arc<dyn ServiceAccountStore>,
}

/// Why a service account was not managed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceAccountError {
    /// The name is invalid.
    #[error("the name {0}")]
    Name(#[from] InvalidLabel),
    /// Another account has the name.
    #[error("there is a service account of that name already")]
    NameTaken,
    /// The account does not exist.
    #[error("there is no such service account")]
    NotFound,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] ServiceAccountStoreError),
}

impl ServiceAccounts {
    pub(crate) fn new(core: Arc<Core>) -> Option<Self> {
        let store = core.tokens.as_ref()?.services.clone();
        Some(Self { core, store })
    }

    /// Creates an account, enabled.
    pub async fn create(&self, name: &str, roles: Roles) -> Result<ServiceAccount, ServiceAccountError> {
        let name = Label::parse(name)?;
        let account = ServiceAccount {
            id: ServiceId::generate(&self.core.ambient),
            name: name.as_str().to_owned(),
            roles,
            disabled: false,
            created_at: self.core.ambient.now(),
        };
        if self.store.create(&account).await? { Ok(account) } else { Err(ServiceAccountError::NameTaken) }
    }

    /// The account with this name.
    pub async fn find(&self, name: &str) -> Result<ServiceAccount, ServiceAccountError> {
        self.store.find_by_name(name.trim()).await?.ok_or(ServiceAccountError::NotFound)
    }

    /// The account with this id.
    pub async fn find_by_id(&self, id: &ServiceId) -> Result<ServiceAccount, ServiceAccountError> {
        self.store.find(id).await?.ok_or(ServiceAccountError::NotFound)
    }

    /// The accounts with these ids that exist, in any order.
    pub async fn find_among(&self, ids: &[ServiceId]) -> Result<Vec<ServiceAccount>, ServiceAccountError> {
        Ok(self.store.find_among(ids).await?)
    }

    /// All accounts, ordered by name.
    pub async fn list(&self) -> Result<Vec<ServiceAccount>, ServiceAccountError> {
        Ok(self.store.list().await?)
    }

    /// Refuses the account's tokens from the next request on.
    pub async fn disable(&self, id: &ServiceId) -> Result<(), ServiceAccountError> {
        self.set_disabled(id, true).await
    }

    /// Accepts the account's tokens again, except those that are revoked.
    pub async fn enable(&self, id: &ServiceId) -> Result<(), ServiceAccountError> {
        self.set_disabled(id, false).await
    }

    async fn set_disabled(&self, id: &ServiceId, disabled: bool) -> Result<(), ServiceAccountError> {
        let found = self.store.set_disabled(id, disabled, self.core.ambient.now()).await?;
        if found { Ok(()) } else { Err(ServiceAccountError::NotFound) }
    }
}

impl std::fmt::Debug for ServiceAccounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceAccounts").finish_non_exhaustive()
    }
}

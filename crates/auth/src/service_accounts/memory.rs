use std::collections::BTreeMap;

use async_trait::async_trait;
use gatewright_base::ServiceId;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{ServiceAccount, ServiceAccountStore, ServiceAccountStoreError};

/// Service accounts in this process's memory, lost when it ends.
#[derive(Debug, Default)]
pub struct MemoryServiceAccountStore {
    /// By name, which is also the order of listings.
    accounts: Mutex<BTreeMap<String, ServiceAccount>>,
}

impl MemoryServiceAccountStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes an account. Its tokens are refused from now on.
    pub fn delete(&self, id: &ServiceId) {
        self.accounts.lock().retain(|_, account| account.id != *id);
    }
}

#[async_trait]
impl ServiceAccountStore for MemoryServiceAccountStore {
    async fn create(&self, account: &ServiceAccount) -> Result<bool, ServiceAccountStoreError> {
        let mut accounts = self.accounts.lock();
        let free = !accounts.contains_key(&account.name);
        if free {
            accounts.insert(account.name.clone(), account.clone());
        }
        Ok(free)
    }

    async fn find(&self, id: &ServiceId) -> Result<Option<ServiceAccount>, ServiceAccountStoreError> {
        Ok(self.accounts.lock().values().find(|account| account.id == *id).cloned())
    }

    async fn find_by_name(&self, name: &str) -> Result<Option<ServiceAccount>, ServiceAccountStoreError> {
        Ok(self.accounts.lock().get(name).cloned())
    }

    async fn list(&self) -> Result<Vec<ServiceAccount>, ServiceAccountStoreError> {
        Ok(self.accounts.lock().values().cloned().collect())
    }

    async fn set_disabled(
        &self,
        id: &ServiceId,
        disabled: bool,
        _: Timestamp,
    ) -> Result<bool, ServiceAccountStoreError> {
        let mut accounts = self.accounts.lock();
        let account = accounts.values_mut().find(|account| account.id == *id);
        Ok(account.map(|account| account.disabled = disabled).is_some())
    }

    fn in_memory(&self) -> bool {
        true
    }
}

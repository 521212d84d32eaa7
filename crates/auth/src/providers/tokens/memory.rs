use std::collections::HashMap;

use async_trait::async_trait;
use gatewright_base::UserId;
use parking_lot::Mutex;

use super::{OAuthTokenRecord, OAuthTokenStore, OAuthTokenStoreError};

/// Provider tokens in this process's memory, lost when it ends.
#[derive(Debug, Default)]
pub struct MemoryOAuthTokenStore(Mutex<HashMap<(UserId, String), OAuthTokenRecord>>);

impl MemoryOAuthTokenStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl OAuthTokenStore for MemoryOAuthTokenStore {
    async fn put(&self, record: &OAuthTokenRecord) -> Result<(), OAuthTokenStoreError> {
        let mut records = self.0.lock();
        let key = (record.user_id.clone(), record.provider.clone());
        let mut record = record.clone();
        let present = records.get(&key).filter(|present| present.provider_id == record.provider_id);
        record.refresh_token =
            record.refresh_token.or_else(|| present.and_then(|present| present.refresh_token.clone()));
        records.insert(key, record);
        Ok(())
    }

    async fn find(&self, user: &UserId, provider: &str) -> Result<Option<OAuthTokenRecord>, OAuthTokenStoreError> {
        Ok(self.0.lock().get(&(user.clone(), provider.to_owned())).cloned())
    }

    async fn replace(&self, old: &OAuthTokenRecord, new: &OAuthTokenRecord) -> Result<bool, OAuthTokenStoreError> {
        let mut records = self.0.lock();
        let present = records.get_mut(&(old.user_id.clone(), old.provider.clone()));
        let unchanged = present.filter(|present| present.access_token == old.access_token);
        Ok(unchanged.map(|present| present.clone_from(new)).is_some())
    }

    async fn remove(&self, user: &UserId, provider: Option<&str>) -> Result<u64, OAuthTokenStoreError> {
        let mut records = self.0.lock();
        let before = records.len();
        records.retain(|(owner, name), _| owner != user || provider.is_some_and(|provider| name != provider));
        Ok((before - records.len()) as u64)
    }

    fn in_memory(&self) -> bool {
        true
    }
}

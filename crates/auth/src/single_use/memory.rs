use std::collections::HashMap;

use async_trait::async_trait;
use gatewright_base::UserId;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{IssuedToken, Purpose, SingleUseStore, SingleUseStoreError, TokenKey};
use crate::email::EmailAddress;

/// Single-use tokens in this process's memory, lost when it ends.
#[derive(Debug, Default)]
pub struct MemorySingleUseStore(Mutex<HashMap<TokenKey, IssuedToken>>);

impl MemorySingleUseStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl SingleUseStore for MemorySingleUseStore {
    async fn put(&self, token: &IssuedToken, now: Timestamp) -> Result<(), SingleUseStoreError> {
        let mut tokens = self.0.lock();
        // The map doubles when it is full; removing expired entries just before keeps it small, at constant cost.
        if tokens.len() == tokens.capacity() {
            tokens.retain(|_, token| token.expires_at > now);
        }
        tokens.insert(token.key, token.clone());
        Ok(())
    }

    async fn find(&self, key: &TokenKey, purpose: Purpose) -> Result<Option<IssuedToken>, SingleUseStoreError> {
        Ok(self.0.lock().get(key).filter(|token| token.purpose == purpose).cloned())
    }

    async fn spend(&self, key: &TokenKey, purpose: Purpose, now: Timestamp) -> Result<bool, SingleUseStoreError> {
        let mut tokens = self.0.lock();
        let live = tokens.get_mut(key).filter(|token| token.purpose == purpose && token.is_live(now));
        Ok(live.map(|token| token.spent = true).is_some())
    }

    async fn remove(
        &self,
        user: &UserId,
        email: &EmailAddress,
        purpose: Option<Purpose>,
    ) -> Result<u64, SingleUseStoreError> {
        let mut tokens = self.0.lock();
        let before = tokens.len();
        let theirs = |token: &IssuedToken| token.email == *email || token.user_id.as_ref() == Some(user);
        tokens.retain(|_, token| !theirs(token) || purpose.is_some_and(|purpose| token.purpose != purpose));
        Ok((before - tokens.len()) as u64)
    }

    async fn sweep(&self, now: Timestamp, _: u32) -> Result<u64, SingleUseStoreError> {
        let mut tokens = self.0.lock();
        let before = tokens.len();
        tokens.retain(|_, token| token.expires_at > now);
        Ok((before - tokens.len()) as u64)
    }

    fn in_memory(&self) -> bool {
        true
    }
}

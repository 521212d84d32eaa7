use std::collections::HashMap;

use async_trait::async_trait;
use gatewright_base::UserId;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{Begun, CodeHash, Factor, TotpSecret, TwoFactorStore, TwoFactorStoreError};

/// Second factors in this process's memory, lost when it ends.
#[derive(Debug, Default)]
pub struct MemoryTwoFactorStore(Mutex<HashMap<UserId, Entry>>);

#[derive(Debug)]
struct Entry {
    factor: Factor,
    last_step: i64,
    codes: Vec<CodeHash>,
    codes_replaced_at: Option<Timestamp>,
}

impl MemoryTwoFactorStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Does `work` on the user's enabled factor; `false` without one.
    fn with_enabled(&self, user: &UserId, work: impl FnOnce(&mut Entry) -> bool) -> bool {
        self.0.lock().get_mut(user).filter(|entry| entry.factor.enabled).is_some_and(work)
    }
}

#[async_trait]
impl TwoFactorStore for MemoryTwoFactorStore {
    async fn find(&self, user: &UserId) -> Result<Option<Factor>, TwoFactorStoreError> {
        Ok(self.0.lock().get(user).map(|entry| entry.factor.clone()))
    }

    async fn begin(&self, user: &UserId, secret: &TotpSecret, begun: &Begun) -> Result<bool, TwoFactorStoreError> {
        let mut entries = self.0.lock();
        if entries.get(user).is_some_and(|entry| entry.factor.enabled) {
            return Ok(false);
        }
        let factor = Factor { secret: secret.clone(), enabled: false, begun: Some(begun.clone()) };
        entries.insert(user.clone(), Entry { factor, last_step: 0, codes: Vec::new(), codes_replaced_at: None });
        Ok(true)
    }

    async fn enable(
        &self,
        user: &UserId,
        secret: &TotpSecret,
        step: i64,
        codes: &[CodeHash],
    ) -> Result<bool, TwoFactorStoreError> {
        let mut entries = self.0.lock();
        let begun = entries.get_mut(user).filter(|entry| !entry.factor.enabled && entry.factor.secret == *secret);
        let Some(entry) = begun else { return Ok(false) };
        entry.factor.enabled = true;
        entry.last_step = step;
        entry.codes = codes.to_vec();
        Ok(true)
    }

    async fn spend_step(&self, user: &UserId, secret: &TotpSecret, step: i64) -> Result<bool, TwoFactorStoreError> {
        Ok(self.with_enabled(user, |entry| {
            let fresh = entry.factor.secret == *secret && entry.last_step < step;
            if fresh {
                entry.last_step = step;
            }
            fresh
        }))
    }

    async fn spend_backup_code(&self, user: &UserId, code: &CodeHash) -> Result<bool, TwoFactorStoreError> {
        Ok(self.with_enabled(user, |entry| {
            let before = entry.codes.len();
            entry.codes.retain(|kept| kept != code);
            entry.codes.len() < before
        }))
    }

    async fn replace_backup_codes(
        &self,
        user: &UserId,
        codes: &[CodeHash],
        at: Timestamp,
    ) -> Result<bool, TwoFactorStoreError> {
        Ok(self.with_enabled(user, |entry| {
            entry.codes = codes.to_vec();
            entry.codes_replaced_at = Some(at);
            true
        }))
    }

    async fn backup_codes_replaced_at(&self, user: &UserId) -> Result<Option<Timestamp>, TwoFactorStoreError> {
        let replaced_at = |entry: &Entry| entry.codes_replaced_at.filter(|_| !entry.codes.is_empty());
        Ok(self.0.lock().get(user).and_then(replaced_at))
    }

    async fn remove(&self, user: &UserId) -> Result<bool, TwoFactorStoreError> {
        Ok(self.0.lock().remove(user).is_some())
    }

    fn in_memory(&self) -> bool {
        true
    }
}

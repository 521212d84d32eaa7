use std::collections::HashMap;

use async_trait::async_trait;
use gatewright_base::UserId;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{Added, Passkey, PasskeyStore, PasskeyStoreError};
use crate::label::Label;

/// Passkeys in memory: for tests and dev mode.
#[derive(Debug, Default)]
pub struct MemoryPasskeyStore(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    passkeys: Vec<Passkey>,
    spent: HashMap<[u8; 32], Timestamp>,
}

impl MemoryPasskeyStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl PasskeyStore for MemoryPasskeyStore {
    async fn find(&self, credential_id: &[u8]) -> Result<Option<Passkey>, PasskeyStoreError> {
        Ok(self.0.lock().passkeys.iter().find(|passkey| passkey.credential_id == credential_id).cloned())
    }

    async fn list(&self, user: &UserId) -> Result<Vec<Passkey>, PasskeyStoreError> {
        Ok(self.0.lock().passkeys.iter().filter(|passkey| passkey.user == *user).cloned().collect())
    }

    async fn add(&self, passkey: &Passkey, most: u32) -> Result<Added, PasskeyStoreError> {
        let kept = &mut self.0.lock().passkeys;
        let count = kept.iter().filter(|other| other.user == passkey.user).count();
        if count >= usize::try_from(most).unwrap_or(usize::MAX) {
            return Ok(Added::TooMany);
        }
        if kept.iter().any(|other| other.credential_id == passkey.credential_id) {
            return Ok(Added::Taken);
        }
        kept.push(passkey.clone());
        Ok(Added::Done)
    }

    async fn used(&self, id: &str, counter: u32, backed_up: bool, at: Timestamp) -> Result<bool, PasskeyStoreError> {
        let kept = &mut self.0.lock().passkeys;
        let Some(passkey) = kept.iter_mut().find(|passkey| passkey.id == id) else { return Ok(false) };
        if passkey.counter >= counter && (passkey.counter, counter) != (0, 0) {
            return Ok(false);
        }
        (passkey.counter, passkey.backed_up, passkey.last_used_at) = (counter, backed_up, Some(at));
        Ok(true)
    }

    async fn rename(&self, user: &UserId, id: &str, name: &Label) -> Result<bool, PasskeyStoreError> {
        let kept = &mut self.0.lock().passkeys;
        let found = kept.iter_mut().find(|passkey| passkey.id == id && passkey.user == *user);
        Ok(found.map(|passkey| passkey.name = name.clone()).is_some())
    }

    async fn remove(&self, user: &UserId, id: &str) -> Result<Option<Passkey>, PasskeyStoreError> {
        let kept = &mut self.0.lock().passkeys;
        let index = kept.iter().position(|passkey| passkey.id == id && passkey.user == *user);
        Ok(index.map(|index| kept.remove(index)))
    }

    async fn remove_all(&self, user: &UserId, since: Option<Timestamp>) -> Result<u64, PasskeyStoreError> {
        let kept = &mut self.0.lock().passkeys;
        let before = kept.len();
        kept.retain(|passkey| passkey.user != *user || since.is_some_and(|since| passkey.created_at < since));
        Ok(u64::try_from(before - kept.len()).unwrap_or(u64::MAX))
    }

    async fn spend(
        &self,
        challenge: &[u8; 32],
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<bool, PasskeyStoreError> {
        let spent = &mut self.0.lock().spent;
        spent.retain(|_, expires_at| *expires_at > now);
        Ok(spent.insert(*challenge, expires_at).is_none())
    }

    fn in_memory(&self) -> bool {
        true
    }
}

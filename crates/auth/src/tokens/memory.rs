use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Subject, TokenId};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{DelegatedTokens, Delegation, StoredToken, TokenHash, TokenStore, TokenStoreError};

/// API tokens in this process's memory, lost when it ends.
#[derive(Debug, Default)]
pub struct MemoryTokenStore(Mutex<HashMap<TokenHash, StoredToken>>);

impl MemoryTokenStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Revokes the live tokens that are `wanted` and counts them.
    fn revoke_where(&self, at: Timestamp, wanted: impl Fn(&StoredToken) -> bool) -> u64 {
        let mut tokens = self.0.lock();
        let wanted = tokens.values_mut().filter(|token| token.revoked_at.is_none() && wanted(token));
        wanted.map(|token| token.revoked_at = Some(at)).count() as u64
    }
}

#[async_trait]
impl TokenStore for MemoryTokenStore {
    async fn create(&self, token: &StoredToken, hash: &TokenHash, most: Option<u32>) -> Result<bool, TokenStoreError> {
        let mut tokens = self.0.lock();
        if let Some(most) = most
            && !has_room(&mut tokens, &token.owner, most, token.created_at)
        {
            return Ok(false);
        }
        // The map doubles when it is full; removing expired entries just before keeps it small, at constant cost.
        if tokens.len() == tokens.capacity() {
            tokens.retain(|_, kept| kept.revoked_at.is_none());
        }
        tokens.insert(*hash, token.clone());
        Ok(true)
    }

    async fn find(&self, hash: &TokenHash) -> Result<Option<StoredToken>, TokenStoreError> {
        Ok(self.0.lock().get(hash).cloned())
    }

    async fn list(&self, owner: Option<&Subject>) -> Result<Vec<StoredToken>, TokenStoreError> {
        let tokens = self.0.lock();
        let live = tokens.values().filter(|token| token.revoked_at.is_none() && token.delegation.is_none());
        let mut list: Vec<_> = live.filter(|token| owner.is_none_or(|owner| token.owner == *owner)).cloned().collect();
        list.sort_by_key(|token| Reverse((token.created_at, token.id.clone())));
        Ok(list)
    }

    async fn revoke(&self, owner: Option<&Subject>, id: &TokenId, at: Timestamp) -> Result<bool, TokenStoreError> {
        let theirs = |token: &StoredToken| token.id == *id && owner.is_none_or(|owner| token.owner == *owner);
        Ok(self.revoke_where(at, theirs) > 0)
    }

    async fn revoke_all(&self, owner: &Subject, at: Timestamp) -> Result<u64, TokenStoreError> {
        Ok(self.revoke_where(at, |token| token.owner == *owner))
    }

    async fn remove_all(&self, owner: &Subject) -> Result<u64, TokenStoreError> {
        let mut tokens = self.0.lock();
        let before = tokens.len();
        tokens.retain(|_, token| token.owner != *owner);
        Ok(u64::try_from(before - tokens.len()).unwrap_or(u64::MAX))
    }

    async fn touch(&self, uses: &[(TokenId, Timestamp)]) -> Result<(), TokenStoreError> {
        let uses: HashMap<_, _> = uses.iter().map(|(id, at)| (id, *at)).collect();
        for token in self.0.lock().values_mut() {
            token.last_used_at = token.last_used_at.max(uses.get(&token.id).copied());
        }
        Ok(())
    }

    fn delegated_tokens(self: Arc<Self>) -> Option<Arc<dyn DelegatedTokens>> {
        Some(self)
    }

    fn in_memory(&self) -> bool {
        true
    }
}

fn has_room(tokens: &mut HashMap<TokenHash, StoredToken>, owner: &Subject, most: u32, now: Timestamp) -> bool {
    let counts =
        |token: &StoredToken| token.owner == *owner && token.revoked_at.is_none() && token.delegation.is_none();
    let is_below = |count: usize| u32::try_from(count).is_ok_and(|count| count < most);
    let mut count = tokens.values().filter(|token| counts(token)).count();
    if !is_below(count) {
        for token in tokens.values_mut().filter(|token| counts(token) && token.is_expired(now)) {
            token.revoked_at = Some(now);
            count -= 1;
        }
    }
    is_below(count)
}

#[async_trait]
impl DelegatedTokens for MemoryTokenStore {
    async fn revoke_of_grant(&self, grant: &str, keep: u32, at: Timestamp) -> Result<u64, TokenStoreError> {
        let of_grant = |token: &StoredToken| token.delegation.as_ref().is_some_and(|found| found.grant == grant);
        let newest: Vec<TokenId> = {
            let tokens = self.0.lock();
            let mut live: Vec<_> = tokens.values().filter(|t| t.revoked_at.is_none() && of_grant(t)).collect();
            live.sort_by_key(|token| Reverse((token.created_at, token.id.clone())));
            live.iter().take(keep as usize).map(|token| token.id.clone()).collect()
        };
        Ok(self.revoke_where(at, |token| of_grant(token) && !newest.contains(&token.id)))
    }

    async fn revoke_of_client(&self, client: &str, at: Timestamp) -> Result<u64, TokenStoreError> {
        let of_client = |found: &Delegation| found.client == client;
        Ok(self.revoke_where(at, |token| token.delegation.as_ref().is_some_and(of_client)))
    }
}

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Ambient, SessionId, UserId};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::store::Standing;
use super::{
    MAX_PER_USER, NewSession, PendingMarker, SessionKey, SessionStore, SessionStoreError, StoredSession,
    TwoFactorMarker,
};

/// Sessions in this process's memory, lost when it ends. It has every capability.
#[derive(Debug)]
pub struct MemorySessionStore {
    ambient: Ambient,
    sessions: Mutex<HashMap<SessionKey, StoredSession>>,
}

impl MemorySessionStore {
    /// An empty store.
    pub fn new(ambient: Ambient) -> Self {
        Self { ambient, sessions: Mutex::default() }
    }

    fn insert(&self, new: &NewSession, standing: Standing) {
        let now = self.ambient.now();
        let mut sessions = self.sessions.lock();
        // The map doubles when it is full; removing expired entries just before keeps it small, at constant cost.
        if sessions.len() == sessions.capacity() {
            sessions.retain(|_, session| session.expires_at > now);
        }
        sessions.insert(*new.key(), stored(new, standing));
        let theirs = |session: &StoredSession| {
            session.user_id == *new.user_id()
                && session.pending_two_factor == standing.is_pending()
                && session.id != *new.id()
        };
        let mut others: Vec<_> = sessions.iter().filter(|(_, session)| theirs(session)).collect();
        others.sort_by_key(|(_, session)| Reverse((session.last_seen_at, session.id.clone())));
        let beyond: Vec<_> = others.iter().skip(MAX_PER_USER as usize - 1).map(|(key, _)| **key).collect();
        sessions.retain(|key, _| !beyond.contains(key));
    }
}

fn stored(new: &NewSession, standing: Standing) -> StoredSession {
    StoredSession {
        id: new.id().clone(),
        user_id: new.user_id().clone(),
        started_at: new.started_at(),
        last_seen_at: new.started_at(),
        expires_at: new.expires_at(),
        client: new.client().clone(),
        pending_two_factor: standing.is_pending(),
        two_factor_verified: standing.is_verified(),
    }
}

#[async_trait]
impl SessionStore for MemorySessionStore {
    async fn create(&self, session: &NewSession) -> Result<(), SessionStoreError> {
        self.insert(session, Standing::Full);
        Ok(())
    }

    async fn find(&self, key: &SessionKey) -> Result<Option<StoredSession>, SessionStoreError> {
        Ok(self.sessions.lock().get(key).cloned())
    }

    async fn take(&self, key: &SessionKey) -> Result<Option<StoredSession>, SessionStoreError> {
        Ok(self.sessions.lock().remove(key))
    }

    async fn touch(&self, id: &SessionId, at: Timestamp) -> Result<(), SessionStoreError> {
        if let Some(session) = self.sessions.lock().values_mut().find(|session| session.id == *id) {
            session.last_seen_at = session.last_seen_at.max(at);
        }
        Ok(())
    }

    async fn list(&self, user: &UserId) -> Result<Vec<StoredSession>, SessionStoreError> {
        let mut list: Vec<_> =
            self.sessions.lock().values().filter(|session| session.user_id == *user).cloned().collect();
        list.sort_by_key(|session| Reverse((session.last_seen_at, session.id.clone())));
        Ok(list)
    }

    async fn remove(&self, user: &UserId, id: &SessionId) -> Result<bool, SessionStoreError> {
        let mut sessions = self.sessions.lock();
        let before = sessions.len();
        sessions.retain(|_, session| session.user_id != *user || session.id != *id);
        Ok(sessions.len() < before)
    }

    async fn remove_all(&self, user: &UserId, keep: Option<&SessionId>) -> Result<u64, SessionStoreError> {
        let mut sessions = self.sessions.lock();
        let before = sessions.len();
        sessions.retain(|_, session| session.user_id != *user || Some(&session.id) == keep);
        Ok((before - sessions.len()) as u64)
    }

    async fn sweep(&self, now: Timestamp, _: u32) -> Result<u64, SessionStoreError> {
        let mut sessions = self.sessions.lock();
        let before = sessions.len();
        sessions.retain(|_, session| session.expires_at > now);
        Ok((before - sessions.len()) as u64)
    }

    fn in_memory(&self) -> bool {
        true
    }
    fn pending_marker(self: Arc<Self>) -> Option<Arc<dyn PendingMarker>> {
        Some(self)
    }
    fn two_factor_marker(self: Arc<Self>) -> Option<Arc<dyn TwoFactorMarker>> {
        Some(self)
    }
}

#[async_trait]
impl PendingMarker for MemorySessionStore {
    async fn create_pending(&self, session: &NewSession) -> Result<(), SessionStoreError> {
        self.insert(session, Standing::Pending);
        Ok(())
    }
}

#[async_trait]
impl TwoFactorMarker for MemorySessionStore {
    async fn complete(&self, old: &SessionId, new: &NewSession) -> Result<bool, SessionStoreError> {
        let mut sessions = self.sessions.lock();
        let key =
            sessions.iter().find(|(_, session)| session.id == *old && session.pending_two_factor).map(|(key, _)| *key);
        let Some(key) = key else { return Ok(false) };
        sessions.remove(&key);
        sessions.insert(*new.key(), stored(new, Standing::Verified));
        Ok(true)
    }

    async fn mark_verified(&self, user: &UserId, id: &SessionId) -> Result<bool, SessionStoreError> {
        let mut sessions = self.sessions.lock();
        let mut found = false;
        for session in sessions.values_mut().filter(|session| session.user_id == *user) {
            session.two_factor_verified = session.id == *id && !session.pending_two_factor;
            found |= session.two_factor_verified;
        }
        Ok(found)
    }
}

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{SessionId, UserId};
use gatewright_db::{Db, Error, Tx};
use jiff::Timestamp;

use super::SessionKey;
use crate::users::BoxError;

/// Stores sessions. [`SqlSessionStore`](super::SqlSessionStore) is the built-in one.
///
/// A store only keeps the sessions that [`Mint`](super::Mint) creates. It does not decide who may have a session,
/// whether a session is pending or whether it is still valid.
#[async_trait]
pub trait SessionStore: Send + Sync + 'static {
    /// Stores a session without a pending second factor.
    async fn create(&self, session: &NewSession) -> Result<(), SessionStoreError>;

    /// The session with this key, expired or not.
    async fn find(&self, key: &SessionKey) -> Result<Option<StoredSession>, SessionStoreError>;

    /// Removes the session with this key and returns it, if there was one.
    async fn take(&self, key: &SessionKey) -> Result<Option<StoredSession>, SessionStoreError>;

    /// Records that the session was used. Does nothing if the session is gone.
    async fn touch(&self, id: &SessionId, at: Timestamp) -> Result<(), SessionStoreError>;

    /// The sessions of a user, most recently used first.
    async fn list(&self, user: &UserId) -> Result<Vec<StoredSession>, SessionStoreError>;

    /// The session of this user with this id, expired or not. The default implementation searches [`list`](Self::list).
    async fn find_of(&self, user: &UserId, id: &SessionId) -> Result<Option<StoredSession>, SessionStoreError> {
        Ok(self.list(user).await?.into_iter().find(|session| session.id == *id))
    }

    /// Removes one session of this user; `false` if they have none with this id.
    async fn remove(&self, user: &UserId, id: &SessionId) -> Result<bool, SessionStoreError>;

    /// Replaces the session `old`, whose second factor is not pending, by `new` in one write. `Some(false)` and nothing stored if
    /// `old` was not stored. `None` and nothing done by a store that has no such write: then `new` is created first, and removed
    /// again if `old` was not stored.
    async fn replace(
        &self,
        old: &SessionId,
        new: &NewSession,
        verified: bool,
    ) -> Result<Option<bool>, SessionStoreError> {
        let _ = (old, new, verified);
        Ok(None)
    }

    /// Removes every session of a user except `keep`, and returns how many there were.
    async fn remove_all(&self, user: &UserId, keep: Option<&SessionId>) -> Result<u64, SessionStoreError>;

    /// Removes sessions that expired at or before `now`, at most `limit` of them, and returns how many there were. A
    /// store that expires sessions itself need not implement it.
    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64, SessionStoreError> {
        let _ = (now, limit);
        Ok(0)
    }

    /// Whether sessions are lost when the process ends. Outside dev mode this must be allowed by
    /// `allow_in_memory_stores`.
    fn in_memory(&self) -> bool {
        false
    }

    /// Stores sessions whose second factor is pending. Absent: users with a second factor cannot sign in.
    fn pending_marker(self: Arc<Self>) -> Option<Arc<dyn PendingMarker>> {
        None
    }

    /// Records that a second factor was proven. Absent: no session ever counts as verified.
    fn two_factor_marker(self: Arc<Self>) -> Option<Arc<dyn TwoFactorMarker>> {
        None
    }
}

/// Stores sessions whose second factor is pending.
#[async_trait]
pub trait PendingMarker: Send + Sync {
    /// Stores a session and its mark in one write.
    async fn create_pending(&self, session: &NewSession) -> Result<(), SessionStoreError>;
}

/// Records that a second factor was proven.
#[async_trait]
pub trait TwoFactorMarker: Send + Sync {
    /// Replaces the pending session `old` by `new`, which is verified. Returns `false` and stores nothing if `old` was
    /// not stored: of concurrent calls one succeeds.
    async fn complete(&self, old: &SessionId, new: &NewSession) -> Result<bool, SessionStoreError>;

    /// Marks a session of this user as verified, and all their other ones as not verified; `false` if it is pending or
    /// not stored.
    async fn mark_verified(&self, user: &UserId, id: &SessionId) -> Result<bool, SessionStoreError>;

    /// Marks sessions in transactions of the service's database. Absent: a second factor is stored before its session is marked,
    /// and removed again if that fails.
    fn within(self: Arc<Self>) -> Option<Arc<dyn TwoFactorMarkerWithin>> {
        None
    }
}

/// Marks sessions within the caller's transaction.
#[async_trait]
pub trait TwoFactorMarkerWithin: Send + Sync {
    /// The database whose transactions the other method accepts.
    fn database(&self) -> &Db;

    /// As [`TwoFactorMarker::mark_verified`].
    async fn mark_verified(&self, tx: &Tx, user: &UserId, id: &SessionId) -> Result<bool, Error>;
}

/// A session to be stored. Only [`Mint`](super::Mint) creates one.
#[derive(Debug)]
pub struct NewSession {
    pub(super) id: SessionId,
    pub(super) key: SessionKey,
    pub(super) user_id: UserId,
    pub(super) started_at: Timestamp,
    pub(super) expires_at: Timestamp,
    pub(super) client: Client,
}

impl NewSession {
    /// Its public identifier.
    pub fn id(&self) -> &SessionId {
        &self.id
    }
    /// The hash of its secret, by which it is looked up. Unique.
    pub fn key(&self) -> &SessionKey {
        &self.key
    }
    /// Its user.
    pub fn user_id(&self) -> &UserId {
        &self.user_id
    }
    /// When its user authenticated. It also counts as used then.
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }
    /// When it expires, even if it is used.
    pub fn expires_at(&self) -> Timestamp {
        self.expires_at
    }
    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

/// The client of a sign-in, for the user's own list of sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Client {
    address: Option<IpAddr>,
    user_agent: Option<String>,
}

impl Client {
    /// Keeps at most 256 characters of the user agent, without control characters.
    pub fn new(address: Option<IpAddr>, user_agent: Option<&str>) -> Self {
        let printable = |text: &str| text.chars().filter(|c| !c.is_control()).take(256).collect::<String>();
        Self { address, user_agent: user_agent.map(printable).filter(|text| !text.is_empty()) }
    }
    /// The address.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }
    /// The user agent.
    pub fn user_agent(&self) -> Option<&str> {
        self.user_agent.as_deref()
    }
}

/// A session in a store. It contains no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSession {
    /// Its public identifier.
    pub id: SessionId,
    /// Its user.
    pub user_id: UserId,
    /// When its user authenticated.
    pub started_at: Timestamp,
    /// When it was last used, to within a few minutes.
    pub last_seen_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
    /// The client that began it.
    pub client: Client,
    /// The second factor is pending.
    pub pending_two_factor: bool,
    /// A second factor was proven in it.
    pub two_factor_verified: bool,
}

/// The stored form of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// The second factor is pending.
    Pending,
    /// Not pending, and no second factor was proven in it.
    Full,
    /// Not pending, and a second factor was proven in it.
    Verified,
}

impl Standing {
    pub(super) fn is_pending(self) -> bool {
        self == Self::Pending
    }
    pub(super) fn is_verified(self) -> bool {
        self == Self::Verified
    }
}

/// The session store failed, so the result is unknown.
#[derive(Debug, thiserror::Error)]
#[error("the session store failed: {0}")]
pub struct SessionStoreError(#[source] BoxError);

impl SessionStoreError {
    /// Any error of a store.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }

    /// Whether its cause is an error of this type.
    pub(super) fn is<E: std::error::Error + 'static>(&self) -> bool {
        self.0.is::<E>()
    }
}

impl From<gatewright_db::Error> for SessionStoreError {
    fn from(error: gatewright_db::Error) -> Self {
        Self::new(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_agent_is_cut_and_cleaned() {
        let long = format!("a\r\n\u{1b}[31m{}", "b".repeat(1000));
        let client = Client::new(None, Some(&long));
        assert_eq!(client.user_agent().map(str::len), Some(256));
        assert!(!client.user_agent().unwrap().contains(char::is_control));
        assert_eq!(Client::new(None, Some("\r\n")).user_agent(), None);
    }
}

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use gatewright_auth::audit::{AuditEvent, AuditSink};
use gatewright_auth::session::{
    MemorySessionStore, NewSession, PendingMarker, SecondFactor, SessionKey, SessionStore, SessionStoreError,
    StoredSession, TwoFactorMarker,
};
use gatewright_auth::tokens::{MemoryTokenStore, StoredToken, TokenHash, TokenStore, TokenStoreError};
use gatewright_auth::users::{
    BoxError, EmailVerifier, MemoryUserStore, NewUser, PasswordSetter, SignOutEverywhere, User, UserStore,
    UserStoreError, UserWithHash,
};
use gatewright_auth::{Accounts, EmailAddress};
use gatewright_base::{Ambient, Roles, SessionId, Subject, TokenId, UserId};
use gatewright_db::Share;
use jiff::Timestamp;
use parking_lot::Mutex;

/// Keeps audit events for a test to read.
#[derive(Default)]
pub(crate) struct Recorder(Mutex<Vec<AuditEvent>>);

impl Recorder {
    pub(crate) fn events(&self) -> Vec<AuditEvent> {
        self.0.lock().clone()
    }
}

#[async_trait]
impl AuditSink for Recorder {
    async fn record(&self, event: AuditEvent) -> Result<(), BoxError> {
        self.0.lock().push(event);
        Ok(())
    }
}

/// A scripted second factor.
#[derive(Clone, Default)]
pub(crate) struct FakeFactor(Arc<Mutex<Factor>>);

#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum Factor {
    #[default]
    Absent,
    Enrolled,
    Broken,
}

impl FakeFactor {
    pub(crate) fn is_enrolled(&self) -> bool {
        *self.0.lock() == Factor::Enrolled
    }

    pub(crate) fn set(&self, factor: Factor) {
        *self.0.lock() = factor;
    }
}

#[async_trait]
impl SecondFactor for FakeFactor {
    async fn enabled(&self, _: &UserId) -> Result<bool, BoxError> {
        match *self.0.lock() {
            Factor::Absent => Ok(false),
            Factor::Enrolled => Ok(true),
            Factor::Broken => Err("canary-factor-table".into()),
        }
    }

    async fn remove(&self, _: &UserId) -> Result<bool, BoxError> {
        Ok(std::mem::take(&mut *self.0.lock()) == Factor::Enrolled)
    }
}

/// A host's users: in memory, counted, and unreachable at will.
pub(crate) struct Users {
    pub(crate) inner: Arc<MemoryUserStore>,
    pub(crate) down: AtomicBool,
    pub(crate) calls: AtomicUsize,
    /// Whether there is more than the four operations.
    pub(crate) able: bool,
}

impl Users {
    pub(crate) fn new(ambient: &Ambient, able: bool) -> Arc<Self> {
        let inner = Arc::new(MemoryUserStore::new(ambient.clone()));
        Arc::new(Self { inner, down: AtomicBool::default(), calls: AtomicUsize::default(), able })
    }

    fn up(&self) -> Result<&MemoryUserStore, UserStoreError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.down.load(Ordering::SeqCst) {
            return Err(UserStoreError::transport("canary-user-host unreachable"));
        }
        Ok(&self.inner)
    }
}

#[async_trait]
impl UserStore for Users {
    async fn find_by_email(&self, email: &EmailAddress) -> Result<UserWithHash, UserStoreError> {
        self.up()?.find_by_email(email).await
    }
    async fn find_by_id(&self, id: &UserId) -> Result<User, UserStoreError> {
        self.up()?.find_by_id(id).await
    }
    async fn find_among(&self, ids: &[UserId], share: Share) -> Result<Vec<User>, UserStoreError> {
        self.up()?.find_among(ids, share).await
    }
    async fn create(&self, user: NewUser) -> Result<User, UserStoreError> {
        self.up()?.create(user).await
    }
    async fn update_roles(&self, id: &UserId, roles: &Roles) -> Result<(), UserStoreError> {
        self.up()?.update_roles(id, roles).await
    }
    fn email_verifier(self: Arc<Self>) -> Option<Arc<dyn EmailVerifier>> {
        self.able.then(|| self.inner.clone() as Arc<dyn EmailVerifier>)
    }
    fn password_setter(self: Arc<Self>) -> Option<Arc<dyn PasswordSetter>> {
        self.able.then(|| self.inner.clone() as Arc<dyn PasswordSetter>)
    }
    fn sign_out_everywhere(self: Arc<Self>) -> Option<Arc<dyn SignOutEverywhere>> {
        self.able.then(|| self.inner.clone() as Arc<dyn SignOutEverywhere>)
    }
}

/// A host's sessions: in memory, counted, and unreachable at will.
pub(crate) struct Sessions {
    pub(crate) inner: Arc<MemorySessionStore>,
    pub(crate) down: AtomicBool,
    pub(crate) calls: AtomicUsize,
    /// Whether there are markers for the second factor.
    pub(crate) markers: bool,
    /// Stores the pending session and then reports a failure: the worst case of a store.
    pub(crate) marking_fails: AtomicBool,
    pub(crate) deleted: AtomicUsize,
}

impl Sessions {
    pub(crate) fn new(ambient: &Ambient, markers: bool) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::new(MemorySessionStore::new(ambient.clone())),
            down: AtomicBool::default(),
            calls: AtomicUsize::default(),
            markers,
            marking_fails: AtomicBool::default(),
            deleted: AtomicUsize::default(),
        })
    }

    fn up(&self) -> Result<&MemorySessionStore, SessionStoreError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.down.load(Ordering::SeqCst) {
            return Err(SessionStoreError::new("canary-session-host unreachable"));
        }
        Ok(&self.inner)
    }
}

#[async_trait]
impl SessionStore for Sessions {
    async fn create(&self, session: &NewSession) -> Result<(), SessionStoreError> {
        self.up()?.create(session).await
    }
    async fn find(&self, key: &SessionKey) -> Result<Option<StoredSession>, SessionStoreError> {
        self.up()?.find(key).await
    }
    async fn take(&self, key: &SessionKey) -> Result<Option<StoredSession>, SessionStoreError> {
        self.up()?.take(key).await
    }
    async fn touch(&self, id: &SessionId, at: Timestamp) -> Result<(), SessionStoreError> {
        self.up()?.touch(id, at).await
    }
    async fn list(&self, user: &UserId) -> Result<Vec<StoredSession>, SessionStoreError> {
        self.up()?.list(user).await
    }
    async fn remove(&self, user: &UserId, id: &SessionId) -> Result<bool, SessionStoreError> {
        self.deleted.fetch_add(1, Ordering::SeqCst);
        self.up()?.remove(user, id).await
    }
    async fn remove_all(&self, user: &UserId, keep: Option<&SessionId>) -> Result<u64, SessionStoreError> {
        self.up()?.remove_all(user, keep).await
    }
    fn pending_marker(self: Arc<Self>) -> Option<Arc<dyn PendingMarker>> {
        self.markers.then_some(self)
    }
    fn two_factor_marker(self: Arc<Self>) -> Option<Arc<dyn TwoFactorMarker>> {
        self.markers.then(|| self.inner.clone() as Arc<dyn TwoFactorMarker>)
    }
}

#[async_trait]
impl PendingMarker for Sessions {
    async fn create_pending(&self, session: &NewSession) -> Result<(), SessionStoreError> {
        self.inner.create_pending(session).await?;
        if self.marking_fails.load(Ordering::SeqCst) {
            return Err(SessionStoreError::new("canary-marker-table is locked"));
        }
        Ok(())
    }
}

/// A host's API tokens: in memory, with counts of the writes of uses.
#[derive(Default)]
pub(crate) struct Tokens {
    inner: MemoryTokenStore,
    /// If set, all credentials of the owner end just before their new token is stored.
    pub(crate) ends_before: OnceLock<Accounts>,
    pub(crate) writes: AtomicUsize,
    pub(crate) written: AtomicUsize,
}

#[async_trait]
impl TokenStore for Tokens {
    async fn create(&self, token: &StoredToken, hash: &TokenHash, most: Option<u32>) -> Result<bool, TokenStoreError> {
        if let (Some(accounts), Subject::User(owner)) = (self.ends_before.get(), &token.owner) {
            accounts.sign_out_everywhere(owner).await.unwrap();
            self.inner.revoke_all(&token.owner, token.created_at).await?;
        }
        self.inner.create(token, hash, most).await
    }
    async fn find(&self, hash: &TokenHash) -> Result<Option<StoredToken>, TokenStoreError> {
        self.inner.find(hash).await
    }
    async fn list(&self, owner: Option<&Subject>) -> Result<Vec<StoredToken>, TokenStoreError> {
        self.inner.list(owner).await
    }
    async fn revoke(&self, owner: Option<&Subject>, id: &TokenId, at: Timestamp) -> Result<bool, TokenStoreError> {
        self.inner.revoke(owner, id, at).await
    }
    async fn revoke_all(&self, owner: &Subject, at: Timestamp) -> Result<u64, TokenStoreError> {
        self.inner.revoke_all(owner, at).await
    }
    async fn touch(&self, uses: &[(TokenId, Timestamp)]) -> Result<(), TokenStoreError> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.written.fetch_add(uses.len(), Ordering::SeqCst);
        self.inner.touch(uses).await
    }
}

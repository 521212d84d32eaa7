//! A change of the password that a reset interrupts: at any moment of the reset, the owner's password is valid
//! afterwards, and the credentials from the change are refused.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use gatewright_auth::session::{
    NewSession, SessionKey, SessionStore, SessionStoreError, SqlSessionStore, StoredSession, TwoFactorMarker,
};
use gatewright_auth::users::{
    NewUser, PasswordSetter, Sessions, SignOutEverywhere, SqlUserStore, User, UserStore, UserStoreError, UserWithHash,
};
use gatewright_auth::{Auth, EmailAddress};
use gatewright_base::{ManualClock, Roles, Secret, SessionId, UserId};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::support::{Call, PASSWORD, Site, config, databases};

const OF_THE_OWNER: &str = "the owner's own password";
const OF_THE_THIEF: &str = "the thief's own password";

/// Resets the password before one of the calls of a store.
#[derive(Default)]
struct Interruption {
    calls: AtomicUsize,
    /// Before which of them; 0 for none.
    before: AtomicUsize,
    owner: OnceLock<(Auth, Arc<ManualClock>, UserId)>,
}

impl Interruption {
    fn arm(&self, site: &Site, user: UserId, before: usize) {
        assert!(self.owner.set((site.auth.clone(), site.clock.clone(), user)).is_ok(), "armed once");
        self.calls.store(0, Ordering::SeqCst);
        self.before.store(before, Ordering::SeqCst);
    }

    fn came(&self) -> bool {
        self.calls.load(Ordering::SeqCst) >= self.before.load(Ordering::SeqCst)
    }

    async fn step(&self) {
        let before = self.before.load(Ordering::SeqCst);
        // The reset makes calls of its own; these are counted too, and do not match.
        if before > 0 && self.calls.fetch_add(1, Ordering::SeqCst) + 1 == before {
            let (auth, clock, user) = self.owner.get().unwrap();
            clock.advance(SignedDuration::from_millis(1));
            auth.accounts().set_password(user, Secret::new(OF_THE_OWNER)).await.unwrap();
            clock.advance(SignedDuration::from_millis(1));
        }
    }
}

struct Users(SqlUserStore, Arc<Interruption>);

#[async_trait]
impl UserStore for Users {
    async fn find_by_email(&self, email: &EmailAddress) -> Result<UserWithHash, UserStoreError> {
        self.1.step().await;
        self.0.find_by_email(email).await
    }
    async fn find_by_id(&self, id: &UserId) -> Result<User, UserStoreError> {
        self.1.step().await;
        self.0.find_by_id(id).await
    }
    async fn create(&self, user: NewUser) -> Result<User, UserStoreError> {
        self.0.create(user).await
    }
    async fn update_roles(&self, id: &UserId, roles: &Roles) -> Result<(), UserStoreError> {
        self.0.update_roles(id, roles).await
    }
    fn password_setter(self: Arc<Self>) -> Option<Arc<dyn PasswordSetter>> {
        Some(self)
    }
    fn sign_out_everywhere(self: Arc<Self>) -> Option<Arc<dyn SignOutEverywhere>> {
        Some(self)
    }
}

#[async_trait]
impl PasswordSetter for Users {
    async fn set_password(
        &self,
        id: &UserId,
        hash: &gatewright_auth::password::PasswordHash,
        at: Timestamp,
    ) -> Result<(), UserStoreError> {
        self.1.step().await;
        self.0.set_password(id, hash, at).await
    }
    async fn rehash(
        &self,
        id: &UserId,
        old: &gatewright_auth::password::PasswordHash,
        new: &gatewright_auth::password::PasswordHash,
    ) -> Result<(), UserStoreError> {
        self.1.step().await;
        self.0.rehash(id, old, new).await
    }
    async fn drop_password(&self, id: &UserId, at: Timestamp) -> Result<(), UserStoreError> {
        self.0.drop_password(id, at).await
    }
}

#[async_trait]
impl SignOutEverywhere for Users {
    async fn refuse_until(&self, id: &UserId, at: Timestamp, sessions: Sessions) -> Result<(), UserStoreError> {
        self.1.step().await;
        self.0.refuse_until(id, at, sessions).await
    }
}

struct Browsers(Arc<SqlSessionStore>, Arc<Interruption>);

#[async_trait]
impl SessionStore for Browsers {
    async fn create(&self, session: &NewSession) -> Result<(), SessionStoreError> {
        self.1.step().await;
        self.0.create(session).await
    }
    async fn find(&self, key: &SessionKey) -> Result<Option<StoredSession>, SessionStoreError> {
        self.1.step().await;
        self.0.find(key).await
    }
    async fn take(&self, key: &SessionKey) -> Result<Option<StoredSession>, SessionStoreError> {
        self.0.take(key).await
    }
    async fn touch(&self, id: &SessionId, at: Timestamp) -> Result<(), SessionStoreError> {
        self.0.touch(id, at).await
    }
    async fn list(&self, user: &UserId) -> Result<Vec<StoredSession>, SessionStoreError> {
        self.0.list(user).await
    }
    async fn remove(&self, user: &UserId, id: &SessionId) -> Result<bool, SessionStoreError> {
        self.1.step().await;
        self.0.remove(user, id).await
    }
    async fn remove_all(&self, user: &UserId, keep: Option<&SessionId>) -> Result<u64, SessionStoreError> {
        self.1.step().await;
        self.0.remove_all(user, keep).await
    }
    fn two_factor_marker(self: Arc<Self>) -> Option<Arc<dyn TwoFactorMarker>> {
        self.0.clone().two_factor_marker()
    }
}

#[tokio::test]
async fn a_reset_at_any_moment_of_a_password_change_ends_the_changers_access() {
    for db in databases().await {
        // Creates the tables.
        Site::on(&db).await;
        let mut moments = 0;
        loop {
            let interruption = Arc::new(Interruption::default());
            let site = Site::with_ambient(config(), |builder, ambient| {
                let users = SqlUserStore::new(db.db.clone(), ambient.clone());
                let sessions = Arc::new(SqlSessionStore::new(db.db.clone(), ambient.clone()));
                let builder = builder.database(db.db.clone());
                builder
                    .users(Arc::new(Users(users, interruption.clone())))
                    .sessions(Arc::new(Browsers(sessions, interruption.clone())))
            })
            .await;
            let email = format!("ann{moments}@example.com");
            let open = site.signed_in(&email).await;
            site.advance(1);
            let user = site.auth.accounts().find(&email).await.unwrap().id;
            interruption.arm(&site, user, moments + 1);
            let body = json!({ "currentPassword": PASSWORD, "password": OF_THE_THIEF });
            let changed = Call::post("/auth/change-password").json(&body).cookie_of(&open).send(&site).await;
            if !interruption.came() {
                changed.expect(200);
                break;
            }
            moments += 1;
            site.advance(1);
            site.me(&open).await.expect(401);
            if changed.cookie().is_some() {
                site.me(&changed).await.expect(401);
            }
            site.login(&email, OF_THE_THIEF).await.expect(401);
            site.login(&email, PASSWORD).await.expect(401);
            site.login(&email, OF_THE_OWNER).await.expect(200);
        }
        assert!(moments >= 8, "a change makes more calls than {moments}, {}", db.name);
    }
}

//! Accounts in a custom store: they and the invitation do not share a transaction, so a claim is used.

use std::sync::Arc;

use async_trait::async_trait;
use gatewright_auth::users::{
    EmailVerifier, MemoryUserStore, NewUser, PasswordSetter, User, UserStore, UserStoreError, UserWithHash,
};
use gatewright_auth::{AccountError, EmailAddress, Registration};
use gatewright_base::{Ambient, Roles, UserId};
use gatewright_db::testing::TestDb;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::{Place, editor};
use crate::support::{ANN, Answer, databases};

/// A host's users, whose writes of roles wait until the test lets them go.
struct Users {
    inner: Arc<MemoryUserStore>,
    /// A permit for each write that waits.
    began: Semaphore,
    /// A permit for each write that may continue.
    go: Semaphore,
}

impl Users {
    fn new(ambient: &Ambient) -> Arc<Self> {
        let inner = Arc::new(MemoryUserStore::new(ambient.clone()));
        Arc::new(Self { inner, began: Semaphore::new(0), go: Semaphore::new(0) })
    }
}

#[async_trait]
impl UserStore for Users {
    async fn find_by_email(&self, email: &EmailAddress) -> Result<UserWithHash, UserStoreError> {
        self.inner.find_by_email(email).await
    }
    async fn find_by_id(&self, id: &UserId) -> Result<User, UserStoreError> {
        self.inner.find_by_id(id).await
    }
    async fn create(&self, user: NewUser) -> Result<User, UserStoreError> {
        self.inner.create(user).await
    }
    async fn update_roles(&self, id: &UserId, roles: &Roles) -> Result<(), UserStoreError> {
        self.began.add_permits(1);
        self.go.acquire().await.unwrap().forget();
        self.inner.update_roles(id, roles).await
    }
    fn email_verifier(self: Arc<Self>) -> Option<Arc<dyn EmailVerifier>> {
        Some(self.inner.clone())
    }
    fn password_setter(self: Arc<Self>) -> Option<Arc<dyn PasswordSetter>> {
        Some(self.inner.clone())
    }
}

/// A place with such users, Ann among them, and an invitation for her.
async fn invited(db: &TestDb) -> (Arc<Place>, Arc<Users>, Answer, String) {
    let mut users = None;
    let place = Place::with(db, Registration::Open, |builder, ambient| {
        builder.users(users.insert(Users::new(ambient)).clone())
    });
    let place = Arc::new(place.await);
    let session = place.site.signed_in_ann().await;
    let token = place.invite_to(editor(ANN)).await;
    (place, users.unwrap(), session, token)
}

/// Accepts, and returns once the host's store writes the roles.
async fn accepting(place: &Arc<Place>, users: &Users, session: &Answer, token: &str) -> JoinHandle<Answer> {
    let (place, session, token) = (place.clone(), session.clone(), token.to_owned());
    let accepting = tokio::spawn(async move { place.accept(&session, &token).await });
    users.began.acquire().await.unwrap().forget();
    accepting
}

#[tokio::test]
async fn an_invitation_being_accepted_is_listed_but_not_withdrawn_replaced_or_swept() {
    for db in databases().await {
        let (place, users, _, token) = invited(&db).await;
        let accounts = place.site.auth.accounts();
        // Half a minute before it expires.
        place.site.advance(7 * 24 * 3600 - 30);
        let session = place.site.login_ann().await.expect(200);
        let first = accepting(&place, &users, &session, &token).await;
        let open = accounts.invitations(None).await.unwrap();
        assert_eq!(open.len(), 1, "{}", db.name);
        let withdrawn = accounts.withdraw_invitation(&open[0].id, None).await;
        assert!(matches!(withdrawn, Err(AccountError::InvitationClaimed(left)) if left.as_secs() == 60), "{}", db.name);
        let replaced = accounts.invite(editor(ANN)).await;
        assert!(matches!(replaced, Err(AccountError::InvitationClaimed(_))), "{}", db.name);
        place.site.advance(20);
        let second = place.accept(&session, &token).await.expect(409);
        assert_eq!(
            (second.json()["code"].as_str(), &second.headers["retry-after"]),
            (Some("invitation_claimed"), &"40".parse().unwrap()),
            "{}",
            db.name
        );
        place.site.advance(20);
        place.site.auth.sweep().await;
        assert_eq!(place.open().await, 1, "{}: its claim lasts", db.name);
        users.go.add_permits(1);
        first.await.unwrap().expect(200);
        assert!(accounts.find(ANN).await.unwrap().roles.contains("editor"));
        assert_eq!(place.open().await, 0, "{}", db.name);
    }
}

/// A caller whose claim has expired neither spends nor frees the claim of a later caller.
#[tokio::test]
async fn an_expired_claim_does_not_change_a_newer_claim() {
    for db in databases().await {
        let (place, users, session, token) = invited(&db).await;
        let accounts = place.site.auth.accounts();
        let late = accepting(&place, &users, &session, &token).await;
        place.site.advance(61);
        let second = accepting(&place, &users, &session, &token).await;
        // The gate is fair: the first caller continues first.
        users.go.add_permits(1);
        late.await.unwrap().expect(409);
        let id = accounts.invitations(None).await.unwrap()[0].id.clone();
        let withdrawn = accounts.withdraw_invitation(&id, None).await;
        assert!(matches!(withdrawn, Err(AccountError::InvitationClaimed(_))), "{}: the second has it", db.name);
        users.go.add_permits(1);
        second.await.unwrap().expect(200);
        assert_eq!(place.open().await, 0, "{}", db.name);
    }
}

/// A failed acceptance releases the claim at once.
#[tokio::test]
async fn one_of_twenty_acceptances_succeeds_and_a_failed_one_can_be_retried_at_once() {
    for db in databases().await {
        let (place, users, session, token) = invited(&db).await;
        let tries: Vec<_> = (0..20)
            .map(|_| {
                let (place, session, token) = (place.clone(), session.clone(), token.clone());
                tokio::spawn(async move { place.accept(&session, &token).await.status.as_u16() })
            })
            .collect();
        users.go.add_permits(1);
        let mut accepted = 0;
        for one in tries {
            let status = one.await.unwrap();
            assert!([200, 401, 409].contains(&status), "{status}");
            accepted += usize::from(status == 200);
        }
        assert_eq!((accepted, place.open().await), (1, 0), "{}", db.name);

        let token = place.invite_to(editor(ANN)).await;
        let refer = "CREATE TABLE holds_them (id TEXT REFERENCES account_invitations (id))";
        db.db.execute(refer, vec![]).await.unwrap();
        db.db.execute("INSERT INTO holds_them SELECT id FROM account_invitations", vec![]).await.unwrap();
        users.go.add_permits(2);
        place.accept(&session, &token).await.expect(503);
        db.db.execute("DROP TABLE holds_them", vec![]).await.unwrap();
        place.accept(&session, &token).await.expect(200);
    }
}

use gatewright_auth::plugins::Plugin;
use gatewright_auth::plugins::email_verification::EmailVerificationPlugin;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::plugins::password_reset::PasswordResetPlugin;
use gatewright_auth::session::{
    MemorySessionStore, NewSession, SessionKey, SessionStore, SessionStoreError, StoredSession,
};
use gatewright_auth::{Auth, AuthBuilder, AuthConfig};
use gatewright_base::{SessionId, UserId};
use serde_json::json;

use super::{SEND, plugins, with_public_url};
use crate::support::{ANN, Call, Site, Users, config, databases};

fn each() -> [fn(AuthBuilder) -> AuthBuilder; 3] {
    fn with<P: Plugin + Default>(builder: AuthBuilder) -> AuthBuilder {
        builder.plugin(P::default())
    }
    [with::<MagicLinkPlugin>, with::<EmailVerificationPlugin>, with::<PasswordResetPlugin>]
}

#[tokio::test]
async fn a_user_store_that_cannot_do_what_a_plugin_needs_stops_the_start() {
    let (ambient, _) = gatewright_base::Ambient::manual("2026-01-02T03:04:05Z".parse().unwrap(), 98);
    let config = || AuthConfig { allow_in_memory_stores: true, ..with_public_url() };
    for (plugin, message) in each().into_iter().zip([
        "the magic_link plugin needs a user store with an email verifier",
        "the email_verification plugin needs a user store with an email verifier",
        "the password_reset plugin needs a user store with a password setter",
    ]) {
        let builder = Auth::builder(config()).users(Users::new(&ambient, false));
        let error = plugin(builder).build().await.err().unwrap().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[tokio::test]
async fn without_a_public_url_there_are_no_links() {
    for database in databases().await {
        for plugin in each() {
            let error = plugin(Auth::builder(config()).database(database.db.clone())).build().await.err().unwrap();
            assert!(error.to_string().starts_with("public_url"), "{error}");
        }
    }
}

#[tokio::test]
async fn tokens_in_memory_must_be_allowed_outside_dev_mode() {
    for plugin in each() {
        let (ambient, _) = gatewright_base::Ambient::manual("2026-01-02T03:04:05Z".parse().unwrap(), 97);
        let users = std::sync::Arc::new(gatewright_auth::users::MemoryUserStore::new(ambient.clone()));
        let sessions = || std::sync::Arc::new(Durable(MemorySessionStore::new(ambient.clone())));
        let builder = Auth::builder(with_public_url()).users(users.clone()).sessions(sessions());
        let error = plugin(builder).build().await.err().unwrap().to_string();
        assert!(error.contains("the single-use token store keeps its data in memory"), "{error}");
        let allowed = AuthConfig { allow_in_memory_stores: true, ..with_public_url() };
        plugin(Auth::builder(allowed).users(users).sessions(sessions())).build().await.expect("it is allowed");
    }
}

#[tokio::test]
async fn without_a_sender_production_answers_503_and_dev_mode_does_not() {
    for database in databases().await {
        for dev_mode in [false, true] {
            let config = AuthConfig { dev_mode, ..with_public_url() };
            let site = Site::with(config, |builder| plugins(builder).database(database.db.clone())).await;
            if !dev_mode {
                site.register_ann().await;
            }
            let session = site.login_ann().await;
            let link = Call::post(SEND).json(&json!({ "email": ANN })).send(&site).await;
            let verification =
                Call::post("/auth/send-verification").json(&json!({})).cookie_of(&session).send(&site).await;
            if dev_mode {
                link.expect(200);
                verification.expect(200);
            } else {
                assert_eq!(link.expect(503).detail(), "magic link delivery not configured");
                assert_eq!(verification.expect(503).detail(), "email delivery not configured");
            }
        }
    }
}

/// A host's session store that says nothing of keeping its data in memory.
struct Durable(MemorySessionStore);

#[async_trait::async_trait]
impl SessionStore for Durable {
    async fn create(&self, session: &NewSession) -> Result<(), SessionStoreError> {
        self.0.create(session).await
    }
    async fn find(&self, key: &SessionKey) -> Result<Option<StoredSession>, SessionStoreError> {
        self.0.find(key).await
    }
    async fn take(&self, key: &SessionKey) -> Result<Option<StoredSession>, SessionStoreError> {
        self.0.take(key).await
    }
    async fn touch(&self, id: &SessionId, at: jiff::Timestamp) -> Result<(), SessionStoreError> {
        self.0.touch(id, at).await
    }
    async fn list(&self, user: &UserId) -> Result<Vec<StoredSession>, SessionStoreError> {
        self.0.list(user).await
    }
    async fn remove(&self, user: &UserId, id: &SessionId) -> Result<bool, SessionStoreError> {
        self.0.remove(user, id).await
    }
    async fn remove_all(&self, user: &UserId, keep: Option<&SessionId>) -> Result<u64, SessionStoreError> {
        self.0.remove_all(user, keep).await
    }
}

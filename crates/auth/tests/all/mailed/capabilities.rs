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

use super::{FORGOT, SEND, VERIFY, plugins, with_public_url};
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
async fn without_a_mailer_plugins_that_need_one_answer_503_except_in_dev_mode() {
    for database in databases().await {
        for dev_mode in [false, true] {
            let config = AuthConfig { dev_mode, ..with_public_url() };
            let site = Site::with(config, |builder| plugins(builder).database(database.db.clone())).await;
            if !dev_mode {
                site.register_ann().await;
            }
            let session = site.login_ann().await;
            let (address, token) = (json!({ "email": ANN }), json!({ "token": "A".repeat(43) }));
            let links = "magic link delivery not configured";
            let mails = "email delivery not configured";
            // What is wrong with a request, and who sends it, makes no difference.
            let calls = [
                (Call::post(SEND).json(&address), 200, links),
                (Call::post(SEND).json(&json!({})), 422, links),
                (Call::post(VERIFY).json(&token), 401, links),
                (Call::get(VERIFY), 401, links),
                (Call::post("/auth/send-verification").json(&json!({})).cookie_of(&session), 200, mails),
                (Call::post("/auth/send-verification").json(&json!({})), 401, mails),
                (Call::post("/auth/verify-email").json(&token), 401, mails),
                (Call::get("/auth/verify-email?token=A"), 401, mails),
            ];
            for (call, otherwise, detail) in calls {
                let answer = call.send(&site).await;
                if dev_mode {
                    answer.expect(otherwise);
                } else {
                    assert_eq!(answer.expect(503).detail(), detail);
                }
            }
            // The answer does not reveal whether there is an account: it is always the same.
            Call::post(FORGOT).json(&address).send(&site).await.expect(200);
            if !dev_mode {
                let page = Call::post(SEND).form(&[("email", ANN)]).send(&site).await.expect(503);
                assert!(page.body.contains("<h1>"), "{}", page.body);
            }
        }
    }
}

/// A custom session store that does not report that its data is in memory.
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

//! One password, however a keyboard sends it, at every door that takes one.

use std::sync::Arc;
use std::time::Duration;

use gatewright_auth::AuthConfig;
use gatewright_auth::audit::AuditKind;
use gatewright_auth::plugins::account_deletion::AccountDeletionPlugin;
use gatewright_auth::plugins::account_export::AccountExportPlugin;
use gatewright_auth::plugins::email_change::EmailChangePlugin;
use gatewright_auth::plugins::passkeys::PasskeysPlugin;
use gatewright_auth::plugins::password_reset::PasswordResetPlugin;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_base::Secret;
use gatewright_db::params;
use gatewright_db::testing::TestDb;
use serde_json::{Value, json};

use crate::mailed::Post;
use crate::support::{ANN, Answer, Call, Site, WRONG, config, databases, unlimited};

/// As one keyboard sends it.
const COMPOSED: &str = "un caf\u{e9} serr\u{e9}";
/// As another one sends it: an accent after its letter, and a space that does not break.
const DECOMPOSED: &str = "un cafe\u{301}\u{a0}serre\u{301}";

struct Place {
    site: Site,
    post: Arc<Post>,
}

impl Place {
    async fn on(db: &TestDb) -> Self {
        let post = Arc::new(Post::default());
        let public_url = Some("https://app.example.com".parse().unwrap());
        let mut settings = AuthConfig { public_url, ..config() };
        let limits = &mut settings.limits;
        for limit in [&mut limits.login, &mut limits.login_account, &mut limits.register, &mut limits.password_reset] {
            limit.policy = unlimited();
        }
        let site = Site::with(settings, |builder| {
            let builder = builder.database(db.db.clone()).mailer(post.clone()).plugin(TwoFactorPlugin::new("Test"));
            let builder = builder.plugin(EmailChangePlugin::new()).plugin(PasswordResetPlugin::new());
            let builder = builder.plugin(AccountExportPlugin).plugin(AccountDeletionPlugin);
            builder.plugin(TokensPlugin::new()).plugin(PasskeysPlugin::new("Test"))
        });
        Self { site: site.await.and_screens(), post }
    }

    /// Removes Ann, if she is there.
    async fn without_ann(&self) {
        let accounts = self.site.auth.accounts();
        if let Ok(user) = accounts.find(ANN).await {
            accounts.delete(&user.id).await.unwrap();
        }
    }

    /// Ann anew, with this password.
    async fn ann(&self, password: &str) {
        self.without_ann().await;
        self.site.auth.accounts().create(ANN, Some(Secret::new(password)), None).await.unwrap();
        self.site.advance(1);
    }

    /// Sends a call to a door that sets a password.
    async fn set(&self, door: &str, password: &str) {
        let accounts = self.site.auth.accounts();
        let fields = [("email", ANN), ("password", password)];
        let change = [("current_password", "the first password"), ("password", password)];
        match door {
            "POST /auth/register, JSON" => {
                self.without_ann().await;
                Call::post("/auth/register").json(&object(&fields)).send(&self.site).await.expect(200);
            }
            "POST /auth/register, form" => {
                self.without_ann().await;
                Call::post("/auth/register").form(&fields).send(&self.site).await.expect(303);
            }
            "POST /auth/reset-password" => {
                self.ann("the first password").await;
                Call::post("/auth/forgot-password").json(&json!({ "email": ANN })).send(&self.site).await.expect(200);
                self.site.auth.settle(Duration::from_secs(10)).await;
                let link = self.post.mails.lock().last().map(|mail| mail.link.expose().to_owned()).unwrap();
                let token = link.split_once("token=").unwrap().1;
                let body = json!({ "token": token, "password": password });
                Call::post("/auth/reset-password").json(&body).send(&self.site).await.expect(200);
            }
            "POST /auth/change-password" => {
                self.ann("the first password").await;
                let session = self.site.login(ANN, "the first password").await.expect(200);
                let call = Call::post("/auth/change-password").json(&object(&change)).cookie_of(&session);
                call.send(&self.site).await.expect(200);
            }
            "POST /account/password" => {
                self.ann("the first password").await;
                let session = self.site.login(ANN, "the first password").await.expect(200);
                Call::post("/account/password").form(&change).cookie_of(&session).send(&self.site).await.expect(303);
            }
            "Accounts::create" => self.ann(password).await,
            "Accounts::set_password" => {
                self.ann("the first password").await;
                let user = accounts.find(ANN).await.unwrap();
                accounts.set_password(&user.id, Secret::new(password)).await.unwrap();
            }
            _ => panic!("no such door: {door}"),
        }
        self.site.advance(1);
    }
}

const SETTING: [&str; 7] = [
    "POST /auth/register, JSON",
    "POST /auth/register, form",
    "POST /auth/reset-password",
    "POST /auth/change-password",
    "POST /account/password",
    "Accounts::create",
    "Accounts::set_password",
];

/// Fields of a form, with their values.
type Fields = &'static [(&'static str, &'static str)];

/// The doors where a session proves itself by the password: the path, whether it takes a form only, the field of the
/// password, and the other fields.
const PROVING: [(&str, bool, &str, Fields); 12] = [
    ("/auth/change-password", false, "current_password", &[("password", COMPOSED)]),
    ("/account/password", true, "current_password", &[("password", COMPOSED)]),
    ("/auth/change-email", false, "password", &[("email", "new@example.com")]),
    ("/account/email", true, "password", &[("email", "new@example.com")]),
    ("/auth/2fa/enroll", false, "password", &[]),
    ("/auth/2fa/enroll", true, "password", &[]),
    ("/auth/tokens", false, "password", &[("name", "CI")]),
    ("/auth/passkeys/register/options", false, "password", &[]),
    ("/auth/export", false, "password", &[]),
    ("/account/export", true, "password", &[]),
    ("/auth/delete-account", false, "password", &[]),
    ("/account/delete", true, "password", &[("confirm", ANN)]),
];

fn object(fields: &[(&str, &str)]) -> Value {
    fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Value::from(*value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Proves by this password at a door, from a session of ten minutes ago.
async fn prove(site: &Site, session: &Answer, door: usize, password: &str) -> u16 {
    let (path, is_form, field, more) = PROVING[door];
    let fields = [&[(field, password)], more].concat();
    let call = Call::post(path);
    let call = if is_form { call.form(&fields) } else { call.json(&object(&fields)) };
    call.cookie_of(session).send(site).await.status.as_u16()
}

#[tokio::test]
async fn a_password_is_one_however_it_is_typed_at_every_door_that_sets_it() {
    for db in databases().await {
        let place = Place::on(&db).await;
        for door in SETTING {
            for (set, given) in [(DECOMPOSED, COMPOSED), (COMPOSED, DECOMPOSED)] {
                place.set(door, set).await;
                place.site.login(ANN, given).await.expect(200);
                place.site.login(ANN, set).await.expect(200);
                let form = [("email", ANN), ("password", given)];
                Call::post("/auth/login").form(&form).send(&place.site).await.expect(303);
                // Case stays significant.
                place.site.login(ANN, &given.to_uppercase()).await.expect(401);
            }
        }
    }
}

#[tokio::test]
async fn a_password_is_one_however_it_is_typed_at_every_door_that_asks_for_it() {
    for db in databases().await {
        let place = Place::on(&db).await;
        for (door, (path, is_form, ..)) in PROVING.into_iter().enumerate() {
            place.ann(COMPOSED).await;
            let session = place.site.login(ANN, COMPOSED).await.expect(200);
            place.site.advance(10 * 60);
            assert_eq!(prove(&place.site, &session, door, WRONG).await, 401, "{path} (form: {is_form}) asks for it");
            let status = prove(&place.site, &session, door, DECOMPOSED).await;
            assert!((200..400).contains(&status), "{path} (form: {is_form}) on {}: {status}", db.name);
        }
    }
}

/// What an earlier version stored: the hash of the password as it was typed.
#[tokio::test]
async fn an_old_hash_takes_the_password_as_it_was_typed_and_is_renewed_at_every_door() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let old = bcrypt::hash(DECOMPOSED, 4).unwrap();
        let age = async || {
            let sql = "UPDATE users SET password_hash = ?2 WHERE email = ?1";
            assert_eq!(db.db.execute(sql, params![ANN, old.clone()]).await.unwrap(), 1);
        };
        place.ann(COMPOSED).await;
        age().await;
        place.site.login(ANN, COMPOSED).await.expect(401);
        place.site.login(ANN, DECOMPOSED).await.expect(200);
        place.site.login(ANN, COMPOSED).await.expect(200);
        for (door, (path, is_form, ..)) in PROVING.into_iter().enumerate() {
            place.ann(COMPOSED).await;
            let session = place.site.login(ANN, COMPOSED).await.expect(200);
            age().await;
            place.site.advance(10 * 60);
            let status = prove(&place.site, &session, door, DECOMPOSED).await;
            assert!((200..400).contains(&status), "{path} (form: {is_form}) on {}: {status}", db.name);
            if !path.contains("delete") {
                place.site.login(ANN, COMPOSED).await.expect(200);
            }
        }
        // Twenty browsers at once, of which the first renews it.
        place.ann(COMPOSED).await;
        age().await;
        let all = (0..20).map(|_| place.site.login(ANN, DECOMPOSED));
        let answers = futures_util::future::join_all(all).await;
        assert!(answers.iter().all(|answer| [200, 429, 503].contains(&answer.status.as_u16())), "{}", db.name);
        assert!(answers.iter().any(|answer| answer.status == 200));
        place.site.login(ANN, COMPOSED).await.expect(200);
    }
}

#[tokio::test]
async fn an_unreadable_hash_names_its_account_in_the_audit_log_and_not_to_the_client() {
    for db in databases().await {
        let place = Place::on(&db).await;
        for hash in ["", "plain text", "$2b$04$damaged", "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ", "{SSHA}c2FsdA=="] {
            place.ann(COMPOSED).await;
            let user = place.site.auth.accounts().find(ANN).await.unwrap();
            let session = place.site.login(ANN, COMPOSED).await.expect(200);
            let sql = "UPDATE users SET password_hash = ?2 WHERE email = ?1";
            db.db.execute(sql, params![ANN, hash]).await.unwrap();
            place.site.advance(10 * 60);
            let unknown = place.site.login("nobody@example.com", COMPOSED).await.expect(401);
            let refused = place.site.login(ANN, COMPOSED).await.expect(401);
            assert_eq!(refused.json(), unknown.json(), "{hash}");
            for (door, (path, ..)) in PROVING.into_iter().enumerate() {
                let before = place.site.audit.events().len();
                let wrong = prove(&place.site, &session, door, COMPOSED).await;
                assert_eq!(wrong, 401, "{path}");
                let events = place.site.audit.events();
                let of_this = |event: &&gatewright_auth::audit::AuditEvent| event.kind == AuditKind::LoginFailed;
                let event = events[before..].iter().find(of_this).unwrap();
                assert_eq!(event.user_id.as_ref(), Some(&user.id), "{path}");
                assert_eq!(event.meta["reason"], "unknown_hash", "{path}");
            }
            let events = place.site.audit.events();
            let is_login = |event: &&gatewright_auth::audit::AuditEvent| {
                event.meta.get("reason") == Some(&json!("unknown_hash")) && event.meta.contains_key("email")
            };
            let last = events.iter().rfind(is_login).unwrap();
            assert_eq!((last.user_id.as_ref(), &last.meta["email"]), (Some(&user.id), &json!(ANN)), "{hash}");
        }
    }
}

//! Links in mails: signing in with one, proving a mailbox, and choosing a new password.

mod api_tokens;
mod budget;
mod capabilities;
mod codes;
mod email_code;
mod magic_link;
mod reset;
mod returning;
mod screens;
mod secrets;
mod unknown_keys;
mod verification;
mod weak_passwords;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use gatewright_auth::plugins::email_code::EmailCodePlugin;
use gatewright_auth::plugins::email_verification::EmailVerificationPlugin;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::plugins::password_reset::PasswordResetPlugin;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_auth::users::BoxError;
use gatewright_auth::{AuthBuilder, AuthConfig, Mail, MailKind, Mailer};
use gatewright_db::Db;
use parking_lot::Mutex;
use serde_json::json;

use crate::support::{Answer, Call, FakeFactor, Site, config};

const SEND: &str = "/auth/magic-link/send";
const VERIFY: &str = "/auth/magic-link/verify";
const FORGOT: &str = "/auth/forgot-password";
const RESET: &str = "/auth/reset-password";
const NEW_PASSWORD: &str = "a wholly new password";

/// Keeps mails for a test to read, or fails.
#[derive(Default)]
pub(crate) struct Post {
    pub(crate) mails: Mutex<Vec<Mail>>,
    fails: AtomicBool,
}

#[async_trait]
impl Mailer for Post {
    async fn send(&self, mail: Mail) -> Result<(), BoxError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err("canary-mail-host is down".into());
        }
        self.mails.lock().push(mail);
        Ok(())
    }
}

/// A site with every plugin that mails, and its post.
struct Place {
    site: Site,
    post: Arc<Post>,
}

fn with_public_url() -> AuthConfig {
    let public_url = Some("https://app.example.com".parse().unwrap());
    AuthConfig { public_url, ..config() }
}

fn plugins(builder: AuthBuilder) -> AuthBuilder {
    builder
        .plugin(MagicLinkPlugin::new())
        .plugin(EmailCodePlugin)
        .plugin(EmailVerificationPlugin::new())
        .plugin(PasswordResetPlugin::new())
        .plugin(TwoFactorPlugin::new("Test"))
}

impl Place {
    async fn on(db: &Db) -> Self {
        Self::with(with_public_url(), |builder| plugins(builder).database(db.clone())).await
    }

    /// With API tokens.
    async fn with_tokens(db: &Db) -> Self {
        let complete = |builder| plugins(builder).plugin(TokensPlugin::new()).database(db.clone());
        Self::with(with_public_url(), complete).await
    }

    /// With a second factor that the test sets.
    async fn with_factor(db: &Db) -> (Self, FakeFactor) {
        let factor = FakeFactor::default();
        let given = Arc::new(factor.clone());
        let complete = |builder| plugins(builder).database(db.clone()).second_factor(given);
        (Self::with(with_public_url(), complete).await, factor)
    }

    async fn with(config: AuthConfig, complete: impl FnOnce(AuthBuilder) -> AuthBuilder) -> Self {
        let post = Arc::new(Post::default());
        let site = Site::with(config, |builder| complete(builder).mailer(post.clone())).await;
        Self { site, post }
    }

    /// Mails so far.
    async fn mails(&self) -> Vec<Mail> {
        self.site.auth.settle(Duration::from_secs(10)).await;
        self.post.mails.lock().clone()
    }

    /// The token of the latest mail, which must be one of this kind to this address.
    async fn token(&self, kind: MailKind, to: &str) -> String {
        let mails = self.mails().await;
        let mail = mails.last().expect("a mail was sent");
        assert_eq!((mail.kind, mail.to.as_str()), (kind, to));
        mail.link.expose().split_once("token=").expect("the link has a token").1.to_owned()
    }

    async fn magic_token(&self, to: &str) -> String {
        Call::post(SEND).json(&json!({ "email": to })).send(&self.site).await.expect(200);
        self.token(MailKind::MagicLink, to).await
    }

    async fn reset_token(&self, to: &str) -> String {
        Call::post(FORGOT).json(&json!({ "email": to })).send(&self.site).await.expect(200);
        self.token(MailKind::PasswordReset, to).await
    }

    async fn verification_token(&self, caller: &Answer, to: &str) -> String {
        Call::post("/auth/send-verification").json(&json!({})).cookie_of(caller).send(&self.site).await.expect(200);
        self.token(MailKind::EmailVerification, to).await
    }

    async fn redeem(&self, token: &str) -> Answer {
        Call::post(VERIFY).json(&json!({ "token": token })).send(&self.site).await
    }

    async fn reset(&self, token: &str, password: &str) -> Answer {
        Call::post(RESET).json(&json!({ "token": token, "password": password })).send(&self.site).await
    }

    /// Makes an API token.
    async fn issue(&self, session: &Answer) -> String {
        let call = Call::post("/auth/tokens").json(&json!({ "name": "CI", "scopes": ["*:*"] })).cookie_of(session);
        call.send(&self.site).await.expect(200).token()
    }

    /// Whether a bearer token is known.
    async fn is_good(&self, token: &str) -> bool {
        Call::get("/whoami").bearer(token).send(&self.site).await.expect(200).json() != "anonymous"
    }

    /// Opens a verification link in a browser with this session.
    async fn verify_email(&self, session: &Answer, token: &str) -> Answer {
        Call::get(&format!("/auth/verify-email?token={token}")).cookie_of(session).send(&self.site).await
    }

    /// Opens a verification link without a session, as a mail scanner does.
    async fn scan(&self, token: &str) -> Answer {
        Call::get(&format!("/auth/verify-email?token={token}")).send(&self.site).await
    }

    /// Confirms the address of a verification link without a session.
    async fn confirm(&self, token: &str) -> Answer {
        Call::post("/auth/verify-email").json(&json!({ "token": token })).send(&self.site).await
    }
}

//! Changes of an account's address, and their undo.

mod attacks;
mod confirmation;
mod journeys;
mod takeover;

use std::sync::Arc;
use std::time::Duration;

use gatewright_auth::plugins::email_change::EmailChangePlugin;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::plugins::passkeys::PasskeysPlugin;
use gatewright_auth::plugins::password_reset::PasswordResetPlugin;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_auth::{AuthConfig, MailKind};
use gatewright_base::{Secret, UserId};
use gatewright_db::testing::TestDb;
use serde_json::json;

use crate::mailed::Post;
use crate::passkeys::Authenticator;
use crate::support::{ANN, Answer, Call, PASSWORD, Site, config};

const NEW: &str = "ann@new.example.com";
const CONFIRM: &str = "/auth/change-email/confirm";
const UNDO: &str = "/auth/change-email/undo";

struct Place {
    site: Site,
    post: Arc<Post>,
}

impl Place {
    async fn on(db: &TestDb) -> Self {
        Self::with(db, config()).await
    }

    async fn with(db: &TestDb, config: AuthConfig) -> Self {
        let post = Arc::new(Post::default());
        let public_url = Some("https://app.example.com".parse().unwrap());
        let config = AuthConfig { public_url, ..config };
        let site = Site::with(config, |builder| {
            let builder = builder.database(db.db.clone()).mailer(post.clone()).plugin(TwoFactorPlugin::new("Test"));
            let builder = builder.plugin(MagicLinkPlugin::new()).plugin(PasswordResetPlugin::new());
            let builder = builder.plugin(TokensPlugin::new()).plugin(PasskeysPlugin::new("Test"));
            builder.plugin(EmailChangePlugin::new())
        });
        let place = Self { site: site.await.and_screens(), post };
        place.site.register_ann().await;
        place
    }

    async fn mails(&self) -> usize {
        self.site.auth.settle(Duration::from_secs(10)).await;
        self.post.mails.lock().len()
    }

    /// The token of the latest mail, which must be one of this kind to this address.
    async fn token(&self, kind: MailKind, to: &str) -> String {
        self.mails().await;
        let mails = self.post.mails.lock();
        let mail = mails.last().expect("a mail was sent");
        assert_eq!((mail.kind, mail.to.as_str()), (kind, to));
        mail.link.expose().split_once("token=").unwrap().1.to_owned()
    }

    async fn ask(&self, session: &Answer, to: &str) -> Answer {
        let body = json!({ "email": to, "password": PASSWORD });
        Call::post("/auth/change-email").json(&body).cookie_of(session).send(&self.site).await
    }

    /// Proves Ann's mailbox, and returns her id. A claim drops her password, which she then sets again.
    async fn prove_ann(&self) -> UserId {
        Call::post("/auth/magic-link/send").json(&json!({ "email": ANN })).send(&self.site).await.expect(200);
        let token = self.token(MailKind::MagicLink, ANN).await;
        self.post_token("/auth/magic-link/verify", &token).await.expect(200);
        let accounts = self.site.auth.accounts();
        let ann = accounts.find(ANN).await.unwrap();
        assert!(ann.email_verified);
        accounts.set_password(&ann.id, Secret::new(PASSWORD)).await.unwrap();
        self.site.advance(1);
        ann.id
    }

    async fn post_token(&self, path: &str, token: &str) -> Answer {
        Call::post(path).json(&json!({ "token": token })).send(&self.site).await
    }

    /// Confirms a change in a browser with this session.
    async fn confirm(&self, session: &Answer, token: &str) -> Answer {
        Call::post(CONFIRM).json(&json!({ "token": token })).cookie_of(session).send(&self.site).await
    }

    /// Adds a passkey and returns its authenticator.
    async fn add_passkey(&self, session: &Answer, name: &str) -> Authenticator {
        let body = json!({ "password": PASSWORD });
        let options = Call::post("/auth/passkeys/register/options").cookie_of(session).json(&body).send(&self.site);
        let options = options.await.expect(200);
        let mut authenticator = Authenticator::new(name);
        let mut credential = authenticator.create(&options.json());
        credential["name"] = name.into();
        let cookies = format!("{}; {}", session.cookie().unwrap(), options.cookie().unwrap());
        let call = Call::post("/auth/passkeys/register").cookie(&cookies).json(&credential);
        call.send(&self.site).await.expect(201);
        authenticator
    }

    /// The status of a sign-in with a passkey.
    async fn passkey_login(&self, authenticator: &mut Authenticator) -> u16 {
        let options = Call::post("/auth/passkeys/login/options").json(&json!({})).send(&self.site).await.expect(200);
        authenticator.counter += 1;
        let credential = authenticator.get(&options.json());
        let call = Call::post("/auth/passkeys/login").cookie(&options.cookie().unwrap()).json(&credential);
        call.send(&self.site).await.status.as_u16()
    }

    /// Makes a complete change; returns the token that undoes it.
    async fn change(&self, session: &Answer, from: &str, to: &str) -> String {
        self.ask(session, to).await.expect(200);
        let token = self.token(MailKind::EmailChange, to).await;
        self.confirm(session, &token).await.expect(200);
        self.token(MailKind::EmailChanged, from).await
    }
}

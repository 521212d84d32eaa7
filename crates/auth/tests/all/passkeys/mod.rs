//! Passkeys, with an authenticator in software, and attacks with passkeys of others.

mod attacks;
mod authenticator;
mod limit;
mod manage;

use std::sync::Arc;
use std::time::Duration;

use gatewright_auth::plugins::accounts::AccountsPlugin;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::plugins::passkeys::PasskeysPlugin;
use gatewright_auth::{AuthBuilder, AuthConfig};
use gatewright_db::testing::TestDb;
use gatewright_limits::Policy;
use http::Method;
use serde_json::{Value, json};

pub(crate) use self::authenticator::Authenticator;
use crate::mailed::Post;
use crate::support::{Answer, Call, FakeFactor, PASSWORD, Site, config};

struct Place {
    site: Site,
    post: Arc<Post>,
    factor: FakeFactor,
}

impl Place {
    async fn on(db: &TestDb) -> Self {
        Self::at(db, "https://app.example.com", |builder| builder.plugin(PasskeysPlugin::new("Test"))).await
    }

    /// With so many sign-ins by address.
    async fn limited(db: &TestDb, most: u32) -> Self {
        let complete = |builder: AuthBuilder| builder.plugin(PasskeysPlugin::new("Test"));
        Self::with(db, "https://app.example.com", most, complete).await
    }

    async fn at(db: &TestDb, url: &str, complete: impl FnOnce(AuthBuilder) -> AuthBuilder) -> Self {
        Self::with(db, url, 1000, complete).await
    }

    async fn with(db: &TestDb, url: &str, most: u32, complete: impl FnOnce(AuthBuilder) -> AuthBuilder) -> Self {
        let (post, factor) = (Arc::new(Post::default()), FakeFactor::default());
        let mut config = AuthConfig { public_url: Some(url.parse().unwrap()), ..config() };
        config.limits.login.policy = Policy::new(most, Duration::from_mins(15), Duration::from_mins(30));
        let site = Site::with(config, |builder| {
            let builder = builder.database(db.db.clone()).mailer(post.clone()).second_factor(Arc::new(factor.clone()));
            complete(builder.plugin(MagicLinkPlugin::new()).plugin(AccountsPlugin))
        })
        .await;
        Self { site: site.and_screens(), post, factor }
    }

    /// A user without a password, just signed in by a link.
    async fn passwordless(&self, email: &str) -> Answer {
        Call::post("/auth/magic-link/send").json(&json!({ "email": email })).send(&self.site).await.expect(200);
        self.site.auth.settle(Duration::from_mins(1)).await;
        let link = self.post.mails.lock().last().unwrap().link.clone();
        let token = link.expose().split_once("token=").unwrap().1.to_owned();
        self.site.advance(1);
        Call::post("/auth/magic-link/verify").json(&json!({ "token": token })).send(&self.site).await.expect(200)
    }

    async fn options(&self, by: &Answer, shown: &Value) -> Answer {
        Call::post("/auth/passkeys/register/options").cookie_of(by).json(shown).send(&self.site).await
    }

    async fn register(&self, by: &Answer, options: &Answer, credential: &Value) -> Answer {
        let cookies = format!("{}; {}", by.cookie().unwrap(), options.cookie().unwrap());
        Call::post("/auth/passkeys/register").cookie(&cookies).json(credential).send(&self.site).await
    }

    /// Adds a passkey and returns its authenticator.
    async fn added(&self, by: &Answer, shown: &Value, id: &str) -> Authenticator {
        let mut authenticator = Authenticator::new(id);
        let options = self.options(by, shown).await.expect(200);
        let mut credential = authenticator.create(&options.json());
        credential["name"] = id.into();
        self.register(by, &options, &credential).await.expect(201);
        authenticator
    }

    async fn ask(&self) -> Answer {
        Call::post("/auth/passkeys/login/options").json(&json!({})).send(&self.site).await.expect(200)
    }

    async fn answer(&self, options: &Answer, credential: &Value) -> Answer {
        let call = Call::post("/auth/passkeys/login").cookie(&options.cookie().unwrap());
        call.json(credential).send(&self.site).await
    }

    async fn sign_in(&self, authenticator: &mut Authenticator) -> Answer {
        let options = self.ask().await;
        authenticator.counter += 1;
        let credential = authenticator.get(&options.json());
        self.answer(&options, &credential).await
    }

    async fn call(&self, by: &Answer, method: Method, path: &str) -> Answer {
        Call::new(method, path).cookie_of(by).send(&self.site).await
    }

    async fn passkeys(&self, by: &Answer) -> Vec<Value> {
        let answer = self.call(by, Method::GET, "/auth/passkeys").await.expect(200);
        answer.json()["passkeys"].as_array().unwrap().clone()
    }
}

fn password() -> Value {
    json!({ "password": PASSWORD })
}

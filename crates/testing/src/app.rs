use std::sync::Arc;

use gatewright::auth::password::PasswordAlgorithm;
use gatewright::base::{Ambient, Clock, ManualClock, OsRng, Subject, SystemClock, TenantId, UserId};
use gatewright::config::Loader;
use gatewright::entities::tenancy::SqlMemberships;
use gatewright::{App, Config};
use gatewright_db::params;
use gatewright_db::testing::{TestDb, engines};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::Actor;

/// The password of every actor.
pub(crate) const PASSWORD: &str = "correct horse battery";

/// A backend in this process. Dropping it drops its database.
pub struct TestApp {
    app: App,
    config: Box<Config>,
    clock: Arc<ManualClock>,
    database: TestDb,
}

impl TestApp {
    /// One application on each available engine, configured by `toml` in dev mode, with the cheapest password hashes.
    /// The clock starts at the present and does not advance by itself.
    ///
    /// # Panics
    /// If the configuration is refused or the application does not start.
    pub async fn on_every_engine(toml: &str) -> Vec<Self> {
        let mut apps = Vec::new();
        for database in engines().await {
            apps.push(Self::on(database, toml).await);
        }
        apps
    }

    async fn on(database: TestDb, toml: &str) -> Self {
        let loader = Loader::text("test.toml", toml).dev_mode().database(&database.url);
        let mut config = Box::new(loader.load().expect("the test's configuration is valid"));
        config.auth.password = PasswordAlgorithm::Bcrypt { cost: 4 };
        let clock = Arc::new(ManualClock::new(SystemClock.now()));
        let ambient = Ambient::new(clock.clone(), Arc::new(OsRng));
        let app = App::builder((*config).clone()).ambient(ambient).build().await.expect("the application starts");
        Self { app, config, clock, database }
    }

    /// The application itself.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// `sqlite` or `postgres`, for messages.
    pub fn engine(&self) -> &'static str {
        self.database.name
    }

    /// The application's present.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Advances the clock.
    pub fn wait(&self, time: SignedDuration) {
        self.clock.advance(time);
    }

    /// A user without credentials.
    pub fn anonymous(&self) -> Actor {
        Actor::new(self.app.router())
    }

    /// A new user who registered and signed in with a browser's cookie.
    pub async fn signed_in(&self, email: &str) -> Actor {
        self.registered(email).await;
        let mut actor = self.anonymous();
        actor.sign_in(email).await.is(200);
        actor
    }

    /// A new user with a JWT.
    pub async fn with_jwt(&self, email: &str) -> Actor {
        let answer = self.registered(email).await;
        let token = answer["token"].as_str().expect("registration answers a token").to_owned();
        self.anonymous().bearing(&token)
    }

    /// Creates an account by its endpoint and returns the answer.
    pub async fn registered(&self, email: &str) -> serde_json::Value {
        let body = json!({ "email": email, "password": PASSWORD });
        self.anonymous().post("/auth/register", body).await.is(200).json()
    }

    /// The id of an existing account.
    ///
    /// # Panics
    /// If there is no such account.
    pub async fn user_id(&self, email: &str) -> UserId {
        let accounts = self.app.auth().expect("authentication is on").accounts();
        accounts.find(email).await.expect("the account exists").id
    }

    /// Marks the mailbox of an existing account as proven, as a link in a mail does.
    ///
    /// # Panics
    /// If there is no such account.
    pub async fn prove_mailbox(&self, email: &str) {
        let id = self.user_id(email).await;
        let sql = "UPDATE users SET email_verified = ?2 WHERE id = ?1";
        self.app.db().execute(sql, params![&id, true]).await.expect("the account still exists");
    }

    /// Makes an existing account a member of a tenant.
    ///
    /// # Panics
    /// If there is no such account, or it is a member already.
    pub async fn join(&self, email: &str, tenant: &str) {
        let memberships = SqlMemberships::new(self.app.db().clone(), Ambient::system());
        let tenant = TenantId::parse(tenant).expect("the tenant's name is valid");
        let subject = Subject::User(self.user_id(email).await);
        assert!(
            memberships.add(&tenant, &subject).await.expect("memberships are there"),
            "{email} is a member already"
        );
    }

    /// Gives an existing account these roles and no others.
    ///
    /// # Panics
    /// If there is no such account.
    pub async fn grant(&self, email: &str, roles: &[&str]) {
        let accounts = self.app.auth().expect("authentication is on").accounts();
        let user = accounts.find(email).await.expect("the account exists");
        let roles = roles.iter().copied().collect();
        accounts.set_roles(&user.id, &roles).await.expect("the account still exists");
    }
}

impl std::fmt::Debug for TestApp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestApp").field("engine", &self.engine()).finish_non_exhaustive()
    }
}

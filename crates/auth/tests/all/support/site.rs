use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::get;
use axum::{Json, Router};
use gatewright_auth::audit::AuditKind;
use gatewright_auth::password::PasswordAlgorithm;
use gatewright_auth::plugins::invitations::NewInvitation;
use gatewright_auth::plugins::password::PasswordPlugin;
use gatewright_auth::session::{AnySession, PendingSession, Session};
use gatewright_auth::{Auth, AuthBuilder, AuthConfig, EmailAddress, Limits};
use gatewright_base::{Ambient, Identity, ManualClock, Presented, Secret};
use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{Db, params};
use gatewright_http::Caller;
use gatewright_limits::Policy;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{ANN, Answer, Call, PASSWORD, Recorder};

/// Authentication mounted in a small program, with a clock that tests move.
pub(crate) struct Site {
    pub(crate) auth: Auth,
    pub(crate) router: Router,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) ambient: Ambient,
    pub(crate) audit: Arc<Recorder>,
    pub(crate) presented: Arc<Mutex<Option<Presented>>>,
}

/// Every engine that there is.
pub(crate) async fn databases() -> Vec<TestDb> {
    engines().await
}

/// Marks the mailbox of an account as proven, or as no longer proven.
pub(crate) async fn set_proven(db: &Db, email: &str, proven: bool) {
    let sql = "UPDATE users SET email_verified = ?2 WHERE email = ?1";
    assert_eq!(db.execute(sql, params![email, proven]).await.unwrap(), 1);
}

/// An invitation to an address, to nothing else.
pub(crate) fn invitation(email: &str) -> NewInvitation {
    NewInvitation::new(EmailAddress::parse(email).unwrap())
}

/// The settings of production, with a cheap hash.
pub(crate) fn config() -> AuthConfig {
    // Tests of other mails count them.
    let quiet = AuthConfig { new_device_notice: false, ..AuthConfig::default() };
    let mut config = AuthConfig { password: PasswordAlgorithm::Bcrypt { cost: 4 }, ..quiet };
    config.jwt.secret = Secret::new("a-secret-of-at-least-thirty-two-bytes");
    config
}

/// Every limit of requests and attempts by address gets this policy.
pub(crate) fn limit_by_address(limits: &mut Limits, policy: Policy) {
    // All fields are named, so that a new one does not compile until it is decided here.
    let Limits {
        login,
        login_account: _,
        register,
        magic_link,
        anonymous,
        email_code,
        device,
        two_factor,
        two_factor_account: _,
        password_reset,
        email_verification,
        oauth,
    } = limits;
    for limit in [
        login,
        register,
        magic_link,
        anonymous,
        email_code,
        device,
        two_factor,
        password_reset,
        email_verification,
        oauth,
    ] {
        limit.policy = policy;
    }
}

/// A limit that no test reaches.
pub(crate) fn unlimited() -> Policy {
    Policy::new(1000, Duration::ZERO, Duration::ZERO)
}

impl Site {
    /// The usual site over a database.
    pub(crate) async fn on(db: &TestDb) -> Self {
        Self::with(config(), |builder| builder.database(db.db.clone())).await
    }

    /// A site over what `complete` gives the builder.
    pub(crate) async fn with(config: AuthConfig, complete: impl FnOnce(AuthBuilder) -> AuthBuilder) -> Self {
        Self::with_ambient(config, |builder, _| complete(builder)).await
    }

    /// The same, for stores that need the site's own clock.
    pub(crate) async fn with_ambient(
        config: AuthConfig,
        complete: impl FnOnce(AuthBuilder, &Ambient) -> AuthBuilder,
    ) -> Self {
        Self::at(config, 0, complete).await
    }

    /// A site that starts some seconds after others.
    pub(crate) async fn starting(
        config: AuthConfig,
        seconds: i64,
        complete: impl FnOnce(AuthBuilder) -> AuthBuilder,
    ) -> Self {
        Self::at(config, seconds, |builder, _| complete(builder)).await
    }

    async fn at(config: AuthConfig, seconds: i64, complete: impl FnOnce(AuthBuilder, &Ambient) -> AuthBuilder) -> Self {
        // Sites over one database must not draw the same ids.
        static SEED: AtomicU64 = AtomicU64::new(1);
        let start: Timestamp = "2026-01-02T03:04:05.678901Z".parse().unwrap();
        let (ambient, clock) = Ambient::manual(start, SEED.fetch_add(1, Ordering::Relaxed));
        clock.advance(SignedDuration::from_secs(seconds));
        let audit = Arc::new(Recorder::default());
        let builder = Auth::builder(config).ambient(ambient.clone()).audit(audit.clone()).plugin(PasswordPlugin);
        let auth = complete(builder, &ambient).build().await.expect("the configuration is sound");
        let presented = Arc::new(Mutex::new(None));
        let keep = presented.clone();
        let catch = from_fn(move |request: Request, next: Next| {
            *keep.lock() = request.extensions().get::<Presented>().cloned();
            next.run(request)
        });
        let router = Router::new()
            .route("/whoami", get(whoami))
            .route("/session", get(async |session: Session| session.id().to_string()))
            .route("/pending", get(async |session: PendingSession| session.id().to_string()))
            .route("/any", get(async |session: AnySession| session.id().to_string()))
            .layer(catch)
            .merge(auth.router())
            .layer(auth.middleware());
        Self { auth, router, clock, ambient, audit, presented }
    }

    /// A site that a test builds itself, without access to its clock and audit events.
    pub(crate) fn of(auth: Auth, router: Router) -> Self {
        let (ambient, clock) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
        Self { auth, router, clock, ambient, audit: Arc::default(), presented: Arc::default() }
    }

    /// Mounts the screens too.
    pub(crate) fn and_screens(mut self) -> Self {
        self.router = self.router.merge(self.auth.screens());
        self
    }

    /// The pages of the account, one after the other.
    pub(crate) async fn account(&self, cookie: &str) -> String {
        let mut pages = String::new();
        let first = Call::get("/account").cookie(cookie).send(self).await.expect(303);
        let first = Call::get(first.location().unwrap()).cookie(cookie).send(self).await.expect(200).body;
        let menu = first.split("<nav class=\"menu\"").nth(1).unwrap().split("</nav>").next().unwrap();
        for link in menu.split("href=\"").skip(1) {
            let path = link.split('"').next().unwrap();
            pages.push_str(&Call::get(path).cookie(cookie).send(self).await.expect(200).body);
        }
        pages
    }

    pub(crate) fn advance(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    /// Registers Ann by JSON.
    pub(crate) async fn register_ann(&self) -> Answer {
        self.register(ANN).await
    }

    pub(crate) async fn register(&self, email: &str) -> Answer {
        let body = json!({ "email": email, "password": PASSWORD });
        let answer = Call::post("/auth/register").json(&body).send(self).await.expect(200);
        self.advance(1);
        answer
    }

    /// Signs Ann in by JSON, right password.
    pub(crate) async fn login_ann(&self) -> Answer {
        self.login(ANN, PASSWORD).await
    }

    pub(crate) async fn login(&self, email: &str, password: &str) -> Answer {
        Call::post("/auth/login").json(&json!({ "email": email, "password": password })).send(self).await
    }

    /// Registers Ann and signs her in.
    pub(crate) async fn signed_in_ann(&self) -> Answer {
        self.signed_in(ANN).await
    }

    /// Registers somebody and signs them in.
    pub(crate) async fn signed_in(&self, email: &str) -> Answer {
        self.register(email).await;
        self.login(email, PASSWORD).await.expect(200)
    }

    pub(crate) async fn me(&self, cookie_of: &Answer) -> Answer {
        Call::get("/auth/me").cookie_of(cookie_of).send(self).await
    }

    /// The audit kinds so far.
    pub(crate) fn audited(&self) -> Vec<AuditKind> {
        self.audit.events().iter().map(|event| event.kind).collect()
    }
}

async fn whoami(Caller(identity): Caller) -> Json<Value> {
    Json(match identity {
        Identity::Anonymous => json!("anonymous"),
        Identity::Pending(id) => json!({ "pending": id }),
        Identity::Known(principal) => json!({
            "id": principal.subject.as_str(),
            "roles": principal.roles,
            "credential": format!("{:?}", principal.credential).split([' ', '(']).next(),
        }),
    })
}

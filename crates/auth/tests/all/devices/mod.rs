//! Known devices: the owner's browser is not locked out, and a new device causes a notice.

mod attacks;
mod journeys;

use std::sync::Arc;
use std::time::Duration;

use gatewright_auth::audit::AuditKind;
use gatewright_auth::plugins::email_change::EmailChangePlugin;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::plugins::password_reset::PasswordResetPlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_auth::{AuthConfig, Mail, MailKind};
use gatewright_db::testing::TestDb;
use gatewright_limits::Policy;
use http::header::SET_COOKIE;
use serde_json::{Value, json};

use crate::mailed::Post;
use crate::support::{ANN, Answer, Call, PASSWORD, Site, config, set_proven};

const FIREFOX: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0";

struct Place {
    site: Site,
    post: Arc<Post>,
}

/// A browser that keeps its device cookie and nothing else.
#[derive(Default, Clone)]
struct Browser {
    device: Option<String>,
}

impl Place {
    /// A site where Ann is registered and addresses are not limited.
    async fn on(db: &TestDb) -> Self {
        Self::with(db, |config| config).await
    }

    /// The same, where the account is not limited either.
    async fn without_lockout(db: &TestDb) -> Self {
        let unlimited = |mut config: AuthConfig| {
            config.limits.login_account.policy = many();
            config
        };
        Self::with(db, unlimited).await
    }

    async fn with(db: &TestDb, change: impl FnOnce(AuthConfig) -> AuthConfig) -> Self {
        let place = Self::again(db, change).await;
        place.site.register_ann().await;
        // Notices go to proven mailboxes only.
        set_proven(&db.db, ANN, true).await;
        place
    }

    /// The same over a database where Ann is registered already.
    async fn again(db: &TestDb, change: impl FnOnce(AuthConfig) -> AuthConfig) -> Self {
        let post = Arc::new(Post::default());
        let public_url = Some("https://app.example.com".parse().unwrap());
        let mut config = AuthConfig { public_url, new_device_notice: true, ..config() };
        config.limits.login.policy = many();
        config.limits.two_factor.policy = many();
        let site = Site::with(change(config), |builder| {
            let builder = builder.database(db.db.clone()).mailer(post.clone()).plugin(TwoFactorPlugin::new("Test"));
            let builder = builder.plugin(MagicLinkPlugin::new()).plugin(PasswordResetPlugin::new());
            builder.plugin(EmailChangePlugin::new())
        });
        Self { site: site.await.and_screens(), post }
    }

    async fn mails(&self) -> Vec<Mail> {
        self.site.auth.settle(Duration::from_secs(10)).await;
        self.post.mails.lock().clone()
    }

    /// The notices so far.
    async fn notices(&self) -> Vec<Mail> {
        self.mails().await.into_iter().filter(|mail| mail.kind == MailKind::NewDevice).collect()
    }

    async fn token(&self, kind: MailKind) -> String {
        let mails = self.mails().await;
        let mail = mails.iter().rev().find(|mail| mail.kind == kind).expect("such a mail was sent");
        mail.link.expose().split_once("?token=").unwrap().1.to_owned()
    }

    async fn devices(&self, session: &Answer, browser: &Browser) -> Vec<Value> {
        let call = browser.on(Call::get("/auth/devices"), Some(session));
        call.send(&self.site).await.expect(200).json()["devices"].as_array().unwrap().clone()
    }

    fn added(&self) -> usize {
        self.site.audited().into_iter().filter(|kind| *kind == AuditKind::DeviceAdded).count()
    }
}

impl Browser {
    /// The call with this browser's cookies.
    fn on(&self, call: Call, session: Option<&Answer>) -> Call {
        let session = session.map(|session| session.cookie().expect("a session"));
        let cookies: Vec<_> = session.into_iter().chain(self.device.clone()).collect();
        if cookies.is_empty() { call } else { call.cookie(&cookies.join("; ")) }
    }

    /// Keeps what an answer sets.
    fn keep(&mut self, answer: Answer) -> Answer {
        self.device = device_of(&answer).or(self.device.take());
        answer
    }

    async fn try_login(&self, site: &Site, email: &str, password: &str) -> Answer {
        let call = Call::post("/auth/login").header("user-agent", FIREFOX);
        self.on(call.json(&json!({ "email": email, "password": password })), None).send(site).await
    }

    async fn login(&mut self, site: &Site) -> Answer {
        let answer = self.try_login(site, ANN, PASSWORD).await.expect(200);
        site.advance(1);
        self.keep(answer)
    }
}

/// The device cookie that an answer sets, as the browser sends it back.
pub(crate) fn device_of(answer: &Answer) -> Option<String> {
    let lines = answer.headers.get_all(SET_COOKIE).iter().map(|value| value.to_str().unwrap());
    let line = lines.into_iter().find(|line| line.starts_with("__Host-svc_device="))?;
    assert!(line.contains("; HttpOnly; SameSite=Lax; Secure; Path=/; Max-Age=34560000"), "{line}");
    line.split(';').next().map(str::to_owned)
}

fn many() -> Policy {
    Policy::new(100_000, Duration::from_mins(15), Duration::from_mins(30))
}

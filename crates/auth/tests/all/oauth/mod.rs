//! Sign-in with providers: the flow, its decisions, and linked accounts.

mod accounts;
mod apple;
mod certified;
mod claims;
mod init;
mod known;
mod late;
mod link;
mod microsoft;
mod proofs;
mod races;
mod screen;
mod sign_in;
mod state;
mod stolen;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_auth::plugins::accounts::AccountsPlugin;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::plugins::oauth::OAuthPlugin;
use gatewright_auth::providers::{
    Authorization, Callback, Identified, Provider, ProviderError, ProviderIdentity, ProviderTokens,
};
use gatewright_auth::{AuthBuilder, AuthConfig};
use gatewright_base::Secret;
use gatewright_db::Db;
use http::header::SET_COOKIE;
use parking_lot::Mutex;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::mailed::Post;
use crate::support::{Answer, Call, Site, config, query, unlimited};

pub(crate) const STATE_SECRET: &str = "a state secret of at least 32 bytes";
const NOT_HERE: &str = "oauth flow was not started in this browser";

/// A provider whose codes stand for the identities that a test gives them.
#[derive(Clone)]
pub(crate) struct Fake {
    name: &'static str,
    codes: Arc<Mutex<HashMap<String, Result<ProviderIdentity, ProviderError>>>>,
    /// The challenge that a code is bound to.
    challenges: Arc<Mutex<HashMap<String, String>>>,
    /// What to leave out of the redirect.
    forgets: Arc<Mutex<&'static str>>,
}

static SERIAL: AtomicU64 = AtomicU64::new(1);

impl Fake {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, codes: Arc::default(), challenges: Arc::default(), forgets: Arc::default() }
    }

    /// A code for this identity. Like any code it works once.
    pub(crate) fn code(&self, identity: &ProviderIdentity) -> String {
        self.answer(Ok(identity.clone()))
    }

    /// A code for this identity that the provider bound to the flow: only its verifier exchanges it.
    fn code_of(&self, begun: &Begun, identity: &ProviderIdentity) -> String {
        let code = self.code(identity);
        self.challenges.lock().insert(code.clone(), begun.parameter("code_challenge"));
        code
    }

    fn answer(&self, answer: Result<ProviderIdentity, ProviderError>) -> String {
        let code = format!("canary-code-{}", SERIAL.fetch_add(1, Ordering::Relaxed));
        self.codes.lock().insert(code.clone(), answer);
        code
    }
}

#[async_trait]
impl Provider for Fake {
    fn name(&self) -> &str {
        self.name
    }

    fn label(&self) -> &str {
        self.name
    }

    async fn authorize_url(&self, request: &Authorization<'_>) -> Result<Url, ProviderError> {
        let forgotten = *self.forgets.lock();
        let own = [("state", request.state), ("redirect_uri", request.redirect.as_str())];
        let query = own.into_iter().chain(request.proofs.challenge()).filter(|(name, _)| *name != forgotten);
        Ok(Url::parse_with_params(&format!("https://{}.example/authorize", self.name), query).unwrap())
    }

    async fn identify(&self, callback: &Callback<'_>) -> Result<Identified, ProviderError> {
        assert_eq!(callback.redirect.path(), format!("/auth/oauth/{}/callback", self.name));
        let code = callback.code.expose();
        let mut answer = self.codes.lock().remove(code);
        let challenge = self.challenges.lock().get(code).cloned();
        let made = URL_SAFE_NO_PAD.encode(Sha256::digest(callback.proofs.verifier().expose()));
        if challenge.is_some_and(|challenge| challenge != made) {
            answer = None;
        }
        // Requests that come at the same time are released together.
        tokio::task::yield_now().await;
        let identity = answer.unwrap_or_else(|| Err(ProviderError::refused("invalid_grant")))?;
        let tokens = ProviderTokens {
            access: Secret::new("canary-access-token"),
            refresh: Some(Secret::new("canary-refresh-token")),
            expires_at: None,
            scope: None,
        };
        Ok(Identified { identity, tokens })
    }

    async fn refresh(&self, _: &Secret) -> Result<ProviderTokens, ProviderError> {
        Err(ProviderError::Unavailable("a fake"))
    }
}

pub(crate) fn identity(id: &str, email: Option<&str>, verified: bool) -> ProviderIdentity {
    ProviderIdentity {
        provider_id: id.to_owned(),
        email: email.map(str::to_owned),
        email_verified: verified,
        name: Some("Ann Example".to_owned()),
        avatar_url: Some("https://img.example/ann.png".to_owned()),
    }
}

/// A site with two providers.
struct Place {
    site: Site,
    post: Arc<Post>,
    alpha: Fake,
    beta: Fake,
}

fn with_public_url() -> AuthConfig {
    let public_url = Some("https://app.example.com".parse().unwrap());
    let mut config = AuthConfig { public_url, ..config() };
    config.limits.oauth.policy = unlimited();
    config
}

impl Place {
    async fn on(db: &Db) -> Self {
        Self::with(with_public_url(), |builder| builder.database(db.clone())).await
    }

    async fn with(config: AuthConfig, complete: impl FnOnce(AuthBuilder) -> AuthBuilder) -> Self {
        let (alpha, beta, post) = (Fake::new("alpha"), Fake::new("beta"), Arc::new(Post::default()));
        let oauth = OAuthPlugin::new(Secret::new(STATE_SECRET))
            .tokens(Secret::new("a token key of at least thirty-two bytes"), Vec::new())
            .provider(Arc::new(alpha.clone()))
            .provider(Arc::new(beta.clone()));
        let site = Site::with(config, |builder| {
            let builder = builder.plugin(oauth).plugin(AccountsPlugin).plugin(MagicLinkPlugin::new());
            complete(builder.mailer(post.clone()))
        });
        Self { site: site.await, post, alpha, beta }
    }

    /// Begins a flow at `path`, as the browser that sends `cookies`, and returns the state with its cookie.
    async fn begin(&self, path: &str, cookies: &str) -> Begun {
        let answer = Call::get(path).cookie(cookies).send(&self.site).await.expect(303);
        Begun::of(&answer)
    }

    /// Returns with a code.
    async fn back(&self, provider: &str, begun: &Begun, code: &str, cookies: &str) -> Answer {
        let path = format!("/auth/oauth/{provider}/callback?code={code}&state={}", begun.state);
        let answer = Call::get(&path).cookie(&format!("{}; {cookies}", begun.cookie)).send(&self.site).await;
        assert!(clears_state(&answer), "the state is forgotten in every case: {answer:?}");
        answer
    }

    /// The whole of a flow, begun at `path` by the browser that sends `cookies`.
    async fn flow(&self, provider: &Fake, path: &str, cookies: &str, identity: &ProviderIdentity) -> Answer {
        let begun = self.begin(path, cookies).await;
        self.back(provider.name, &begun, &provider.code(identity), cookies).await
    }

    /// The whole of a sign-in at alpha.
    async fn sign_in(&self, identity: &ProviderIdentity) -> Answer {
        self.flow(&self.alpha, "/auth/oauth/alpha", "", identity).await
    }

    /// The whole of a sign-in at alpha by a browser that then wants to go to `next`.
    async fn sign_in_to(&self, next: &str, identity: &ProviderIdentity) -> Answer {
        let query = query("next", next);
        self.flow(&self.alpha, &format!("/auth/oauth/alpha?{query}"), "", identity).await
    }

    /// The whole of a link to alpha.
    async fn link(&self, session: &str, identity: &ProviderIdentity) -> Answer {
        self.flow(&self.alpha, "/auth/oauth/alpha/link", session, identity).await
    }

    async fn me(&self, session: &str) -> Answer {
        Call::get("/auth/me").cookie(session).send(&self.site).await
    }

    /// Who a session belongs to.
    async fn user(&self, session: &str) -> String {
        self.me(session).await.expect(200).json()["user"]["id"].as_str().unwrap().to_owned()
    }

    async fn accounts(&self, session: &str) -> Vec<serde_json::Value> {
        let answer = Call::get("/auth/accounts").cookie(session).send(&self.site).await.expect(200);
        answer.json()["accounts"].as_array().unwrap().clone()
    }

    /// Signs in by a magic link.
    async fn by_magic_link(&self, email: &str) -> Answer {
        let send = Call::post("/auth/magic-link/send").json(&json!({ "email": email }));
        send.send(&self.site).await.expect(200);
        let token = self.newest_token().await;
        Call::post("/auth/magic-link/verify").json(&json!({ "token": token })).send(&self.site).await
    }

    /// The token of the newest mail.
    async fn newest_token(&self) -> String {
        self.site.auth.settle(Duration::from_secs(10)).await;
        let link = self.post.mails.lock().last().expect("a mail was sent").link.clone();
        link.expose().split_once("token=").unwrap().1.to_owned()
    }

    /// Registers with a password and signs in.
    async fn ann(&self) -> String {
        self.site.signed_in_ann().await.cookie().unwrap()
    }
}

/// A flow under way in a browser.
pub(crate) struct Begun {
    pub(crate) state: String,
    /// The state's cookie and the one that binds it, as the browser sends them back.
    pub(crate) cookie: String,
    /// The state's cookie as it was set.
    set_cookie: String,
    location: Url,
}

impl Begun {
    pub(crate) fn of(answer: &Answer) -> Self {
        let location = Url::parse(answer.location().unwrap()).unwrap();
        let state = parameter(&location, "state");
        let set_cookies = cookies(answer);
        let set_cookie = set_cookies.iter().find(|line| line.starts_with("svc_oauth_state=")).unwrap().clone();
        let mine = set_cookies.iter().filter(|line| line.contains("svc_oauth_"));
        let cookie = mine.map(|line| line.split(';').next().unwrap()).collect::<Vec<_>>().join("; ");
        Self { state, cookie, set_cookie, location }
    }
}

impl Begun {
    /// A parameter of the redirect.
    fn parameter(&self, name: &str) -> String {
        parameter(&self.location, name)
    }
}

fn parameter(url: &Url, name: &str) -> String {
    url.query_pairs().find(|(found, _)| found == name).unwrap().1.into_owned()
}

/// Every `Set-Cookie` line.
fn cookies(answer: &Answer) -> Vec<String> {
    answer.headers.get_all(SET_COOKIE).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
}

/// The session's cookie as the browser sends it back, if the answer set one.
fn session(answer: &Answer) -> Option<String> {
    let line = cookies(answer).into_iter().find(|line| line.starts_with("__Host-session="))?;
    Some(line.split(';').next().unwrap().to_owned())
}

fn clears_state(answer: &Answer) -> bool {
    let clears = |name: &str| cookies(answer).iter().any(|line| line.starts_with(name) && line.contains("Max-Age=0"));
    clears("svc_oauth_state=;") && (clears("__Host-svc_oauth_binding=;") || clears("svc_oauth_binding=;"))
}

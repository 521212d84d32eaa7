//! A certified OpenID Connect provider, which requires PKCE: stolen codes, changed redirects, and the tokens of a sign-in and
//! their refresh. What people do with such a provider in a browser is tested from outside, in the workspace's
//! `tests/providers.rs`.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use gatewright_auth::plugins::accounts::AccountsPlugin;
use gatewright_auth::plugins::oauth::OAuthPlugin;
use gatewright_auth::providers::oidc::{Oidc, OidcConfig};
use gatewright_auth::providers::{OAuthClient, Provider, ProviderHttp};
use gatewright_auth::{Auth, AuthConfig};
use gatewright_base::{Ambient, Secret, UserId};
use gatewright_db::Db;
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use url::Url;

use super::{Begun, STATE_SECRET, parameter, session, with_public_url};
use crate::support::{Call, Site, databases};

const REDIRECT: &str = "https://app.example.com/auth/oauth/idp/callback";
const CLIENT_SECRET: &str = "canary-client-secret-of-the-identity-provider";

/// The provider that lies beside the black-box tests. Ends when dropped, and when this program ends.
struct Certified {
    child: Child,
    _output: BufReader<std::process::ChildStdout>,
    issuer: Url,
}

impl Certified {
    fn start(alg: &str) -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/identity-provider");
        if !folder.join("node_modules/oidc-provider").exists() {
            assert!(env::var_os("GATEWRIGHT_TEST_REQUIRED").is_none(), "`npm ci` has not run in {}", folder.display());
            return None;
        }
        let node = env::var_os("GATEWRIGHT_TEST_NODE").unwrap_or_else(|| "node".into());
        let mut command = Command::new(node);
        command.args(["provider.mjs", alg, "people.example", REDIRECT]).current_dir(folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (mut output, mut first) = (BufReader::new(child.stdout.take().unwrap()), String::new());
        output.read_line(&mut first).unwrap();
        let issuer = first.trim().strip_prefix("issuer ").expect("the provider starts").parse().unwrap();
        Some(Self { child, _output: output, issuer })
    }

    /// Signs in and consents on its pages, and returns the address of the callback.
    async fn callback(&self, authorize: &Url, login: &str) -> Url {
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let mut jar: Vec<(String, String)> = Vec::new();
        let (mut url, mut form): (Url, Option<Vec<(&str, String)>>) = (authorize.clone(), None);
        for _ in 0..20 {
            if url.as_str().starts_with(REDIRECT) {
                return url;
            }
            let cookies: Vec<String> = jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let request = match form.take() {
                Some(fields) => http.post(url.clone()).form(&fields),
                None => http.get(url.clone()),
            };
            let answer = request.header(COOKIE, cookies.join("; ")).send().await.unwrap();
            for line in answer.headers().get_all(SET_COOKIE) {
                let (name, value) = line.to_str().unwrap().split(';').next().unwrap().split_once('=').unwrap();
                jar.retain(|(kept, _)| kept != name);
                jar.push((name.to_owned(), value.to_owned()));
            }
            if let Some(location) = answer.headers().get(LOCATION) {
                url = self.issuer.join(location.to_str().unwrap()).unwrap();
                continue;
            }
            let page = answer.text().await.unwrap();
            let after = |mark: &str| page.split_once(mark).unwrap().1.split_once('"').unwrap().0.to_owned();
            let prompt = after("name=\"prompt\" value=\"");
            url = self.issuer.join(&after("action=\"")).unwrap();
            form = Some(vec![("prompt", prompt), ("login", login.to_owned()), ("password", "anything".to_owned())]);
        }
        panic!("no end of pages");
    }
}

impl Drop for Certified {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Path and query of a callback.
fn path(callback: &Url) -> &str {
    &callback[url::Position::BeforePath..]
}

/// The address with other values of parameters. An empty value leaves a parameter out.
fn with(url: &Url, changes: &[(&str, &str)]) -> Url {
    let kept = url.query_pairs().filter(|(name, _)| !changes.iter().any(|(changed, _)| name == changed));
    let kept: Vec<_> = kept.map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    let mut replaced = url.clone();
    let added = changes.iter().filter(|(_, value)| !value.is_empty());
    replaced.query_pairs_mut().clear().extend_pairs(kept).extend_pairs(added);
    replaced
}

/// A site with the real clock, which the provider's tokens use.
async fn site(db: &Db, certified: &Certified) -> (Auth, axum::Router) {
    let client = OAuthClient { id: "gatewright".to_owned(), secret: Secret::new(CLIENT_SECRET) };
    // The issuer is spelled without the slash that a URL has at its end.
    let config = OidcConfig::new("idp", certified.issuer.as_str().trim_end_matches('/'), client);
    let plugin = OAuthPlugin::new(Secret::new(STATE_SECRET))
        .tokens(Secret::new("a token key of at least thirty-two bytes"), Vec::new())
        .provider_with(|ambient| {
            Ok(Arc::new(Oidc::new(config, ProviderHttp::new()?, ambient.clone())?) as Arc<dyn Provider>)
        });
    let config: AuthConfig = with_public_url();
    let builder = Auth::builder(config).ambient(Ambient::system()).database(db.clone());
    let auth = builder.plugin(gatewright_auth::plugins::password::PasswordPlugin).plugin(plugin).plugin(AccountsPlugin);
    let auth = auth.build().await.unwrap();
    let router = axum::Router::new().merge(auth.router()).layer(auth.middleware());
    (auth, router)
}

/// The attacks of RFC 9700, sections 2.1.1, 4.4 and 4.5, against the pair of this service and a real provider.
#[tokio::test]
async fn a_certified_providers_code_works_only_in_the_flow_that_it_was_issued_for() {
    for database in databases().await {
        let Some(certified) = Certified::start("ES256") else { return };
        let (auth, router) = site(&database.db, &certified).await;
        let site = Site::of(auth, router);
        let begin = async || Begun::of(&Call::get("/auth/oauth/idp").send(&site).await.expect(303));
        let (victims, eves) = (begin().await, begin().await);
        assert_ne!(parameter(&victims.location, "nonce"), parameter(&eves.location, "nonce"));

        // The victim's code, in Eve's flow.
        let stolen = certified.callback(&victims.location, "ann").await;
        let injected = with(&stolen, &[("state", &eves.state)]);
        let refused = Call::get(path(&injected)).cookie(&eves.cookie).send(&site).await.expect(400);
        assert_eq!((refused.json()["code"].as_str(), session(&refused)), (Some("provider_error"), None));

        // Eve sends the victim to the provider with the challenge of her own flow, and the nonce of the victim's, of another
        // flow, or none.
        for nonce in [&*parameter(&victims.location, "nonce"), "another", ""] {
            let changed = with(&eves.location, &[("nonce", nonce)]);
            let callback = certified.callback(&changed, "ann").await;
            let refused = Call::get(path(&callback)).cookie(&eves.cookie).send(&site).await.expect(502);
            assert_eq!(session(&refused), None, "the nonce {nonce:?}");
        }
        // Without a challenge this provider gives no code, and with another one the code is not exchanged.
        let bare = with(&eves.location, &[("code_challenge", ""), ("code_challenge_method", "")]);
        let callback = certified.callback(&bare, "ann").await;
        assert!(callback.query_pairs().all(|(name, _)| name != "code"), "{callback}");
        let swapped = with(&eves.location, &[("code_challenge", &parameter(&victims.location, "code_challenge"))]);
        let callback = certified.callback(&swapped, "ann").await;
        Call::get(path(&callback)).cookie(&eves.cookie).send(&site).await.expect(400);
        // The provider names itself, and a callback that names another, or nobody, is not its own.
        for issuer in ["https://evil.example", ""] {
            let flow = begin().await;
            let callback = certified.callback(&flow.location, "ann").await;
            let other = with(&callback, &[("iss", issuer)]);
            Call::get(path(&other)).cookie(&flow.cookie).send(&site).await.expect(400);
            Call::get(path(&callback)).cookie(&flow.cookie).send(&site).await.expect(303);
        }
    }
}

#[tokio::test]
async fn a_certified_providers_tokens_are_kept_and_refreshed() {
    for database in databases().await {
        for alg in ["RS256", "ES256"] {
            let Some(certified) = Certified::start(alg) else { return };
            let (auth, router) = site(&database.db, &certified).await;
            let site = Site::of(auth, router);
            let begun = Begun::of(&Call::get("/auth/oauth/idp").send(&site).await.expect(303));
            let login = format!("ann-{alg}");
            let callback = certified.callback(&begun.location, &login).await;
            let answer = Call::get(path(&callback)).cookie(&begun.cookie).send(&site).await.expect(303);
            let cookie = session(&answer).unwrap();
            let me = Call::get("/auth/me").cookie(&cookie).send(&site).await.expect(200).json();
            assert_eq!(me["user"]["email"], format!("{}@people.example", login.to_lowercase()));
            let user = UserId::parse(me["user"]["id"].as_str().unwrap()).unwrap();

            let tokens = site.auth.oauth_tokens().unwrap();
            let first = tokens.valid_oauth_token(&user, "idp").await.unwrap();
            assert_eq!(tokens.valid_oauth_token(&user, "idp").await.unwrap(), first);
            let second = tokens.refresh_oauth_token(&user, "idp").await.unwrap();
            assert_ne!(second, first, "{}: {alg}", database.name);
            // The refreshed one opens the provider's own interface.
            let userinfo = certified.issuer.join("/me").unwrap();
            let answer = reqwest::Client::new().get(userinfo).bearer_auth(second.expose()).send().await.unwrap();
            assert_eq!(answer.status(), 200);
            let third = tokens.refresh_oauth_token(&user, "idp").await.unwrap();
            assert_ne!(third, second);
        }
    }
}

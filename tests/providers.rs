//! Sign-in with a certified OpenID Connect provider, on its own pages.

use std::{collections::HashSet, fs};

use reqwest::{Method, Url};
use serde_json::json;

use crate::harness::{Answer, Browser, Client, Database, IdentityProvider, Launch, Scripts, Server};

/// A server with two providers. The server and its clients reach them at their addresses.
struct Place {
    server: Server,
    /// The server's public address.
    here: String,
    first: IdentityProvider,
    second: IdentityProvider,
}

impl Place {
    /// `None` if the provider's packages are not installed.
    async fn start(alg: &str, database: &Database) -> Option<Self> {
        Self::start_at("127.0.0.1", alg, database).await
    }

    /// The same, with another host name of this computer for the server.
    async fn start_at(host: &str, alg: &str, database: &Database) -> Option<Self> {
        let mut server = Launch::dev().env("RUST_LOG", "trace").start(database).await;
        let here = format!("http://{}", server.address().replace("127.0.0.1", host));
        let start = |name: &str, alg, domain| {
            IdentityProvider::start(alg, domain, &format!("{here}/auth/oauth/{name}/callback"))
        };
        let first = start("first", alg, "first.example")?;
        let second = start("second", alg, "second.example")?;
        let configuration = format!(
            "[server]\npublic_url = \"{here}\"\n[auth.oauth]\nstate_secret = \"canary-state-secret\"\n\
             token_encryption_key = \"canary-encryption-key\"\n[auth.limits.oauth]\nmax_attempts = 1000\n{}{}",
            first.configuration("first"),
            second.configuration("second"),
        );
        // The server and the providers know each other's addresses only after both have started.
        server.kill();
        fs::write(server.folder().join("gatewright.toml"), configuration).unwrap();
        server.restart();
        Some(Self { server, here, first, second })
    }

    async fn back(&self, client: &Client, callback: &Url) -> Answer {
        assert!(callback.as_str().starts_with(&self.here), "{callback}");
        Answer::read(client.request_at(Method::GET, callback.clone())).await
    }

    async fn sign_in(&self, client: &Client, login: &str) -> Answer {
        let callback = self.first.walk(client, "/auth/oauth/first?next=/healthz", login).await;
        self.back(client, &callback).await
    }
}

async fn me(client: &Client) -> serde_json::Value {
    client.get("/auth/me").await.is(200).json()
}

async fn providers(client: &Client) -> Vec<String> {
    let accounts = client.get("/auth/accounts").await.is(200).json();
    accounts["accounts"].as_array().unwrap().iter().map(|a| a["provider"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_signs_in_links_and_unlinks_with_a_certified_provider() {
    for database in Database::all().await {
        for alg in ["RS256", "ES256"] {
            let database = match &database {
                Database::Sqlite => Database::Sqlite,
                _ => Database::postgres().await.unwrap(),
            };
            let Some(place) = Place::start(alg, &database).await else { return };

            // A new user, and the same user again in another browser.
            let (ann, elsewhere) = (place.server.client(), place.server.client());
            assert_eq!(place.sign_in(&ann, "ann").await.is(303).header("location"), "/healthz");
            let profile = me(&ann).await;
            assert_eq!(profile["user"]["email"], "ann@first.example");
            assert_eq!(profile["emailVerified"], true);
            place.sign_in(&elsewhere, "ann").await.is(303);
            assert_eq!(me(&elsewhere).await["user"]["id"], profile["user"]["id"]);
            let accounts = ann.get("/auth/accounts").await.json()["accounts"].clone();
            assert_eq!(accounts.as_array().unwrap().len(), 1);
            assert_eq!((&accounts[0]["providerId"], &accounts[0]["name"]), (&json!("ann"), &json!("The ann")));
            let unlink =
                |client: &Client, provider| client.request(Method::DELETE, &format!("/auth/unlink/{provider}"));
            Answer::read(unlink(&ann, "first")).await.is(409);

            // The same `sub` of another issuer is another user.
            let other = place.server.client();
            let callback = place.second.walk(&other, "/auth/oauth/second", "ann").await;
            place.back(&other, &callback).await.is(303);
            assert_ne!(me(&other).await["user"]["id"], profile["user"]["id"]);

            // Only the owner can link a password account.
            let bob = place.server.client();
            bob.register("bob@first.example").await.is(200);
            let stranger = place.server.client();
            let refused = place.sign_in(&stranger, "bob").await.is(303);
            let location = refused.header("location");
            assert!(location.starts_with("/healthz?error=") && location.contains("First"), "{location}");
            stranger.get("/auth/me").await.is(401);
            bob.log_in("bob@first.example").await.is(200);
            let callback = place.first.walk(&bob, "/auth/oauth/first/link", "bob").await;
            assert_eq!(place.back(&bob, &callback).await.is(303).header("location"), "/account");
            let callback = place.second.walk(&bob, "/auth/oauth/second/link?next=/x", "bob").await;
            assert_eq!(place.back(&bob, &callback).await.is(303).header("location"), "/x");
            assert_eq!(providers(&bob).await, ["first", "second"]);
            place.sign_in(&stranger, "bob").await.is(303);
            assert_eq!(me(&stranger).await["user"]["id"], me(&bob).await["user"]["id"]);
            Answer::read(unlink(&bob, "first")).await.is(200);
            Answer::read(unlink(&bob, "first")).await.is(404);
            assert_eq!(providers(&bob).await, ["second"]);
            let refused = place.sign_in(&place.server.client(), "bob").await.is(303);
            assert!(refused.header("location").starts_with("/healthz?error="), "{refused:?}");

            // An unverified address creates an account, and never links to an existing one.
            let carol = place.server.client();
            place.sign_in(&carol, "carol+unverified").await.is(303);
            assert_eq!(me(&carol).await["emailVerified"], false);
            let refused = place.sign_in(&place.server.client(), "bob+unverified").await.is(303);
            assert!(refused.header("location").starts_with("/healthz?error="), "{refused:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_that_is_refused_replayed_or_from_another_browser_gets_400_and_no_secret_is_logged() {
    let Some(place) = Place::start("RS256", &Database::Sqlite).await else { return };
    let ann = place.server.client();
    let callback = place.first.walk(&ann, "/auth/oauth/first", "ann").await;
    // Another browser sends the callback before the user's own browser does.
    let eve = place.server.client();
    let not_here = place.back(&eve, &callback).await.is(400);
    assert_eq!(not_here.json()["detail"], "oauth flow was not started in this browser");
    eve.get("/auth/me").await.is(401);
    place.back(&ann, &callback).await.is(303);
    let replayed = place.back(&ann, &callback).await.is(400);
    assert_eq!(replayed.json()["detail"], "oauth flow was not started in this browser");

    // A user who refuses consent at the provider returns with the provider's error.
    let start = ann.get("/auth/oauth/first").await.is(303);
    let state = Url::parse(start.header("location")).unwrap();
    let state = state.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    let refused = ann.get(&format!("/auth/oauth/first/callback?error=access_denied&state={state}")).await.is(400);
    assert_eq!(refused.json()["code"], "provider_error");
    // A code that the provider did not issue.
    let start = ann.get("/auth/oauth/first").await.is(303);
    let state_of =
        |url: &str| Url::parse(url).unwrap().query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    let forged = state_of(start.header("location"));
    let invalid = ann.get(&format!("/auth/oauth/first/callback?code=canary-code&state={forged}")).await.is(400);
    assert_eq!(invalid.json()["code"], "provider_error");

    let secrets: HashSet<String> = callback
        .query_pairs()
        .filter(|(name, _)| name == "code" || name == "state")
        .map(|(_, value)| value.into_owned())
        .chain([state, forged, "canary-".to_owned()])
        .collect();
    let log = place.server.log();
    assert!(log.contains("/auth/oauth") || !log.is_empty());
    for secret in secrets {
        assert!(!log.contains(&secret), "{secret} is in the log:\n{log}");
    }
}

/// The provider has an IP address, the server a host name: two sites. So the browser sends only cookies that are
/// allowed when another site leads here.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_signs_in_across_sites_and_links_another_provider() {
    let Some(browser) = Browser::start(Scripts::Off).await else { return };
    let Some(place) = Place::start_at("localhost", "ES256", &Database::Sqlite).await else { return };
    browser.open(&format!("{}/account", place.here)).await;
    browser.sees("Sign in").await;
    browser.picture("providers-login").await;
    browser.follow("Continue with First").await;
    consent(&browser, &place.first, "ann").await;
    browser.arrives(&format!("{}/account/sign-in", place.here)).await;
    browser.sees("ann@first.example").await;
    assert!(!browser.cookies().await.iter().any(|name| name.contains("oauth")), "the flow's cookie is cleared");

    browser.follow("Link Second").await;
    consent(&browser, &place.second, "anne").await;
    browser.arrives(&format!("{}/account/sign-in", place.here)).await;
    browser.sees("anne@second.example").await;
    browser.picture("providers-account").await;
    browser.press("Unlink").await;
    browser.sees("Link First").await;
    browser.press("Unlink").await;
    browser.sees("the last way to sign in").await;
}

/// Signs in on the provider's pages, and consents.
async fn consent(browser: &Browser, provider: &IdentityProvider, login: &str) {
    browser.sees("Sign-in").await;
    assert!(browser.url().await.starts_with(&provider.issuer));
    browser.fill_by_name("login", login).await;
    browser.fill_by_name("password", "anything").await;
    browser.press("Sign-in").await;
    browser.press("Continue").await;
}

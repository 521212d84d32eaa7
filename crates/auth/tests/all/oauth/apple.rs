//! Apple, whose page posts its answer from another site.

use std::sync::Arc;

use gatewright_auth::AuthConfig;
use gatewright_auth::plugins::accounts::AccountsPlugin;
use gatewright_auth::plugins::oauth::OAuthPlugin;
use gatewright_auth::providers::{Provider, ProviderHttp};
use gatewright_base::Secret;
use gatewright_base::testing::Log;
use gatewright_db::Db;
use http::Method;
use http::header::ALLOW;
use serde_json::{Value, json};

use super::{Begun, Fake, NOT_HERE, STATE_SECRET, clears_state, cookies, identity, session, with_public_url};
use crate::providers::claims;
use crate::support::{ANN, APPLE_KEY, Answer, Call, FakeProvider, SigningKey, Site, databases};

const CALLBACK: &str = "/auth/oauth/apple/callback";
const USER: &str = r#"{"name":{"firstName":"Ann","lastName":"Example"},"email":"victim@example.com"}"#;
const SUB: &str = "001999.0a1b2c3d4e5f.1234";

/// A site with Apple, and with another provider that does not post.
struct World {
    site: Site,
    apple: FakeProvider,
    alpha: Fake,
    key: SigningKey,
}

impl World {
    async fn on(db: &Db) -> Self {
        Self::with(with_public_url(), db).await
    }

    async fn with(config: AuthConfig, db: &Db) -> Self {
        let (apple, key, alpha) = (FakeProvider::start().await, SigningKey::rsa("k"), Fake::new("alpha"));
        let preset = apple.preset("apple", &[&key]);
        let plugin = OAuthPlugin::new(Secret::new(STATE_SECRET))
            .provider_with(move |ambient| preset.provider(ProviderHttp::new()?, ambient.clone()))
            .provider(Arc::new(alpha.clone()) as Arc<dyn Provider>);
        let site =
            Site::with(config, |builder| builder.database(db.clone()).plugin(plugin).plugin(AccountsPlugin)).await;
        Self { site, apple, alpha, key }
    }

    async fn begin(&self, path: &str, cookie: &str) -> Begun {
        Begun::of(&Call::get(path).cookie(cookie).send(&self.site).await.expect(303))
    }

    /// Apple gives this token for the next code, with the nonce of the flow.
    fn gives(&self, begun: &Begun, changes: &Value) {
        let now = self.site.ambient.now().as_second();
        let mut own = json!({
            "sub": SUB, "email": ANN, "email_verified": "true", "iat": now, "exp": now + 300, "name": null,
            "nonce": begun.parameter("nonce"),
        });
        own.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        self.apple.says("/me", json!({ "sub": SUB }));
        self.apple.gives(&self.key.token(&claims(&self.apple.issuer(), &own)));
    }

    /// Apple's page posts the answer: the browser sends only the cookies of the flow with it.
    async fn post(&self, cookie: &str, fields: &[(&str, &str)]) -> Answer {
        let call = Call::post(CALLBACK).form(fields).cookie(cookie);
        let call = call.header("origin", "https://appleid.apple.com").header("sec-fetch-site", "cross-site");
        call.send(&self.site).await
    }

    /// The browser follows the redirect, with its session.
    async fn follow(&self, posted: &Answer, begun: &Begun, cookie: &str) -> Answer {
        let query = posted.location().unwrap();
        assert!(query.starts_with('?'), "it stays at the callback: {query}");
        let call = Call::get(&format!("{CALLBACK}{query}")).cookie(&format!("{}; {cookie}", begun.cookie));
        call.header("sec-fetch-site", "cross-site").send(&self.site).await
    }

    /// A whole sign-in.
    async fn sign_in(&self, changes: &Value, user: Option<&str>) -> Answer {
        let begun = self.begin("/auth/oauth/apple", "").await;
        self.gives(&begun, changes);
        let fields: Vec<_> =
            [("state", &*begun.state), ("code", "a-code")].into_iter().chain(user.map(|user| ("user", user))).collect();
        let posted = self.post(&begun.cookie, &fields).await.expect(303);
        self.follow(&posted, &begun, "").await
    }

    async fn accounts(&self, cookie: &str) -> Vec<Value> {
        let answer = Call::get("/auth/accounts").cookie(cookie).send(&self.site).await.expect(200);
        answer.json()["accounts"].as_array().unwrap().clone()
    }

    async fn email(&self, answer: &Answer) -> String {
        let cookie = session(answer).unwrap_or_else(|| panic!("no session: {answer:?}"));
        let me = Call::get("/auth/me").cookie(&cookie).send(&self.site).await.expect(200).json();
        me["user"]["email"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn apple_signs_in_by_a_posted_form_and_sends_the_name_only_once() {
    for database in databases().await {
        for dev_mode in [false, true] {
            let world = World::with(AuthConfig { dev_mode, ..with_public_url() }, &database.db).await;
            let begun = world.begin("/auth/oauth/apple?next=/there", "").await;
            assert_eq!(begun.parameter("response_mode"), "form_post");
            let flow = Call::get("/auth/oauth/apple").send(&world.site).await.expect(303);
            let set = cookies(&flow);
            assert_eq!(set.len(), 2);
            assert!(set.iter().all(|line| line.contains("; HttpOnly; SameSite=None; Secure; Path=/")), "{set:?}");
            let lax = cookies(&Call::get("/auth/oauth/alpha").send(&world.site).await.expect(303));
            assert!(lax.iter().all(|line| line.contains("SameSite=Lax")), "{lax:?}");

            world.gives(&begun, &json!({}));
            let fields = [("state", &*begun.state), ("code", "a-code"), ("user", USER)];
            let posted = world.post(&begun.cookie, &fields).await.expect(303);
            assert!(cookies(&posted).is_empty(), "the flow goes on: {posted:?}");
            let answer = world.follow(&posted, &begun, "").await.expect(303);
            assert_eq!(answer.location(), Some("/there"));
            assert!(clears_state(&answer), "{answer:?}");
            if dev_mode {
                continue;
            }
            // The address of the form, which the browser can change, is not the user's.
            assert_eq!(world.email(&answer).await, ANN);
            let linked = world.accounts(&session(&answer).unwrap()).await;
            assert_eq!((&linked[0]["providerId"], &linked[0]["name"]), (&json!(SUB), &json!("Ann Example")));

            // The next time, Apple sends no name and may send no address.
            let again = world.sign_in(&json!({ "email": null }), None).await.expect(303);
            assert_eq!(world.email(&again).await, ANN);
        }
    }
}

#[tokio::test]
async fn a_posted_form_works_only_in_the_browser_that_began_the_flow_and_once() {
    for database in databases().await {
        let world = World::on(&database.db).await;
        let (anns, eves) = (world.begin("/auth/oauth/apple", "").await, world.begin("/auth/oauth/apple", "").await);
        let alphas = world.begin("/auth/oauth/alpha", "").await;
        let asked = world.apple.asked("/token").len();
        let (anns_state, _) = anns.cookie.split_once("; ").unwrap();
        let (_, eves_binding) = eves.cookie.split_once("; ").unwrap();
        // A page posts Eve's code and state in Ann's browser, or Ann's in Eve's, or those of another provider.
        for (state, cookie) in [
            (&eves.state, anns.cookie.clone()),
            (&anns.state, eves.cookie.clone()),
            (&anns.state, String::new()),
            (&anns.state, anns_state.to_owned()),
            (&anns.state, format!("{anns_state}; {eves_binding}")),
            (&alphas.state, alphas.cookie.clone()),
        ] {
            for fields in [
                &[("state", &**state), ("code", "a-code")][..],
                &[("state", state), ("error", "user_cancelled_authorize")],
            ] {
                let refused = world.post(&cookie, fields).await.expect(400);
                assert!(refused.body.contains(NOT_HERE) && session(&refused).is_none(), "{cookie}: {refused:?}");
                assert!(clears_state(&refused), "{refused:?}");
            }
        }
        for fields in
            [&[("code", "a-code")][..], &[("state", &anns.state), ("state", &anns.state), ("code", "a-code")], &[]]
        {
            world.post(&anns.cookie, fields).await.expect(400);
        }
        assert_eq!(world.apple.asked("/token").len(), asked, "no code was sent");

        // Ann's own works, and not again: Apple refuses the code, and her cookies are gone.
        world.gives(&anns, &json!({}));
        let fields = [("state", &*anns.state), ("code", "a-code")];
        let posted = world.post(&anns.cookie, &fields).await.expect(303);
        world.follow(&posted, &anns, "").await.expect(303);
        let replayed = world.post("", &fields).await.expect(400);
        assert!(replayed.body.contains(NOT_HERE), "{replayed:?}");
        // The token of her flow in Eve's has another nonce.
        let posted = world.post(&eves.cookie, &[("state", &eves.state), ("code", "a-code")]).await.expect(303);
        let refused = world.follow(&posted, &eves, "").await.expect(502);
        assert_eq!(session(&refused), None);
    }
}

#[tokio::test]
async fn only_a_provider_that_posts_gets_its_answer_by_a_form() {
    for database in databases().await {
        let world = World::on(&database.db).await;
        let begun = world.begin("/auth/oauth/alpha", "").await;
        let code = world.alpha.code(&identity("1", Some(ANN), true));
        let fields = [("state", &*begun.state), ("code", &*code)];
        let post = |path: &str| Call::post(path).form(&fields).cookie(&begun.cookie);
        let refused = post("/auth/oauth/alpha/callback").send(&world.site).await.expect(405);
        assert_eq!(refused.headers[ALLOW], "GET");
        post("/auth/oauth/none/callback").send(&world.site).await.expect(404);
        let begun = world.begin("/auth/oauth/apple", "").await;
        let json = Call::post(CALLBACK).json(&json!({ "state": begun.state, "code": "c" })).cookie(&begun.cookie);
        json.send(&world.site).await.expect(415);
        let long = [("state", &*begun.state), ("code", &*"c".repeat(40 * 1024))];
        world.post(&begun.cookie, &long).await.expect(413);
        Call::new(Method::HEAD, CALLBACK).cookie(&begun.cookie).send(&world.site).await.expect(405);
    }
}

#[tokio::test]
async fn apple_links_to_the_account_of_the_session_that_comes_with_the_redirect() {
    for database in databases().await {
        let world = World::on(&database.db).await;
        let ann = world.site.signed_in_ann().await.cookie().unwrap();
        let begun = world.begin("/auth/oauth/apple/link", &ann).await;
        world.gives(&begun, &json!({ "email": "ann@elsewhere.example" }));
        let fields = [("state", &*begun.state), ("code", "a-code"), ("user", USER)];
        let posted = world.post(&begun.cookie, &fields).await.expect(303);
        let answer = world.follow(&posted, &begun, &ann).await.expect(303);
        assert_eq!(answer.location(), Some("/account"));
        assert_eq!(world.accounts(&ann).await[0]["provider"], "apple");
    }
}

/// What goes wrong at Apple returns to the page that began the flow, and to no other.
#[tokio::test]
async fn an_error_that_apple_posts_returns_to_the_page_that_began_the_flow() {
    for database in databases().await {
        let world = World::on(&database.db).await;
        for (next, expected) in
            [("/there", Some("/there?error=user_cancelled_authorize&")), ("https://evil.example/", None)]
        {
            let begun = world.begin(&format!("/auth/oauth/apple?{}", crate::support::query("next", next)), "").await;
            let fields = [("state", &*begun.state), ("error", "user_cancelled_authorize")];
            let posted = world.post(&begun.cookie, &fields).await.expect(303);
            let answer = world.follow(&posted, &begun, "").await;
            match expected {
                Some(expected) => assert!(answer.location().unwrap().starts_with(expected), "{answer:?}"),
                None => assert_eq!(answer.expect(400).location(), None),
            }
        }
    }
}

/// An address that Apple does not vouch for takes over no account, and one of a password account only its owner links.
#[tokio::test]
async fn apples_address_takes_over_no_account() {
    for database in databases().await {
        let world = World::on(&database.db).await;
        world.site.signed_in_ann().await;
        for (verified, code) in [("false", "email_unverified"), ("true", "account_exists")] {
            let refused = world.sign_in(&json!({ "email_verified": verified }), Some(USER)).await.expect(409);
            assert_eq!((refused.json()["code"].as_str(), session(&refused)), (Some(code), None));
        }
        let refused = world.sign_in(&json!({ "email": null, "email_verified": null }), Some(USER)).await.expect(400);
        assert_eq!(refused.json()["code"], "email_missing");
    }
}

#[tokio::test]
async fn neither_the_form_nor_the_key_is_in_the_log() {
    let log = Log::default();
    let _recording = log.record();
    let database = databases().await.remove(0);
    let world = World::on(&database.db).await;
    for changes in [json!({}), json!({ "nonce": "another" }), json!({ "aud": "another" })] {
        world.sign_in(&changes, Some(USER)).await;
    }
    let begun = world.begin("/auth/oauth/apple", "").await;
    world.post("", &[("state", &*begun.state), ("code", "canary-code"), ("user", USER)]).await.expect(400);
    let (text, key) = (log.text(), APPLE_KEY.lines().nth(1).unwrap());
    assert!(text.contains("nonce is not the one of this sign-in"), "{text}");
    for secret in ["canary-code", "a-code", &*begun.state, key, "victim@example.com", "Ann Example"] {
        assert!(!text.contains(secret), "{secret} is in the log: {text}");
    }
}

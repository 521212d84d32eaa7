//! Google, GitHub and an issuer over real HTTP, from the first redirect to the session and to the tokens.

use std::sync::Arc;

use gatewright_auth::plugins::accounts::AccountsPlugin;
use gatewright_auth::plugins::oauth::OAuthPlugin;
use gatewright_auth::providers::oidc::Oidc;
use gatewright_auth::providers::tokens::OAuthTokenError;
use gatewright_auth::providers::{GitHub, Google, Provider, ProviderHttp};
use gatewright_base::{Secret, UserId};
use gatewright_db::Db;
use serde_json::{Value, json};

use super::{Begun, STATE_SECRET, session, with_public_url};
use crate::providers::claims;
use crate::support::{ANN, Answer, Call, FakeProvider, SigningKey, Site, databases};

const TOKEN_KEY: &str = "a token key of at least thirty-two bytes";

/// A site with three providers, each on a port of its own.
struct World {
    site: Site,
    google: FakeProvider,
    github: FakeProvider,
    issuer: FakeProvider,
    key: SigningKey,
}

impl World {
    async fn on(db: &Db) -> Self {
        let (google, github, issuer) =
            (FakeProvider::start().await, FakeProvider::start().await, FakeProvider::start().await);
        let key = SigningKey::ec("e");
        let (google_config, github_config, oidc) = (google.google(), github.github(), issuer.oidc("idp", &[&key]));
        let http = ProviderHttp::new().unwrap();
        let (to_google, to_github, to_issuer) = (http.clone(), http.clone(), http);
        let plugin = OAuthPlugin::new(Secret::new(STATE_SECRET))
            .tokens(Secret::new(TOKEN_KEY), Vec::new())
            .provider_with(move |ambient| {
                Ok(Arc::new(Google::new(google_config, to_google, ambient.clone())?) as Arc<dyn Provider>)
            })
            .provider_with(move |ambient| Ok(Arc::new(GitHub::new(github_config, to_github, ambient.clone())?)))
            .provider_with(move |ambient| Ok(Arc::new(Oidc::new(oidc, to_issuer, ambient.clone())?)));
        let site =
            Site::with(with_public_url(), |builder| builder.database(db.clone()).plugin(plugin).plugin(AccountsPlugin));
        Self { site: site.await, google, github, issuer, key }
    }

    /// Google says that this is who came.
    fn google_says(&self, user: Value) {
        let tokens = json!({
            "access_token": "ya29.first", "expires_in": 3599, "refresh_token": "1//refresh", "scope": "openid email profile",
            "token_type": "Bearer", "id_token": "unused.by.us",
        });
        self.google.says("/token", tokens);
        self.google.says("/v1/userinfo", user);
    }

    fn github_says(&self, id: u64, listing: Value) {
        let tokens = json!({ "access_token": "gho_x", "token_type": "bearer", "scope": "read:user,user:email" });
        self.github.says("/login/oauth/access_token", tokens);
        let user = json!({ "login": "ann", "id": id, "name": "Ann", "avatar_url": "https://avatars.example/1", "email": null });
        self.github.says("/user", user);
        self.github.says("/user/emails", listing);
    }

    async fn sign_in(&self, provider: &str, cookie: &str) -> Answer {
        self.walk(provider, &format!("/auth/oauth/{provider}"), cookie).await
    }

    async fn walk(&self, provider: &str, start: &str, cookie: &str) -> Answer {
        let begun = Begun::of(&Call::get(start).cookie(cookie).send(&self.site).await.expect(303));
        assert!(begun.location.query_pairs().any(|(name, value)| name == "response_type" && value == "code"));
        assert_eq!(begun.parameter("code_challenge_method"), "S256");
        self.back(provider, &begun, cookie).await
    }

    async fn back(&self, provider: &str, begun: &Begun, cookie: &str) -> Answer {
        let path = format!("/auth/oauth/{provider}/callback?code=a-code&state={}", begun.state);
        Call::get(&path).cookie(&format!("{}; {cookie}", begun.cookie)).send(&self.site).await
    }

    /// A sign-in at the issuer, which gives the token that `token` makes of the flow's nonce.
    async fn by_issuer(&self, token: impl FnOnce(&str) -> String) -> Answer {
        let begun = Begun::of(&Call::get("/auth/oauth/idp").send(&self.site).await.expect(303));
        self.issuer.gives(&token(&begun.parameter("nonce")));
        self.back("idp", &begun, "").await
    }

    async fn user(&self, answer: &Answer) -> UserId {
        let cookie = session(answer).unwrap_or_else(|| panic!("no session: {answer:?}"));
        let me = Call::get("/auth/me").cookie(&cookie).send(&self.site).await.expect(200).json();
        UserId::parse(me["user"]["id"].as_str().unwrap()).unwrap()
    }
}

#[tokio::test]
async fn google_and_github_sign_ins_of_one_person_share_an_account() {
    for database in databases().await {
        let world = World::on(&database.db).await;
        world.google_says(json!({ "sub": "110", "email": ANN, "email_verified": true, "name": "Ann" }));
        let by_google = world.sign_in("google", "").await.expect(303);
        let ann = world.user(&by_google).await;
        world.github_says(7, json!([{ "email": ANN, "primary": true, "verified": true, "visibility": null }]));
        assert_eq!(world.user(&world.sign_in("github", "").await.expect(303)).await, ann);
        // The legacy form of Google's answer is the same person.
        world.google_says(json!({ "id": "110", "email": ANN, "verified_email": true, "name": "Ann" }));
        assert_eq!(world.user(&world.sign_in("google", "").await.expect(303)).await, ann);
        // GitHub's profile address, or an unverified one of the list, is not verified.
        world.github_says(8, json!([{ "email": ANN, "primary": true, "verified": false, "visibility": null }]));
        assert_eq!(world.sign_in("github", "").await.expect(409).json()["code"], "email_unverified");
        world.google_says(json!({ "sub": "111", "email": ANN, "email_verified": false }));
        assert_eq!(world.sign_in("google", "").await.expect(409).json()["code"], "email_unverified");
    }
}

#[tokio::test]
async fn provider_tokens_are_stored_refreshed_and_removed_with_the_link() {
    for database in databases().await {
        let world = World::on(&database.db).await;
        world.google_says(json!({ "sub": "110", "email": ANN, "email_verified": true }));
        let by_google = world.sign_in("google", "").await.expect(303);
        let ann = world.user(&by_google).await;
        let tokens = world.site.auth.oauth_tokens().unwrap();
        assert_eq!(tokens.valid_oauth_token(&ann, "google").await.unwrap().expose(), "ya29.first");
        world
            .google
            .says("/token", json!({ "access_token": "ya29.second", "expires_in": 3599, "token_type": "Bearer" }));
        assert_eq!(tokens.refresh_oauth_token(&ann, "google").await.unwrap().expose(), "ya29.second");
        world.site.advance(3599);
        world
            .google
            .says("/token", json!({ "access_token": "ya29.third", "expires_in": 3599, "token_type": "Bearer" }));
        assert_eq!(tokens.valid_oauth_token(&ann, "google").await.unwrap().expose(), "ya29.third");
        let refreshed = world.google.asked("/token");
        assert_eq!(refreshed.last().unwrap().form["refresh_token"], "1//refresh", "it was kept");
        // In the database they are encrypted.
        let rows = database.db.query("SELECT access_token, refresh_token FROM oauth_tokens", Vec::new()).await.unwrap();
        let sealed: Vec<Vec<u8>> =
            rows.iter().flat_map(|row| [row.get("access_token").unwrap(), row.get("refresh_token").unwrap()]).collect();
        assert!(sealed.len() == 2 && sealed.iter().all(|bytes| !String::from_utf8_lossy(bytes).contains("//refresh")));

        // A link needs a recent sign-in.
        let cookie = session(&world.sign_in("google", "").await.expect(303)).unwrap();
        world.github_says(7, json!([]));
        world.walk("github", "/auth/oauth/github/link", &cookie).await.expect(303);
        assert_eq!(tokens.valid_oauth_token(&ann, "github").await.unwrap().expose(), "gho_x");
        let unlink = Call::new(http::Method::DELETE, "/auth/unlink/google").cookie(&cookie);
        unlink.send(&world.site).await.expect(200);
        let gone = tokens.valid_oauth_token(&ann, "google").await.unwrap_err();
        assert!(matches!(gone, OAuthTokenError::NotStored), "{gone}");
        assert!(tokens.valid_oauth_token(&ann, "github").await.is_ok());
    }
}

#[tokio::test]
async fn an_issuers_id_token_signs_in_and_a_forged_one_does_not() {
    for database in databases().await {
        let world = World::on(&database.db).await;
        let now = world.site.ambient.now().as_second();
        let issuer = world.issuer.issuer();
        let of = |issuer: &str, nonce: &str| claims(issuer, &json!({ "iat": now, "exp": now + 300, "nonce": nonce }));
        let forged = SigningKey::ec("e");
        let refused = [
            world.by_issuer(|nonce| forged.token(&of(&issuer, nonce))).await,
            world.by_issuer(|nonce| world.key.token(&of("https://evil.example", nonce))).await,
            world.by_issuer(|_| world.key.token(&of(&issuer, "the nonce of another flow"))).await,
            world
                .by_issuer(|_| {
                    world.key.token(&claims(&issuer, &json!({ "iat": now, "exp": now + 300, "nonce": null })))
                })
                .await,
        ];
        for answer in refused {
            assert!(session(&answer.expect(502)).is_none());
        }
        let ann = world.by_issuer(|nonce| world.key.token(&of(&issuer, nonce))).await.expect(303);
        world.user(&ann).await;
    }
}

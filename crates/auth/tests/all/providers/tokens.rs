//! Providers' tokens: encrypted, refreshed once for parallel callers, and never those of another user.

use std::sync::Arc;

use async_trait::async_trait;
use gatewright_auth::providers::tokens::{
    MemoryOAuthTokenStore, OAUTH_TOKENS_SCHEMA, OAuthTokenError, OAuthTokenRecord, OAuthTokenStore, OAuthTokens,
    SqlOAuthTokenStore, TokenKeys,
};
use gatewright_auth::providers::{
    Authorization, Callback, Identified, Provider, ProviderError, ProviderIdentity, ProviderTokens,
};
use gatewright_base::{Ambient, ManualClock, Secret, UserId};
use gatewright_db::testing::TestDb;
use gatewright_db::{Step, migrate};
use jiff::SignedDuration;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use url::Url;

use super::ambient;
use crate::support::databases;

/// A provider that issues `access-1`, `access-2`, … and can be made to wait, to refuse and to be unavailable.
struct Numbered {
    given: Mutex<u32>,
    asked_with: Mutex<Vec<String>>,
    answer: Mutex<Answer>,
    gate: Semaphore,
}

#[derive(Clone, Copy, PartialEq)]
enum Answer {
    WithRefresh,
    WithoutRefresh,
    Refused,
    Away,
}

#[async_trait]
impl Provider for Numbered {
    fn name(&self) -> &'static str {
        "google"
    }
    fn label(&self) -> &'static str {
        "Google"
    }
    async fn authorize_url(&self, request: &Authorization<'_>) -> Result<Url, ProviderError> {
        Ok(request.redirect.clone())
    }
    async fn identify(&self, _: &Callback<'_>) -> Result<Identified, ProviderError> {
        Err(ProviderError::Unavailable("not here"))
    }
    async fn refresh(&self, refresh_token: &Secret) -> Result<ProviderTokens, ProviderError> {
        self.asked_with.lock().push(refresh_token.expose().to_owned());
        let _passed = self.gate.acquire().await.unwrap();
        let answer = *self.answer.lock();
        if answer == Answer::Refused {
            return Err(ProviderError::Refused { code: "invalid_grant".into() });
        }
        if answer == Answer::Away {
            return Err(ProviderError::Unavailable("away"));
        }
        let mut given = self.given.lock();
        *given += 1;
        let refresh = (answer == Answer::WithRefresh).then(|| Secret::new(format!("refresh-{given}")));
        Ok(ProviderTokens { expires_at: None, ..tokens(&format!("access-{given}"), refresh) })
    }
}

fn tokens(access: &str, refresh: Option<Secret>) -> ProviderTokens {
    ProviderTokens { access: Secret::new(access), refresh, expires_at: None, scope: Some("openid".into()) }
}

/// A sign-in of the identity `id`, whose access token is valid for `seconds`.
fn found(ambient: &Ambient, id: &str, access: &str, refresh: Option<&str>, seconds: i64) -> Identified {
    let identity = ProviderIdentity {
        provider_id: id.to_owned(),
        email: None,
        email_verified: false,
        name: None,
        avatar_url: None,
    };
    let expires_at = Some(ambient.now() + SignedDuration::from_secs(seconds));
    Identified { identity, tokens: ProviderTokens { expires_at, ..tokens(access, refresh.map(Secret::new)) } }
}

struct Bench {
    store: Arc<dyn OAuthTokenStore>,
    provider: Arc<Numbered>,
    tokens: OAuthTokens,
    ambient: Ambient,
    clock: Arc<ManualClock>,
    ann: UserId,
    name: String,
    _db: Option<TestDb>,
}

fn keys(present: &str, previous: &[&str]) -> TokenKeys {
    let secret = |letter: &str| Secret::new(letter.repeat(32));
    TokenKeys::new(&secret(present), &previous.iter().map(|letter| secret(letter)).collect::<Vec<_>>(), false).unwrap()
}

impl Bench {
    /// One for each store.
    async fn all() -> Vec<Self> {
        let mut all = vec![Self::over(Arc::new(MemoryOAuthTokenStore::new()), None)];
        for db in databases().await {
            let steps: &[Step] = &[Step { version: 1, name: "provider tokens", sql: OAUTH_TOKENS_SCHEMA }];
            migrate(&db.db, "oauth_tokens", steps).await.unwrap();
            all.push(Self::over(Arc::new(SqlOAuthTokenStore::new(db.db.clone())), Some(db)));
        }
        all
    }

    fn over(store: Arc<dyn OAuthTokenStore>, db: Option<TestDb>) -> Self {
        let (ambient, clock) = ambient();
        let provider = Arc::new(Numbered {
            given: Mutex::new(0),
            asked_with: Mutex::default(),
            answer: Mutex::new(Answer::WithRefresh),
            gate: Semaphore::new(100),
        });
        let name = db.as_ref().map_or("memory", |db| db.name).to_owned();
        let mut bench = Self {
            tokens: OAuthTokens::new(store.clone(), keys("a", &[]), Vec::new(), ambient.clone()),
            store,
            provider,
            ambient,
            clock,
            ann: UserId::parse("ann").unwrap(),
            name,
            _db: db,
        };
        bench.tokens = bench.with_keys(keys("a", &[]));
        bench
    }

    /// The same tokens as another process would have them.
    fn with_keys(&self, keys: TokenKeys) -> OAuthTokens {
        let providers = vec![self.provider.clone() as Arc<dyn Provider>];
        OAuthTokens::new(self.store.clone(), keys, providers, self.ambient.clone())
    }

    async fn sign_in(&self, id: &str, access: &str, refresh: Option<&str>, seconds: i64) {
        let found = found(&self.ambient, id, access, refresh, seconds);
        self.tokens.save(&self.ann, "google", &found).await.unwrap();
    }

    async fn valid(&self) -> Result<String, OAuthTokenError> {
        self.tokens.valid_oauth_token(&self.ann, "google").await.map(|token| token.expose().to_owned())
    }

    async fn refreshed(&self) -> Result<String, OAuthTokenError> {
        self.tokens.refresh_oauth_token(&self.ann, "google").await.map(|token| token.expose().to_owned())
    }

    fn asked(&self) -> Vec<String> {
        self.provider.asked_with.lock().clone()
    }

    fn pass(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    async fn record(&self) -> OAuthTokenRecord {
        self.store.find(&self.ann, "google").await.unwrap().unwrap()
    }

    fn answer(&self, answer: Answer) {
        *self.provider.answer.lock() = answer;
    }
}

#[tokio::test]
async fn a_token_is_refreshed_a_minute_before_it_expires() {
    for bench in Bench::all().await {
        bench.sign_in("1", "access-0", Some("refresh-0"), 3600).await;
        assert_eq!(bench.valid().await.unwrap(), "access-0", "{}", bench.name);
        bench.pass(3539);
        assert_eq!(bench.valid().await.unwrap(), "access-0");
        assert!(bench.asked().is_empty());
        bench.pass(1);
        assert_eq!(bench.valid().await.unwrap(), "access-1");
        assert_eq!(bench.valid().await.unwrap(), "access-1", "kept, and it does not end");
        assert_eq!(bench.asked(), ["refresh-0"]);
        assert_eq!(bench.refreshed().await.unwrap(), "access-2");
        assert_eq!(bench.asked(), ["refresh-0", "refresh-1"], "the new refresh token is used");
        assert_eq!(bench.record().await.scope.as_deref(), Some("openid"));
    }
}

#[tokio::test]
async fn twenty_parallel_callers_cause_one_refresh() {
    for bench in Bench::all().await {
        bench.sign_in("1", "access-0", Some("refresh-0"), 0).await;
        let bench = Arc::new(bench);
        for (round, forced) in [(1_usize, false), (2, true)] {
            // The provider answers when all have arrived.
            bench.provider.gate.forget_permits(100);
            let calls = (0..20).map(|_| {
                let bench = bench.clone();
                tokio::spawn(async move { if forced { bench.refreshed().await } else { bench.valid().await } })
            });
            let calls: Vec<_> = calls.collect();
            while bench.asked().len() < round {
                tokio::task::yield_now().await;
            }
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            bench.provider.gate.add_permits(100);
            for call in calls {
                assert_eq!(call.await.unwrap().unwrap(), format!("access-{round}"), "{}", bench.name);
            }
            assert_eq!(bench.asked().len(), round, "{}", bench.name);
        }
    }
}

#[tokio::test]
async fn a_refresh_without_a_new_refresh_token_keeps_the_old_one() {
    for bench in Bench::all().await {
        bench.answer(Answer::WithoutRefresh);
        bench.sign_in("1", "access-0", Some("refresh-0"), 0).await;
        assert_eq!(bench.valid().await.unwrap(), "access-1");
        assert_eq!(bench.refreshed().await.unwrap(), "access-2");
        // The next sign-in brings none either, as at Google.
        bench.sign_in("1", "access-9", None, 3600).await;
        assert_eq!(bench.valid().await.unwrap(), "access-9");
        assert_eq!(bench.refreshed().await.unwrap(), "access-3");
        assert_eq!(bench.asked(), ["refresh-0"; 3], "{}", bench.name);
    }
}

/// A user may have two identities of one provider. The tokens are of the one that signed in last, both of them.
#[tokio::test]
async fn a_refresh_token_of_another_identity_is_dropped() {
    for bench in Bench::all().await {
        bench.sign_in("1", "access-0", Some("refresh-0"), 3600).await;
        bench.sign_in("2", "access-9", None, 3600).await;
        assert_eq!(bench.valid().await.unwrap(), "access-9");
        assert!(matches!(bench.refreshed().await, Err(OAuthTokenError::NoRefreshToken)), "{}", bench.name);
    }
}

#[tokio::test]
async fn without_a_refresh_token_a_token_is_used_until_it_expires() {
    for bench in Bench::all().await {
        bench.sign_in("1", "access-0", None, 3600).await;
        bench.pass(3599);
        assert_eq!(bench.valid().await.unwrap(), "access-0", "{}", bench.name);
        assert!(matches!(bench.refreshed().await, Err(OAuthTokenError::NoRefreshToken)));
        bench.pass(1);
        assert!(matches!(bench.valid().await, Err(OAuthTokenError::NoRefreshToken)));
        assert!(bench.asked().is_empty());
    }
}

#[tokio::test]
async fn a_provider_outage_does_not_drop_tokens() {
    for bench in Bench::all().await {
        bench.sign_in("1", "access-0", Some("refresh-0"), 30).await;
        bench.answer(Answer::Away);
        assert_eq!(bench.valid().await.unwrap(), "access-0", "{}", bench.name);
        assert!(bench.refreshed().await.is_err());
        bench.pass(30);
        assert!(matches!(bench.valid().await, Err(OAuthTokenError::Provider(ProviderError::Unavailable(_)))));
        bench.answer(Answer::WithRefresh);
        assert_eq!(bench.valid().await.unwrap(), "access-1");
    }
}

/// Two replicas: the provider takes the refresh token from the faster one alone.
#[tokio::test]
async fn a_refused_refresh_uses_the_token_that_a_faster_replica_stored() {
    for bench in Bench::all().await {
        bench.sign_in("1", "access-0", Some("refresh-0"), 0).await;
        bench.answer(Answer::Refused);
        bench.provider.gate.forget_permits(100);
        let slower = bench.with_keys(keys("a", &[]));
        let (ann, call) = (bench.ann.clone(), slower.clone());
        let call = tokio::spawn(async move { call.valid_oauth_token(&ann, "google").await });
        while bench.asked().is_empty() {
            tokio::task::yield_now().await;
        }
        bench.sign_in("1", "access-of-the-faster", Some("refresh-8"), 3600).await;
        bench.provider.gate.add_permits(100);
        assert_eq!(call.await.unwrap().unwrap().expose(), "access-of-the-faster", "{}", bench.name);
        // If no other replica was faster, a refusal is returned.
        let refused = bench.refreshed().await.unwrap_err();
        assert!(matches!(refused, OAuthTokenError::Provider(ProviderError::Refused { .. })), "{refused}");
        assert_eq!(bench.valid().await.unwrap(), "access-of-the-faster", "nor does it cost what is stored");
    }
}

#[tokio::test]
async fn a_late_refresh_does_not_overwrite_a_sign_in_or_an_unlink() {
    for bench in Bench::all().await {
        for unlinked in [false, true] {
            let asked = bench.asked().len();
            bench.sign_in("1", "access-0", Some("refresh-0"), 0).await;
            bench.provider.gate.forget_permits(100);
            let (ann, tokens) = (bench.ann.clone(), bench.tokens.clone());
            let call = tokio::spawn(async move { tokens.refresh_oauth_token(&ann, "google").await });
            while bench.asked().len() == asked {
                tokio::task::yield_now().await;
            }
            if unlinked {
                bench.tokens.remove(&bench.ann, "google").await.unwrap();
            } else {
                bench.sign_in("2", "access-7", Some("refresh-7"), 3600).await;
            }
            bench.provider.gate.add_permits(100);
            let result = call.await.unwrap();
            if unlinked {
                assert!(matches!(result, Err(OAuthTokenError::NotStored)), "{}", bench.name);
                assert!(matches!(bench.valid().await, Err(OAuthTokenError::NotStored)));
            } else {
                assert_eq!(bench.valid().await.unwrap(), "access-7", "{}", bench.name);
                assert_eq!(bench.record().await.provider_id, "2");
            }
        }
    }
}

#[tokio::test]
async fn tokens_are_stored_and_removed_per_user_and_provider() {
    for bench in Bench::all().await {
        let bob = UserId::parse("bob").unwrap();
        bench.sign_in("1", "anns", None, 3600).await;
        bench.tokens.save(&bob, "google", &found(&bench.ambient, "2", "bobs", None, 3600)).await.unwrap();
        bench.tokens.save(&bench.ann, "github", &found(&bench.ambient, "3", "anns-other", None, 3600)).await.unwrap();
        let valid = async |user: &UserId, provider: &str| {
            bench.tokens.valid_oauth_token(user, provider).await.map(|token| token.expose().to_owned()).ok()
        };
        assert_eq!(valid(&bench.ann, "google").await.as_deref(), Some("anns"), "{}", bench.name);
        assert_eq!(valid(&bob, "google").await.as_deref(), Some("bobs"));
        assert_eq!(valid(&bob, "github").await, None);
        bench.tokens.remove(&bench.ann, "google").await.unwrap();
        assert_eq!(valid(&bench.ann, "google").await, None);
        assert_eq!(valid(&bench.ann, "github").await.as_deref(), Some("anns-other"));
        bench.tokens.remove_all(&bench.ann).await.unwrap();
        assert_eq!(valid(&bench.ann, "github").await, None);
        assert_eq!(valid(&bob, "google").await.as_deref(), Some("bobs"));
        let unknown = bench.tokens.refresh_oauth_token(&bench.ann, "elsewhere").await.unwrap_err();
        assert!(matches!(unknown, OAuthTokenError::UnknownProvider));
    }
}

/// An attacker who can write to the table cannot use a token as another user, nor for another purpose.
#[tokio::test]
async fn a_sealed_token_moved_to_another_row_does_not_open() {
    for bench in Bench::all().await {
        let bob = UserId::parse("bob").unwrap();
        bench.sign_in("1", "anns", Some("anns-refresh"), 3600).await;
        let record = bench.record().await;
        let stolen = OAuthTokenRecord { user_id: bob.clone(), ..record.clone() };
        bench.store.put(&stolen).await.unwrap();
        let refused = bench.tokens.valid_oauth_token(&bob, "google").await.unwrap_err();
        assert!(matches!(refused, OAuthTokenError::CannotOpen), "{}", bench.name);
        let swapped = OAuthTokenRecord { access_token: record.refresh_token.clone().unwrap(), ..record };
        bench.store.put(&swapped).await.unwrap();
        assert!(matches!(bench.valid().await, Err(OAuthTokenError::CannotOpen)));
    }
}

#[tokio::test]
async fn the_store_contains_no_plaintext_token() {
    for bench in Bench::all().await {
        bench.sign_in("1", "canary-access", Some("canary-refresh"), 3600).await;
        let record = bench.record().await;
        for sealed in [&record.access_token, record.refresh_token.as_ref().unwrap()] {
            assert!(!sealed.as_bytes().windows(6).any(|part| part == b"canary"), "{}", bench.name);
        }
        let shown = format!("{record:?} {:?} {:?}", bench.tokens, bench.refreshed().await);
        assert!(!shown.contains("canary"), "{shown}");
    }
}

#[tokio::test]
async fn a_refresh_token_of_a_lost_key_does_not_break_the_next_sign_in() {
    for bench in Bench::all().await {
        bench.sign_in("1", "access-0", Some("refresh-0"), 3600).await;
        let other = bench.with_keys(keys("b", &[]));
        // Google sends its refresh token with the first consent alone.
        other.save(&bench.ann, "google", &found(&bench.ambient, "1", "again", None, 3600)).await.unwrap();
        assert_eq!(other.valid_oauth_token(&bench.ann, "google").await.unwrap().expose(), "again", "{}", bench.name);
        let none = other.refresh_oauth_token(&bench.ann, "google").await.unwrap_err();
        assert!(matches!(none, OAuthTokenError::NoRefreshToken), "{}: {none}", bench.name);
        other.save(&bench.ann, "google", &found(&bench.ambient, "1", "new", Some("refresh-9"), 3600)).await.unwrap();
        other.refresh_oauth_token(&bench.ann, "google").await.unwrap();
        assert_eq!(bench.asked(), ["refresh-9"]);
    }
}

#[tokio::test]
async fn a_new_key_reseals_each_token_when_it_is_used() {
    for bench in Bench::all().await {
        bench.sign_in("1", "access-0", Some("refresh-0"), 3600).await;
        let other = bench.with_keys(keys("b", &[]));
        let refused = other.valid_oauth_token(&bench.ann, "google").await.unwrap_err();
        assert!(matches!(refused, OAuthTokenError::CannotOpen), "{}", bench.name);
        let rotated = bench.with_keys(keys("b", &["a"]));
        assert_eq!(rotated.valid_oauth_token(&bench.ann, "google").await.unwrap().expose(), "access-0");
        assert_eq!(other.valid_oauth_token(&bench.ann, "google").await.unwrap().expose(), "access-0", "sealed anew");
        assert_eq!(other.refresh_oauth_token(&bench.ann, "google").await.unwrap().expose(), "access-1");
        assert_eq!(bench.asked(), ["refresh-0"]);
    }
}

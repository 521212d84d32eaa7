//! Late results: a provider's answer, and tokens of a link that was removed meanwhile.

use std::sync::Arc;

use async_trait::async_trait;
use gatewright_auth::AuthConfig;
use gatewright_auth::plugins::oauth::OAuthPlugin;
use gatewright_auth::providers::tokens::{
    MemoryOAuthTokenStore, OAuthTokenRecord, OAuthTokenStore, OAuthTokenStoreError,
};
use gatewright_auth::providers::{Authorization, Callback, Identified, Provider, ProviderError, ProviderTokens};
use gatewright_auth::session::MemorySessionStore;
use gatewright_auth::users::{MemoryUserStore, OAuthLinks};
use gatewright_base::{Secret, UserId};
use parking_lot::Mutex;
use url::Url;

use super::{Begun, Fake, STATE_SECRET, clears_state, identity, with_public_url};
use crate::support::{ANN, Answer, Call, Site};

/// A site without a database, with one provider.
async fn site(provider: Arc<dyn Provider>, store: Arc<DropsLinks>) -> Site {
    let config = AuthConfig { dev_mode: true, ..with_public_url() };
    Site::with_ambient(config, |builder, ambient| {
        let users = Arc::new(MemoryUserStore::new(ambient.clone()));
        *store.links.lock() = Some(users.clone());
        let plugin = OAuthPlugin::new(Secret::new(STATE_SECRET))
            .tokens(Secret::new("a token key"), Vec::new())
            .token_store(store)
            .provider(provider);
        builder.users(users).sessions(Arc::new(MemorySessionStore::new(ambient.clone()))).plugin(plugin)
    })
    .await
}

async fn sign_in(site: &Site, code: &str) -> Answer {
    let begun = Begun::of(&Call::get("/auth/oauth/alpha").send(site).await.expect(303));
    let path = format!("/auth/oauth/alpha/callback?code={code}&state={}", begun.state);
    Call::get(&path).cookie(&begun.cookie).send(site).await
}

/// A token store before whose writes an account loses its links and their tokens, as when its owner comes and claims it
/// while a stranger's sign-in is under way.
#[derive(Default)]
struct DropsLinks {
    inner: MemoryOAuthTokenStore,
    links: Mutex<Option<Arc<MemoryUserStore>>>,
    armed: Mutex<bool>,
    user: Mutex<Option<UserId>>,
}

#[async_trait]
impl OAuthTokenStore for DropsLinks {
    async fn put(&self, record: &OAuthTokenRecord) -> Result<(), OAuthTokenStoreError> {
        let (armed, links) = (*self.armed.lock(), self.links.lock().clone());
        if armed {
            links.unwrap().drop_links(&record.user_id).await.unwrap();
            self.inner.remove(&record.user_id, None).await?;
        }
        *self.user.lock() = Some(record.user_id.clone());
        self.inner.put(record).await
    }
    async fn find(&self, user: &UserId, provider: &str) -> Result<Option<OAuthTokenRecord>, OAuthTokenStoreError> {
        self.inner.find(user, provider).await
    }
    async fn replace(&self, old: &OAuthTokenRecord, new: &OAuthTokenRecord) -> Result<bool, OAuthTokenStoreError> {
        self.inner.replace(old, new).await
    }
    async fn remove(&self, user: &UserId, provider: Option<&str>) -> Result<u64, OAuthTokenStoreError> {
        self.inner.remove(user, provider).await
    }
}

#[tokio::test]
async fn tokens_of_a_link_removed_meanwhile_are_not_stored() {
    let (alpha, store) = (Fake::new("alpha"), Arc::new(DropsLinks::default()));
    let site = site(Arc::new(alpha.clone()), store.clone()).await;
    let strangers = identity("666", Some(ANN), false);
    sign_in(&site, &alpha.code(&strangers)).await.expect(303);
    let user = store.user.lock().clone().unwrap();
    assert!(store.find(&user, "alpha").await.unwrap().is_some(), "with a link they stay");
    *store.armed.lock() = true;
    sign_in(&site, &alpha.code(&strangers)).await;
    assert_eq!(store.user.lock().as_ref(), Some(&user));
    assert_eq!(store.find(&user, "alpha").await.unwrap(), None);
}

/// A provider that accepts a code and does not answer.
struct Silent;

#[async_trait]
impl Provider for Silent {
    fn name(&self) -> &'static str {
        "alpha"
    }
    fn label(&self) -> &'static str {
        "Alpha"
    }
    fn sends_pkce(&self) -> bool {
        false
    }
    async fn authorize_url(&self, request: &Authorization<'_>) -> Result<Url, ProviderError> {
        Ok(Url::parse_with_params("https://alpha.example/authorize", [("state", request.state)]).unwrap())
    }
    async fn identify(&self, _: &Callback<'_>) -> Result<Identified, ProviderError> {
        std::future::pending().await
    }
    async fn refresh(&self, _: &Secret) -> Result<ProviderTokens, ProviderError> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_provider_times_out_and_the_state_is_dropped() {
    let site = site(Arc::new(Silent), Arc::default()).await;
    let begun = tokio::time::Instant::now();
    let answer = sign_in(&site, "a-code").await.expect(503);
    assert_eq!(begun.elapsed().as_secs(), 20);
    assert!(clears_state(&answer) && answer.detail().contains("Alpha does not answer"), "{answer:?}");
}

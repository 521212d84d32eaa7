//! A session that ends while it issues a token must not leave one behind.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::tokens::{MemoryTokenStore, StoredToken, TokenHash, TokenStore, TokenStoreError};
use gatewright_auth::{Accounts, AuthConfig};
use gatewright_base::{Subject, TokenId};
use jiff::Timestamp;
use serde_json::json;

use super::issue;
use crate::support::{Site, config, databases};

/// Lets everything of the owner's end just before their new token is kept.
#[derive(Default)]
struct TooLate {
    inner: MemoryTokenStore,
    accounts: OnceLock<Accounts>,
}

#[async_trait]
impl TokenStore for TooLate {
    async fn create(&self, token: &StoredToken, hash: &TokenHash) -> Result<(), TokenStoreError> {
        if let (Some(accounts), Subject::User(owner)) = (self.accounts.get(), &token.owner) {
            accounts.sign_out_everywhere(owner).await.unwrap();
            self.inner.revoke_all(&token.owner, token.created_at).await?;
        }
        self.inner.create(token, hash).await
    }
    async fn find(&self, hash: &TokenHash) -> Result<Option<StoredToken>, TokenStoreError> {
        self.inner.find(hash).await
    }
    async fn list(&self, owner: Option<&Subject>) -> Result<Vec<StoredToken>, TokenStoreError> {
        self.inner.list(owner).await
    }
    async fn revoke(&self, owner: Option<&Subject>, id: &TokenId, at: Timestamp) -> Result<bool, TokenStoreError> {
        self.inner.revoke(owner, id, at).await
    }
    async fn revoke_all(&self, owner: &Subject, at: Timestamp) -> Result<u64, TokenStoreError> {
        self.inner.revoke_all(owner, at).await
    }
    async fn touch(&self, uses: &[(TokenId, Timestamp)]) -> Result<(), TokenStoreError> {
        self.inner.touch(uses).await
    }
}

#[tokio::test]
async fn no_token_slips_in_behind_the_end_of_its_session() {
    for db in databases().await {
        let store = Arc::new(TooLate::default());
        let config = AuthConfig { allow_in_memory_stores: true, ..config() };
        let plugin = TokensPlugin::new().store(store.clone());
        let site = Site::with(config, |builder| builder.database(db.db.clone()).plugin(plugin)).await;
        site.register_ann().await;
        let session = site.login_ann().await;
        assert!(store.accounts.set(site.auth.accounts()).is_ok());
        let refused = issue(&site, &session, &json!({ "name": "Eve's" })).await.expect(401);
        assert!(!refused.body.contains("svc_"), "{refused:?}");
        assert!(store.list(None).await.unwrap().is_empty(), "{}", db.name);
    }
}

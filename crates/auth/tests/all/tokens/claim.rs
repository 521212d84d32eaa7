//! A session that ends while it issues a token must not leave one behind.

use std::sync::Arc;

use gatewright_auth::AuthConfig;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::tokens::TokenStore;
use serde_json::json;

use super::issue;
use crate::support::{Site, Tokens, config, databases};

#[tokio::test]
async fn no_token_is_issued_after_its_session_ended() {
    for db in databases().await {
        let store = Arc::new(Tokens::default());
        let config = AuthConfig { allow_in_memory_stores: true, ..config() };
        let plugin = TokensPlugin::new().store(store.clone());
        let site = Site::with(config, |builder| builder.database(db.db.clone()).plugin(plugin)).await;
        let session = site.signed_in_ann().await;
        assert!(store.ends_before.set(site.auth.accounts()).is_ok());
        let refused = issue(&site, &session, &json!({ "name": "Eve's" })).await.expect(401);
        assert!(!refused.body.contains("svc_"), "{refused:?}");
        assert!(store.list(None).await.unwrap().is_empty(), "{}", db.name);
    }
}

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gatewright_auth::AuthConfig;
use gatewright_auth::plugins::tokens::TokensPlugin;
use jiff::Timestamp;
use serde_json::Value;

use super::{list, site, token_of, who};
use crate::support::{Call, Site, Tokens, config, databases};

#[tokio::test]
async fn the_last_use_is_shown_at_once_and_stored_later() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let (token, _) = token_of(&site, &session).await;
        let last = async || list(&site, &session).await[0]["lastUsedAt"].clone();
        let stored = async || {
            let row = db.db.query_opt("SELECT last_used_at FROM api_tokens", vec![]).await.unwrap().unwrap();
            row.get::<Option<Timestamp>>("last_used_at").unwrap()
        };
        assert_eq!(last().await, Value::Null);
        who(&site, &token).await;
        assert_eq!(last().await, "2026-01-02T03:04:06.678901Z");
        assert_eq!(stored().await, None);
        site.auth.settle(Duration::from_secs(10)).await;
        assert_eq!(stored().await, Some(site.ambient.now()));
        site.advance(30);
        who(&site, &token).await;
        assert_eq!(last().await, "2026-01-02T03:04:06.678901Z", "to within a minute");
        site.advance(30);
        who(&site, &token).await;
        assert_eq!(last().await, "2026-01-02T03:05:06.678901Z");
        Call::get("/whoami").bearer(&format!("svc_{}", "0".repeat(40))).send(&site).await;
        site.auth.settle(Duration::from_secs(10)).await;
        assert_eq!(stored().await, Some(site.ambient.now()));
    }
}

#[tokio::test]
async fn a_stream_recheck_does_not_count_as_a_use() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let (token, _) = token_of(&site, &session).await;
        who(&site, &token).await;
        let presented = site.presented.lock().clone().unwrap();
        site.advance(3600);
        presented.0.again().await.unwrap();
        assert_eq!(list(&site, &session).await[0]["lastUsedAt"], "2026-01-02T03:04:06.678901Z");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_requests_cost_one_write_together() {
    let store = Arc::new(Tokens::default());
    let config = AuthConfig { allow_in_memory_stores: true, ..config() };
    let site = Site::with_ambient(config, |builder, ambient| {
        let users = Arc::new(gatewright_auth::users::MemoryUserStore::new(ambient.clone()));
        builder.users(users).plugin(TokensPlugin::new().store(store.clone()))
    })
    .await;
    let session = site.signed_in_ann().await;
    let tokens = [token_of(&site, &session).await.0, token_of(&site, &session).await.0];
    let counts = || (store.writes.load(Ordering::SeqCst), store.written.load(Ordering::SeqCst));
    for n in 0..100 {
        assert_eq!(who(&site, &tokens[n % 2]).await, "ApiToken");
    }
    assert_eq!(counts(), (0, 0), "no request waits for a write");
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(counts(), (1, 2), "two tokens in one write");
    for _ in 0..100 {
        who(&site, &tokens[0]).await;
    }
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(counts(), (1, 2), "a minute has not passed");
    site.advance(60);
    who(&site, &tokens[0]).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(counts(), (2, 3));
}

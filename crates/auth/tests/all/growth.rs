//! No table grows without limit, whatever strangers do.

use std::time::Duration;

use gatewright_auth::AuthConfig;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_db::{Db, params};
use serde_json::{Value, json};

use crate::support::{ANN, Call, PASSWORD, Site, WRONG, config, databases};

async fn count(db: &Db, table: &str) -> i64 {
    let sql = format!("SELECT COUNT(*) AS n FROM {table}");
    db.query_opt(sql, params![]).await.unwrap().unwrap().get("n").unwrap()
}

async fn failures(db: &Db) -> Vec<Value> {
    let sql = "SELECT meta FROM audit_log WHERE kind = 'login.failed' ORDER BY created_at, id";
    let rows = db.query(sql, params![]).await.unwrap();
    rows.iter().map(|row| serde_json::from_str(&row.get::<String>("meta").unwrap()).unwrap()).collect()
}

fn generous() -> AuthConfig {
    let mut config = config();
    config.limits.login.policy = gatewright_limits::Policy::new(100_000, Duration::ZERO, Duration::ZERO);
    config.limits.login_account.policy = config.limits.login.policy;
    config
}

#[tokio::test]
async fn repeated_failed_logins_are_counted_in_one_row() {
    for db in databases().await {
        let site = Site::with(generous(), |builder| builder.database(db.db.clone()).audit_to_database()).await;
        for _ in 0..2 {
            let parallel = (0..10).map(|_| site.login("nobody@example.com", WRONG));
            futures_util::future::join_all(parallel).await;
        }
        let expected = json!({ "reason": "invalid credentials", "email": "nobody@example.com", "count": 20 });
        assert_eq!(failures(&db.db).await, std::slice::from_ref(&expected), "{}", db.name);
        let from_elsewhere = json!({ "email": "nobody@example.com", "password": WRONG });
        Call::post("/auth/login").from("198.51.100.9").json(&from_elsewhere).send(&site).await.expect(401);
        site.advance(60);
        site.login("nobody@example.com", WRONG).await.expect(401);
        let all = failures(&db.db).await;
        assert_eq!(all.len(), 3, "another address and another minute: {all:?}");
        assert!(all.contains(&expected));
    }
}

#[tokio::test]
async fn expired_rows_are_removed() {
    for db in databases().await {
        let config = AuthConfig { audit_retention: Some(Duration::from_hours(24 * 30)), ..config() };
        let site = Site::with(config, |builder| builder.database(db.db.clone()).audit_to_database()).await;
        site.register_ann().await;
        site.login_ann().await.expect(200);
        assert_eq!((count(&db.db, "sessions").await, count(&db.db, "audit_log").await), (1, 2));
        assert_eq!(site.auth.sweep().await, 0, "nothing has ended yet");
        site.advance(8 * 24 * 3600);
        assert_eq!(site.auth.sweep().await, 1);
        assert_eq!((count(&db.db, "sessions").await, count(&db.db, "audit_log").await), (0, 2));
        site.advance(23 * 24 * 3600);
        assert_eq!(site.auth.sweep().await, 2);
        assert_eq!(count(&db.db, "audit_log").await, 0);
    }
}

/// Many rows, and replicas that sweep at the same time: each row is removed once, and no replica fails.
#[tokio::test]
async fn replicas_sweep_at_the_same_time() {
    for db in databases().await {
        let site = Site::with(config(), |builder| builder.database(db.db.clone()).audit_to_database()).await;
        let insert =
            "INSERT INTO audit_log (id, kind, user_id, remote, meta, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let old = site.ambient.now();
        db.db
            .write(async move |tx: &gatewright_db::Tx| {
                for row in 0..2500 {
                    let absent = None::<String>;
                    tx.execute(insert, params![row.to_string(), "login.failed", absent.clone(), absent, "{}", old])
                        .await?;
                }
                Ok::<_, gatewright_db::Error>(())
            })
            .await
            .unwrap();
        site.advance(401 * 24 * 3600);
        let swept = futures_util::future::join_all((0..4).map(|_| site.auth.sweep())).await;
        assert_eq!(swept.iter().sum::<u64>(), 2500, "{} {swept:?}", db.name);
        assert_eq!(count(&db.db, "audit_log").await, 0);
    }
}

#[tokio::test]
async fn an_account_has_at_most_a_hundred_sessions_and_the_latest_stay() {
    for db in databases().await {
        let site = Site::with(generous(), |builder| builder.database(db.db.clone())).await;
        site.register_ann().await;
        let bob = {
            site.register("bob@example.com").await;
            site.login("bob@example.com", PASSWORD).await.expect(200)
        };
        let first = site.login_ann().await.expect(200);
        let mut last = None;
        for _ in 0..104 {
            site.advance(1);
            last = Some(site.login(ANN, PASSWORD).await.expect(200));
        }
        assert_eq!(count(&db.db, "sessions").await, 101, "{}", db.name);
        site.me(&first).await.expect(401);
        site.me(&last.unwrap()).await.expect(200);
        site.me(&bob).await.expect(200);
    }
}

#[tokio::test]
async fn repeated_issuing_and_revoking_does_not_fill_the_table() {
    for db in databases().await {
        let site = Site::with(config(), |builder| builder.database(db.db.clone()).plugin(TokensPlugin::new())).await;
        let session = site.signed_in_ann().await;
        let id = site.auth.accounts().find(ANN).await.unwrap().id;
        let insert = "INSERT INTO api_tokens (id, token_hash, prefix, name, owner_kind, owner_id, scopes, created_at, revoked_at) \
                      VALUES (?1, ?2, 'svc_00000000', 'old', 'user', ?3, '[]', ?4, ?4)";
        let now = site.ambient.now();
        db.db
            .write(async move |tx: &gatewright_db::Tx| {
                for row in 0..700_u32 {
                    tx.execute(insert, params![row.to_string(), row.to_be_bytes().to_vec(), &id, now]).await?;
                }
                Ok::<_, gatewright_db::Error>(())
            })
            .await
            .unwrap();
        let body = json!({ "name": "CI", "scopes": [] });
        Call::post("/auth/tokens").json(&body).cookie_of(&session).send(&site).await.expect(200);
        assert_eq!(count(&db.db, "api_tokens").await, 501, "{}", db.name);
        site.advance(91 * 24 * 3600);
        site.auth.sweep().await;
        assert_eq!(count(&db.db, "api_tokens").await, 1);
    }
}

use std::fmt::Write as _;
use std::sync::Arc;

use gatewright_auth::audit::AuditKind;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::plugins::password_reset::PasswordResetPlugin;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::users::{ListUsers, UserStoreError};
use gatewright_auth::{AccountError, AuthConfig};
use gatewright_base::{Secret, UserId};
use gatewright_db::params;

use crate::mailed::Post;
use crate::support::{ANN, Call, PASSWORD, Site, Users, WRONG, config, databases, set_proven};

#[tokio::test]
async fn an_account_is_created_found_and_listed() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let accounts = site.auth.accounts();
        let roles = ["admin"].into_iter().collect();
        let ann = accounts.create(" ANN@example.com", Some(Secret::new(PASSWORD)), Some(roles)).await.unwrap();
        let bob = accounts.create("bob@example.com", None, None).await.unwrap();
        assert!(ann.roles.contains("admin") && bob.roles.contains("user"));
        assert!(ann.password_set && !bob.password_set);
        assert_eq!(accounts.find(ANN).await.unwrap().id, ann.id);
        let page = accounts.list(ListUsers::default()).await.unwrap();
        assert_eq!((page.items.len(), page.total), (2, 2));
        assert_eq!(page.items[0].email.as_str(), ANN);
        let taken = accounts.create(ANN, None, None).await;
        assert!(matches!(taken, Err(AccountError::Users(UserStoreError::EmailTaken))));
        let weak = accounts.create("eve@example.com", Some(Secret::new("short")), None).await;
        assert!(matches!(weak, Err(AccountError::Password(_))));
        assert!(matches!(accounts.create("eve", None, None).await, Err(AccountError::Email(_))));
        site.login(ANN, PASSWORD).await.expect(200);
    }
}

#[tokio::test]
async fn a_new_password_ends_sessions_and_jwts_of_the_old_one() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let token = site.register_ann().await.token();
        let session = site.login_ann().await;
        let accounts = site.auth.accounts();
        let ann = accounts.find(ANN).await.unwrap();
        accounts.set_password(&ann.id, Secret::new("another horse battery")).await.unwrap();
        site.me(&session).await.expect(401);
        for token in [token, session.token()] {
            Call::get("/auth/me").bearer(&token).send(&site).await.expect(401);
        }
        site.advance(1);
        site.login(ANN, PASSWORD).await.expect(401);
        let next = site.login(ANN, "another horse battery").await.expect(200);
        site.me(&next).await.expect(200);
        Call::get("/auth/me").bearer(&next.token()).send(&site).await.expect(200);
        assert!(matches!(accounts.set_password(&ann.id, Secret::new("short")).await, Err(AccountError::Password(_))));
    }
}

#[tokio::test]
async fn signing_out_everywhere_takes_effect_at_once_for_that_user_only() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let token = site.register_ann().await.token();
        site.register("bob@example.com").await;
        let (one, two) = (site.login_ann().await, site.login_ann().await);
        let bob = site.login("bob@example.com", PASSWORD).await;
        let accounts = site.auth.accounts();
        let ann = accounts.find(ANN).await.unwrap();
        assert_eq!(accounts.sign_out_everywhere(&ann.id).await.unwrap(), 2);
        for session in [&one, &two] {
            site.me(session).await.expect(401);
            Call::get("/auth/me").bearer(&session.token()).send(&site).await.expect(401);
        }
        Call::get("/auth/me").bearer(&token).send(&site).await.expect(401);
        site.me(&bob).await.expect(200);
        Call::get("/auth/me").bearer(&bob.token()).send(&site).await.expect(200);
        assert_eq!(site.audited().last(), Some(&AuditKind::SessionRevoked));
        // Within the very moment of the logout, too.
        let next = site.login_ann().await.expect(200);
        site.me(&next).await.expect(200);
        Call::get("/auth/me").bearer(&next.token()).send(&site).await.expect(200);
    }
}

#[tokio::test]
async fn an_unknown_account_is_not_found() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let accounts = site.auth.accounts();
        let unknown = UserId::parse("nobody").unwrap();
        let not_found =
            |result: Result<(), AccountError>| matches!(result, Err(AccountError::Users(UserStoreError::NotFound)));
        assert!(not_found(accounts.find(ANN).await.map(|_| ())));
        assert!(not_found(accounts.set_roles(&unknown, &["a"].into_iter().collect()).await));
        assert!(not_found(accounts.set_password(&unknown, Secret::new(WRONG)).await));
        assert!(not_found(accounts.sign_out_everywhere(&unknown).await.map(|_| ())));
    }
}

#[tokio::test]
async fn an_operation_that_a_custom_store_lacks_is_unsupported() {
    let config = AuthConfig { allow_in_memory_stores: true, ..config() };
    let site = Site::with_ambient(config, |builder, ambient| builder.users(Users::new(ambient, false))).await;
    site.register_ann().await;
    let accounts = site.auth.accounts();
    let ann = accounts.find(ANN).await.unwrap();
    assert!(matches!(accounts.list(ListUsers::default()).await, Err(AccountError::ListUsersUnsupported)));
    let set = accounts.set_password(&ann.id, Secret::new(WRONG)).await;
    assert!(matches!(set, Err(AccountError::Unsupported(_))));
    assert!(matches!(accounts.create("bob@example.com", None, None).await, Err(AccountError::Unsupported(_))));
    // Sessions end nevertheless.
    let session = site.login_ann().await;
    assert_eq!(accounts.sign_out_everywhere(&ann.id).await.unwrap(), 1);
    site.me(&session).await.expect(401);
}

/// Every column of every table that the tests' sites have, as one text.
async fn everything(db: &gatewright_db::Db) -> String {
    let mut text = String::new();
    for (table, columns) in [
        ("users", "id || email"),
        ("sessions", "user_id || COALESCE(address, '')"),
        ("known_devices", "user_id || COALESCE(address, '')"),
        ("device_owners", "user_id"),
        ("single_use_tokens", "email || COALESCE(user_id, '')"),
        ("api_tokens", "owner_id || name"),
        ("audit_log", "CAST(meta AS TEXT) || COALESCE(remote, '')"),
    ] {
        for row in db.query(format!("SELECT {columns} AS found FROM {table}"), params![]).await.unwrap() {
            writeln!(text, "{table}: {}", row.get::<String>("found").unwrap()).unwrap();
        }
    }
    text
}

#[tokio::test]
async fn a_deleted_account_loses_its_credentials_and_the_audit_log_keeps_only_its_id() {
    for db in databases().await {
        let config = AuthConfig { public_url: Some("https://app.example.com".parse().unwrap()), ..config() };
        let site = Site::with(config, |builder| {
            let builder = builder.database(db.db.clone()).audit_to_database().plugin(TokensPlugin::new());
            let builder = builder.plugin(MagicLinkPlugin::new());
            builder.mailer(Arc::new(Post::default())).plugin(PasswordResetPlugin::new())
        })
        .await;
        let jwt = site.register_ann().await.token();
        site.register("bob@example.com").await;
        site.login(ANN, WRONG).await.expect(401);
        let session = site.login_ann().await.expect(200);
        let body = serde_json::json!({ "name": "CI", "scopes": ["*:*"] });
        let token = Call::post("/auth/tokens").json(&body).cookie_of(&session).send(&site).await.expect(200).token();
        for path in ["/auth/forgot-password", "/auth/magic-link/send"] {
            Call::post(path).json(&serde_json::json!({ "email": ANN })).send(&site).await.expect(200);
        }
        set_proven(&db.db, ANN, true).await;
        site.auth.settle(std::time::Duration::from_secs(10)).await;
        let accounts = site.auth.accounts();
        let ann = accounts.find(ANN).await.unwrap();
        accounts.delete(&ann.id).await.unwrap();
        site.me(&session).await.expect(401);
        Call::get("/auth/me").bearer(&jwt).send(&site).await.expect(401);
        let who = Call::get("/whoami").bearer(&token).send(&site).await;
        assert_eq!(who.json(), "anonymous");
        site.advance(1);
        let left = everything(&db.db).await;
        assert!(!left.contains(ANN), "{} {left}", db.name);
        // This attempt belongs to no account, and is removed a minute later.
        site.login(ANN, PASSWORD).await.expect(401);
        assert!(everything(&db.db).await.contains(ANN));
        site.advance(60);
        site.auth.sweep().await;
        site.auth.settle(std::time::Duration::from_secs(10)).await;
        let left = everything(&db.db).await;
        assert!(!left.contains(ANN), "{} {left}", db.name);
        assert!(left.contains("bob@example.com"), "another account stays: {left}");
        let sql = "SELECT kind FROM audit_log WHERE user_id = ?1 AND remote IS NULL ORDER BY created_at, id";
        let kinds = db.db.query(sql, params![&ann.id]).await.unwrap();
        let kinds: Vec<String> = kinds.iter().map(|row| row.get("kind").unwrap()).collect();
        assert!(kinds.len() >= 4 && kinds.iter().any(|kind| kind == "account.deleted"), "{kinds:?}");
        let gone = accounts.delete(&ann.id).await;
        assert!(matches!(gone, Err(AccountError::Users(UserStoreError::NotFound))));
        // The address is free again, for an account that has nothing of the old one.
        assert_ne!(site.register_ann().await.json()["user"]["id"], ann.id.as_str());
    }
}

#[tokio::test]
async fn an_account_that_records_require_is_not_partly_deleted() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let session = site.signed_in_ann().await;
        let accounts = site.auth.accounts();
        let ann = accounts.find(ANN).await.unwrap();
        let table =
            "CREATE TABLE posts (id TEXT PRIMARY KEY, author TEXT NOT NULL REFERENCES users (id) ON DELETE RESTRICT)";
        db.db.execute(table, params![]).await.unwrap();
        db.db.execute("INSERT INTO posts (id, author) VALUES ('1', ?1)", params![&ann.id]).await.unwrap();
        let refused = accounts.delete(&ann.id).await;
        assert!(matches!(refused, Err(AccountError::Users(UserStoreError::Referenced(_)))), "{} {refused:?}", db.name);
        site.me(&session).await.expect(200);
        db.db.execute("DELETE FROM posts", params![]).await.unwrap();
        accounts.delete(&ann.id).await.unwrap();
    }
}

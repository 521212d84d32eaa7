//! Deleting accounts when something refuses, or fails on the way.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gatewright_auth::audit::AuditKind;
use gatewright_auth::plugins::account_deletion::AccountDeletionPlugin;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::plugins::tenants::TenantsPlugin;
use gatewright_auth::{AccountError, AuthConfig, DeletionProgress};
use gatewright_db::testing::TestDb;
use gatewright_db::{Db, params};
use gatewright_tenancy::{COMPONENT, STEPS, SqlMemberships};
use serde_json::json;

use crate::mailed::Post;
use crate::support::{ANN, Answer, Call, PASSWORD, Sessions, Site, config, databases, set_proven};

async fn site(db: &TestDb) -> Site {
    gatewright_db::migrate(&db.db, COMPONENT, STEPS).await.unwrap();
    let config = AuthConfig { public_url: Some("https://app.example.com".parse().unwrap()), ..config() };
    Site::with_ambient(config, |builder, ambient| {
        let store = Arc::new(SqlMemberships::new(db.db.clone(), ambient.clone()));
        let builder = builder.database(db.db.clone()).audit_to_database().mailer(Arc::new(Post::default()));
        builder
            .plugin(TenantsPlugin::new(store).roles(["editor"]))
            .plugin(AccountDeletionPlugin)
            .plugin(MagicLinkPlugin::new())
    })
    .await
}

async fn count(db: &Db, table: &str) -> i64 {
    let sql = format!("SELECT COUNT(*) AS n FROM {table}");
    db.query_opt(sql, params![]).await.unwrap().unwrap().get("n").unwrap()
}

async fn delete(site: &Site, session: &Answer) -> Answer {
    let body = json!({ "password": PASSWORD });
    Call::post("/auth/delete-account").json(&body).cookie_of(session).send(site).await
}

/// Runs the deletions that are due.
async fn sweep(site: &Site) {
    site.advance(6 * 60);
    site.auth.sweep().await;
    site.auth.settle(Duration::from_secs(10)).await;
}

/// A table of the program's own whose rows must not lose their author.
async fn hold(db: &TestDb, author: &str) {
    let table =
        "CREATE TABLE posts (id TEXT PRIMARY KEY, author TEXT NOT NULL REFERENCES users (id) ON DELETE RESTRICT)";
    db.db.execute(table, params![]).await.unwrap();
    db.db.execute("INSERT INTO posts (id, author) VALUES ('1', ?1)", params![author]).await.unwrap();
}

#[tokio::test]
async fn a_refused_deletion_changes_neither_account_nor_memberships() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.signed_in_ann().await;
        let made = Call::post("/auth/tenants").json(&json!({ "name": "Acme" })).cookie_of(&session);
        made.send(&site).await.expect(201);
        hold(&db, site.auth.accounts().find(ANN).await.unwrap().id.as_str()).await;
        let refused = delete(&site, &session).await.expect(409).json();
        assert_eq!(refused["code"], "referenced", "{}: {refused}", db.name);
        assert!(refused["detail"].as_str().unwrap().contains("posts.author"), "{refused}");
        let tenants = Call::get("/auth/tenants").cookie_of(&session).send(&site).await.expect(200).json();
        assert_eq!(tenants["tenants"].as_array().unwrap().len(), 1, "{}", db.name);
        assert_eq!(count(&db.db, "users_deletions").await, 0);
        sweep(&site).await;
        site.me(&session).await.expect(200);
        db.db.execute("DELETE FROM posts", params![]).await.unwrap();
        delete(&site, &session).await.expect(200);
        assert_eq!((count(&db.db, "users").await, count(&db.db, "tenant_members").await), (0, 0), "{}", db.name);
    }
}

/// A row added after the close only keeps the user row, and only while the row exists.
#[tokio::test]
async fn a_row_added_after_the_close_delays_only_the_removal_of_the_user() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.signed_in_ann().await;
        let accounts = site.auth.accounts();
        let ann = accounts.find(ANN).await.unwrap().id;
        let sql = "INSERT INTO users_deletions (user_id, email, method, begun_at, next_at, closed_at) \
                   VALUES (?1, NULL, 'owner', ?2, ?2, ?2)";
        db.db.execute(sql, params![&ann, site.ambient.now()]).await.unwrap();
        hold(&db, ann.as_str()).await;
        assert!(matches!(accounts.enable(&ann).await, Err(AccountError::BeingDeleted)));
        assert!(accounts.being_deleted(std::slice::from_ref(&ann)).await.unwrap().contains(&ann));
        sweep(&site).await;
        site.me(&session).await.expect(401);
        site.login(ANN, PASSWORD).await.expect(401);
        assert_eq!((count(&db.db, "users").await, count(&db.db, "sessions").await), (1, 0), "{}", db.name);
        assert_eq!(count(&db.db, "users_deletions").await, 1);
        db.db.execute("DELETE FROM posts", params![]).await.unwrap();
        sweep(&site).await;
        assert_eq!((count(&db.db, "users").await, count(&db.db, "users_deletions").await), (0, 0), "{}", db.name);
    }
}

#[tokio::test]
async fn steps_that_fail_after_the_close_are_finished_by_the_sweep() {
    for db in databases().await {
        let mut sessions = None;
        let config = AuthConfig { allow_in_memory_stores: true, ..config() };
        let site = Site::with_ambient(config, |builder, ambient| {
            let store = Sessions::new(ambient, true);
            sessions = Some(store.clone());
            builder.database(db.db.clone()).sessions(store)
        })
        .await;
        let sessions = sessions.unwrap();
        let session = site.signed_in_ann().await;
        let accounts = site.auth.accounts();
        let ann = accounts.find(ANN).await.unwrap().id;
        sessions.down.store(true, Ordering::SeqCst);
        assert_eq!(accounts.request_deletion(&ann).await.unwrap(), DeletionProgress::UnderWay);
        assert_eq!(site.audited().last(), Some(&AuditKind::AccountClosed));
        assert!(accounts.find(ANN).await.unwrap().disabled, "closed, and not withdrawn");
        sweep(&site).await;
        assert_eq!(count(&db.db, "users").await, 1);
        sessions.down.store(false, Ordering::SeqCst);
        sweep(&site).await;
        site.me(&session).await.expect(401);
        assert_eq!((count(&db.db, "users").await, count(&db.db, "users_deletions").await), (0, 0), "{}", db.name);
        let closed = site.audited().into_iter().filter(|kind| *kind == AuditKind::AccountClosed);
        assert_eq!(closed.count(), 1);
        assert_eq!(site.audited().last(), Some(&AuditKind::AccountDeleted));
    }
}

/// A stranger registers another person's address, without opening a mail.
#[tokio::test]
async fn deleting_an_unproven_account_keeps_other_data_of_its_address() {
    for db in databases().await {
        let site = site(&db).await;
        let owner = site.signed_in("owner@example.com").await;
        let tenant = Call::post("/auth/tenants").json(&json!({ "name": "Acme" })).cookie_of(&owner);
        let tenant = tenant.send(&site).await.expect(201).json()["id"].as_str().unwrap().to_owned();
        let invite = Call::post(&format!("/auth/tenants/{tenant}/members"));
        invite.json(&json!({ "email": ANN, "roles": ["editor"] })).cookie_of(&owner).send(&site).await.expect(201);
        let ask = Call::post("/auth/magic-link/send").json(&json!({ "email": ANN }));
        ask.send(&site).await.expect(200);
        let mallory = site.signed_in_ann().await;
        delete(&site, &mallory).await.expect(200);
        sweep(&site).await;
        let traces = "audit_log WHERE kind = 'magiclink.requested' AND remote IS NOT NULL \
                      AND CAST(meta AS TEXT) LIKE '%ann@example.com%'";
        assert_eq!(count(&db.db, "users").await, 1, "{}", db.name);
        assert_eq!(count(&db.db, traces).await, 1, "{}", db.name);
        assert_eq!(count(&db.db, "account_invitations").await, 1, "{}", db.name);
        assert_eq!(count(&db.db, "single_use_tokens").await, 1, "{}: the owner's link is in the mailbox", db.name);

        // Deleting an account with the proven address removes all of it.
        site.register_ann().await;
        set_proven(&db.db, ANN, true).await;
        let ann = site.login_ann().await.expect(200);
        delete(&site, &ann).await.expect(200);
        sweep(&site).await;
        assert_eq!(count(&db.db, traces).await, 0, "{}", db.name);
        assert_eq!(count(&db.db, "account_invitations").await, 0, "{}", db.name);
        assert_eq!(count(&db.db, "single_use_tokens").await, 0, "{}", db.name);
        assert_eq!(count(&db.db, "audit_log WHERE CAST(meta AS TEXT) LIKE '%ann@example.com%'").await, 0);
    }
}

use gatewright_auth::audit::AuditKind;
use serde_json::json;
use std::sync::Arc;

use super::{Place, plugins, with_public_url};
use crate::support::{ANN, Call, Factor, FakeFactor, databases};

const SEND: &str = "/auth/send-verification";

#[tokio::test]
async fn a_link_verifies_the_address_and_may_be_followed_again() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        place.site.register_ann().await;
        let session = place.site.login_ann().await;
        assert_eq!(place.site.me(&session).await.json()["emailVerified"], false);
        let token = place.verification_token(&session, ANN).await;
        let tries = (0..20).map(|_| place.verify_email(&token));
        for answer in futures_util::future::join_all(tries).await {
            assert_eq!(answer.expect(200).json(), json!({ "verified": true }), "{}", database.name);
        }
        assert_eq!(place.site.me(&session).await.json()["emailVerified"], true);
        let verified = place.site.audited().into_iter().filter(|kind| *kind == AuditKind::EmailVerified).count();
        assert_eq!(verified, 1);
        place.site.advance(24 * 3600);
        assert_eq!(place.verify_email(&token).await.expect(401).detail(), "invalid or expired token");
    }
}

#[tokio::test]
async fn a_token_of_another_purpose_or_for_an_address_of_the_past_verifies_nothing() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        place.site.register_ann().await;
        let session = place.site.login_ann().await;
        let verification = place.verification_token(&session, ANN).await;
        let (reset, magic) = (place.reset_token(ANN).await, place.magic_token(ANN).await);
        for token in ["", "x", &reset, &magic] {
            place.verify_email(token).await.expect(401);
        }
        let change = "UPDATE users SET email = ?1";
        database.db.execute(change, gatewright_db::params!["ann@elsewhere.example"]).await.unwrap();
        place.verify_email(&verification).await.expect(401);
        assert_eq!(place.site.me(&session).await.json()["emailVerified"], false);
        place.reset(&reset, super::NEW_PASSWORD).await.expect(401);
    }
}

#[tokio::test]
async fn a_spent_link_is_good_only_while_its_address_is_the_verified_one() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        place.site.register_ann().await;
        let session = place.site.login_ann().await;
        let token = place.verification_token(&session, ANN).await;
        place.verify_email(&token).await.expect(200);
        let unverify = "UPDATE users SET email_verified = ?1";
        database.db.execute(unverify, gatewright_db::params![false]).await.unwrap();
        place.verify_email(&token).await.expect(401);
    }
}

#[tokio::test]
async fn only_a_session_may_ask_and_the_second_factor_must_be_proven_in_it() {
    for database in databases().await {
        let factor = FakeFactor::default();
        let given = factor.clone();
        let place = Place::with(with_public_url(), |builder| {
            plugins(builder).database(database.db.clone()).second_factor(Arc::new(given))
        })
        .await;
        let jwt = place.site.register_ann().await.token();
        Call::post(SEND).json(&json!({})).send(&place.site).await.expect(401);
        Call::post(SEND).json(&json!({})).bearer(&jwt).send(&place.site).await.expect(401);
        let session = place.site.login_ann().await;
        factor.set(Factor::Enrolled);
        let old = Call::post(SEND).json(&json!({})).cookie_of(&session).send(&place.site).await.expect(403);
        assert_eq!(old.detail(), "two-factor verification required");
        let pending = place.site.login_ann().await;
        Call::post(SEND).json(&json!({})).cookie_of(&pending).send(&place.site).await.expect(403);
        assert!(place.mails().await.is_empty());
    }
}

#[tokio::test]
async fn a_browser_gets_a_page() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        place.site.register_ann().await;
        let session = place.site.login_ann().await;
        let token = place.verification_token(&session, ANN).await;
        for (path, status, word) in [
            (format!("/auth/verify-email?token={token}"), 200, "confirmed"),
            ("/auth/verify-email".to_owned(), 401, "invalid or expired token"),
        ] {
            let browser = Call::get(&path).header("accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8");
            let page = browser.send(&place.site).await.expect(status);
            assert!(page.headers["content-type"].to_str().unwrap().starts_with("text/html"));
            assert!(page.body.contains(word));
        }
    }
}

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gatewright_auth::MailKind;
use gatewright_auth::audit::AuditKind;
use gatewright_auth::plugins::tokens::TokensPlugin;
use serde_json::json;

use super::{FORGOT, NEW_PASSWORD, Place, RESET, plugins, with_public_url};
use crate::support::{ANN, Call, Factor, FakeFactor, PASSWORD, databases};

#[tokio::test]
async fn a_reset_sets_the_password_and_ends_sessions_jwts_and_other_links() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let jwt = place.site.register_ann().await.token();
        let session = place.site.login_ann().await.expect(200);
        let other = place.reset_token(ANN).await;
        place.site.advance(1);
        let token = place.reset_token(ANN).await;
        let answer = place.reset(&token, NEW_PASSWORD).await.expect(200);
        assert_eq!(answer.json(), json!({ "updated": true }), "{}", database.name);
        assert!(answer.cookie().is_none(), "a reset signs nobody in");
        place.site.advance(1);
        place.site.me(&session).await.expect(401);
        assert!(!place.is_good(&jwt).await);
        place.site.login(ANN, PASSWORD).await.expect(401);
        let signed_in = place.site.login(ANN, NEW_PASSWORD).await.expect(200);
        assert_eq!(place.site.me(&signed_in).await.json()["emailVerified"], true, "the mailbox is proven");
        for spent in [&token, &other] {
            assert_eq!(place.reset(spent, PASSWORD).await.expect(401).detail(), "invalid or expired token");
        }
        let kinds = place.site.audited();
        for kind in [AuditKind::PasswordResetRequested, AuditKind::PasswordResetCompleted, AuditKind::EmailVerified] {
            assert!(kinds.contains(&kind), "{kind}");
        }
    }
}

#[tokio::test]
async fn forgot_password_gives_everybody_the_same_answer() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        place.site.register_ann().await;
        let mut answers = Vec::new();
        for email in [ANN, "nobody@example.com", "no address", ""] {
            let mut answer = Call::post(FORGOT).json(&json!({ "email": email })).send(&place.site).await.expect(200);
            answer.headers.remove("date");
            // Sealed, so that no two are the same; everybody gets one.
            let cookie = answer.headers.remove("set-cookie").expect("a cookie");
            assert!(cookie.to_str().unwrap().starts_with("__Host-svc_password_reset="));
            answers.push((answer.body, answer.headers));
        }
        assert_eq!(answers[0].0, r#"{"sent":true}"#);
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{}: {answers:?}", database.name);
        let mails = place.mails().await;
        assert_eq!(mails.len(), 1);
        assert_eq!((mails[0].kind, mails[0].to.as_str()), (MailKind::PasswordReset, ANN));
        assert!(mails[0].link.expose().starts_with("https://app.example.com/reset-password?token="));
    }
}

#[tokio::test]
async fn a_failing_or_missing_mailer_does_not_change_the_answer() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        place.site.register_ann().await;
        place.post.fails.store(true, Ordering::SeqCst);
        let failing = Call::post(FORGOT).json(&json!({ "email": ANN })).send(&place.site).await.expect(200);
        assert_eq!(failing.body, r#"{"sent":true}"#);
        assert!(place.mails().await.is_empty());
        let config = with_public_url();
        let silent = crate::support::Site::with(config, |builder| plugins(builder).database(database.db.clone())).await;
        let absent = Call::post(FORGOT).json(&json!({ "email": ANN })).send(&silent).await.expect(200);
        assert_eq!(absent.body, failing.body);
    }
}

#[tokio::test]
async fn one_of_twenty_parallel_resets_with_one_link_on_two_replicas_succeeds() {
    for database in databases().await {
        let (one, two) = (Arc::new(Place::on(&database.db).await), Arc::new(Place::on(&database.db).await));
        one.site.register_ann().await;
        two.site.advance(1);
        let token = one.reset_token(ANN).await;
        let tries = (0..20).map(|index| {
            let (place, token) = (if index % 2 == 0 { one.clone() } else { two.clone() }, token.clone());
            tokio::spawn(async move { place.reset(&token, &format!("password number {index}")).await.status })
        });
        let statuses: Vec<_> = futures_util::future::join_all(tries).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{}: {statuses:?}", database.name);
    }
}

#[tokio::test]
async fn a_weak_password_does_not_spend_the_token() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        place.site.register_ann().await;
        let token = place.reset_token(ANN).await;
        let answer = place.reset(&token, "short").await.expect(422);
        assert_eq!(answer.json()["errors"][0]["field"], "password");
        place.reset(&token, NEW_PASSWORD).await.expect(200);
    }
}

#[tokio::test]
async fn an_expired_token_or_one_of_another_purpose_sets_no_password() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let session = place.site.signed_in_ann().await;
        let verification = place.verification_token(&session, ANN).await;
        let magic = place.magic_token(ANN).await;
        let late = place.reset_token(ANN).await;
        place.site.advance(3600);
        let random = "A".repeat(43);
        for token in ["", &random, &verification, &magic, &late] {
            place.reset(token, NEW_PASSWORD).await.expect(401);
        }
        place.site.login_ann().await.expect(200);
    }
}

#[tokio::test]
async fn a_reset_of_a_proven_account_does_not_remove_the_second_factor() {
    for database in databases().await {
        let (place, factor) = Place::with_factor(&database.db).await;
        let session = place.site.signed_in_ann().await;
        let verification = place.verification_token(&session, ANN).await;
        place.verify_email(&session, &verification).await.expect(200);
        factor.set(Factor::Enrolled);
        let token = place.reset_token(ANN).await;
        place.reset(&token, NEW_PASSWORD).await.expect(200);
        place.site.advance(1);
        let answer = place.site.login(ANN, NEW_PASSWORD).await.expect(200);
        assert_eq!(answer.json()["two_factor_required"], true);
    }
}

/// Eve registers Ann's address, mints a token and enrolls a second factor. Ann resets the password by mail.
#[tokio::test]
async fn a_reset_of_an_unproven_account_drops_a_strangers_credentials() {
    for database in databases().await {
        let factor = FakeFactor::default();
        let given = factor.clone();
        let place = Place::with(with_public_url(), |builder| {
            let builder = plugins(builder).plugin(TokensPlugin::new()).database(database.db.clone());
            builder.second_factor(Arc::new(given))
        })
        .await;
        let jwt = place.site.register_ann().await.token();
        let eve = place.site.login_ann().await.expect(200);
        let api_token = place.issue(&eve).await;
        let (verification, magic) = (place.verification_token(&eve, ANN).await, place.magic_token(ANN).await);
        place.site.advance(1);
        factor.set(Factor::Enrolled);

        let token = place.reset_token(ANN).await;
        place.reset(&token, NEW_PASSWORD).await.expect(200);
        place.site.advance(1);
        let ann = place.site.login(ANN, NEW_PASSWORD).await.expect(200);
        assert!(ann.json().get("two_factor_required").is_none(), "{}: Eve's second factor is gone", database.name);
        place.site.me(&ann).await.expect(200);
        assert!(!place.is_good(&jwt).await && !place.is_good(&api_token).await);
        place.site.me(&eve).await.expect(401);
        place.site.login(ANN, PASSWORD).await.expect(401);
        place.redeem(&magic).await.expect(401);
        place.confirm(&verification).await.expect(401);
        let events = place.site.audit.events();
        let verified = events.iter().find(|event| event.kind == AuditKind::EmailVerified).expect("it is audited");
        assert_eq!(verified.meta["method"], "password_reset");
        let dropped = json!(["password", "sessions", "second_factor", "api_tokens", "single_use_tokens"]);
        assert_eq!(verified.meta["dropped"], dropped, "{}", database.name);
    }
}

#[tokio::test]
async fn a_password_set_by_an_operator_invalidates_pending_links() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        place.site.register_ann().await;
        let token = place.reset_token(ANN).await;
        let accounts = place.site.auth.accounts();
        let ann = accounts.find(ANN).await.unwrap();
        accounts.set_password(&ann.id, gatewright_base::Secret::new(NEW_PASSWORD)).await.unwrap();
        place.reset(&token, PASSWORD).await.expect(401);
    }
}

#[tokio::test]
async fn requesting_and_redeeming_share_a_limit_per_address() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        for round in 0..10 {
            let call = if round % 2 == 0 { Call::post(FORGOT) } else { Call::post(RESET) };
            let body = json!({ "email": ANN, "token": "x", "password": "x" });
            call.json(&body).send(&place.site).await.expect(if round % 2 == 0 { 200 } else { 401 });
        }
        let refused = Call::post(FORGOT).json(&json!({ "email": ANN })).send(&place.site).await.expect(429);
        assert_eq!(
            (refused.body.as_str(), refused.headers["retry-after"].to_str().unwrap()),
            ("rate limit exceeded", "1800")
        );
        Call::post(RESET).json(&json!({ "token": "x", "password": "x" })).send(&place.site).await.expect(429);
        let elsewhere = Call::post(FORGOT).json(&json!({ "email": ANN })).from("203.0.113.8");
        elsewhere.send(&place.site).await.expect(200);
    }
}

#[tokio::test]
async fn tokens_are_stored_as_hashes_and_expired_ones_are_removed() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        place.site.register_ann().await;
        let token = place.reset_token(ANN).await;
        let rows = database.db.query("SELECT token_hash FROM single_use_tokens", vec![]).await.unwrap();
        let stored = rows[0].get::<Vec<u8>>("token_hash").unwrap();
        assert_eq!(stored.len(), 32);
        assert!(!stored.windows(token.len().min(8)).any(|window| token.as_bytes().starts_with(window)));
        place.magic_token(ANN).await;
        place.site.advance(2 * 3600);
        place.magic_token(ANN).await;
        let rows = database.db.query("SELECT token_hash FROM single_use_tokens", vec![]).await.unwrap();
        assert_eq!(rows.len(), 1, "{}", database.name);
    }
}

use gatewright_auth::audit::AuditKind;
use serde_json::json;

use super::{INVALID, REQUIRED, call, enroll_ann, send, site, with, wrong};
use crate::support::{ANN, Call, config, databases};

#[tokio::test]
async fn a_code_turns_the_pending_session_into_a_verified_one_with_a_new_id() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        let pending = site.login_ann().await.expect(200);
        assert_eq!(pending.json()["two_factor_required"], true);
        assert!(pending.json().get("token").is_none());
        assert_eq!(site.me(&pending).await.expect(403).detail(), REQUIRED);

        let passed = send(&site, "challenge", &pending, &ann.app.code(&site)).await.expect(200);
        assert_eq!(passed.json()["verified"], true);
        assert_ne!(passed.cookie(), pending.cookie());
        site.me(&pending).await.expect(401);
        assert_eq!(site.me(&passed).await.expect(200).json()["twoFactorEnabled"], true);
        Call::get("/auth/me").bearer(&passed.token()).send(&site).await.expect(200);
        Call::post("/auth/2fa/backup-codes").cookie_of(&passed).send(&site).await.expect(200);

        let audited = site.audited();
        let kinds = [AuditKind::LoginPendingTwoFactor, AuditKind::TwoFactorChallengeSucceeded];
        assert!(audited.windows(2).any(|pair| pair == kinds), "{audited:?}");
    }
}

#[tokio::test]
async fn a_wrong_code_leaves_it_pending() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        let pending = site.login_ann().await;
        for code in [&wrong(&ann.app, &site), "", "1", "0000-0000-0000-0000", "' OR '1'='1", "🦀🦀🦀🦀🦀🦀"]
        {
            let refused = send(&site, "challenge", &pending, code).await.expect(401);
            assert_eq!(refused.detail(), INVALID);
            assert!(refused.set_cookie().is_none());
        }
        site.me(&pending).await.expect(403);
        assert_eq!(site.audited().last(), Some(&AuditKind::TwoFactorChallengeFailed));
        send(&site, "challenge", &pending, &ann.app.code(&site)).await.expect(200);
    }
}

#[tokio::test]
async fn bodies_without_a_code_are_refused_and_never_a_500() {
    for db in databases().await {
        let site = site(&db).await;
        enroll_ann(&site).await;
        let pending = site.login_ann().await;
        for (body, status) in
            [("{}", 422), ("{\"code\":123456}", 422), ("[]", 400), ("{", 400), ("{\"code\":null}", 422)]
        {
            let call = Call::post("/auth/2fa/challenge").body("application/json", body);
            call.cookie_of(&pending).send(&site).await.expect(status);
        }
        Call::post("/auth/2fa/challenge").body("text/plain", "x").cookie_of(&pending).send(&site).await.expect(415);
        site.me(&pending).await.expect(403);
    }
}

#[tokio::test]
async fn a_clock_may_be_off_by_at_most_one_step() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        site.advance(300);
        for (steps, status) in [(-2, 401), (2, 401), (-1, 200), (0, 200), (1, 200)] {
            let pending = site.login_ann().await;
            send(&site, "challenge", &pending, &ann.app.code_in(&site, steps)).await.expect(status);
        }
    }
}

#[tokio::test]
async fn a_spent_step_and_earlier_ones_are_refused() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        let (earlier, now) = (ann.app.code(&site), ann.app.code_in(&site, 1));
        let (one, two) = (site.login_ann().await, site.login_ann().await);
        send(&site, "challenge", &one, &now).await.expect(200);
        for code in [&now, &earlier] {
            assert_eq!(send(&site, "challenge", &two, code).await.expect(401).detail(), INVALID);
        }
        site.advance(60);
        send(&site, "challenge", &two, &ann.app.code(&site)).await.expect(200);
    }
}

#[tokio::test]
async fn a_backup_code_passes_once_however_it_is_typed() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        let typed = [ann.codes[0].clone(), ann.codes[1].to_uppercase(), ann.codes[2].replace('-', " ")];
        for code in &typed {
            let pending = site.login_ann().await;
            let passed = send(&site, "challenge", &pending, code).await.expect(200);
            site.me(&passed).await.expect(200);
            let pending = site.login_ann().await;
            assert_eq!(send(&site, "challenge", &pending, code).await.expect(401).detail(), INVALID);
        }
        let event = site.audit.events().into_iter().rfind(|event| event.kind == AuditKind::TwoFactorChallengeSucceeded);
        assert_eq!(event.unwrap().meta["method"], "backup_code");
    }
}

#[tokio::test]
async fn codes_of_another_user_are_refused() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        site.register("bob@example.com").await;
        let bob = super::enroll(&site, site.login("bob@example.com", crate::support::PASSWORD).await).await;
        let pending = site.login("bob@example.com", crate::support::PASSWORD).await;
        for code in [&ann.app.code(&site), &ann.codes[0]] {
            send(&site, "challenge", &pending, code).await.expect(401);
        }
        // They were not spent on it either.
        let ann_pending = site.login_ann().await;
        send(&site, "challenge", &ann_pending, &ann.codes[0]).await.expect(200);
        let passed = send(&site, "challenge", &pending, &bob.app.code(&site)).await.expect(200);
        assert_eq!(site.me(&passed).await.json()["user"]["email"], "bob@example.com");
    }
}

#[tokio::test]
async fn a_challenge_without_a_pending_second_factor_is_refused() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        send(&site, "challenge", &session, "000000").await.expect(409);
        call("challenge", "000000").send(&site).await.expect(401);
    }
}

#[tokio::test]
async fn a_factor_removed_meanwhile_sends_back_to_the_sign_in() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        let pending = site.login_ann().await;
        let accounts = site.auth.accounts();
        accounts.disable_two_factor(&accounts.find(ANN).await.unwrap().id).await.unwrap();
        send(&site, "challenge", &pending, &ann.app.code(&site)).await.expect(409);
        site.me(&pending).await.expect(403);
        assert!(site.login_ann().await.json().get("token").is_some());
    }
}

#[tokio::test]
async fn a_browser_backend_returns_no_token() {
    for db in databases().await {
        let mut config = config();
        config.tokens_in_responses = false;
        let site = with(&db, config).await;
        site.register_ann().await;
        let ann = enroll_ann(&site).await;
        let pending = site.login_ann().await;
        let passed = send(&site, "challenge", &pending, &ann.app.code(&site)).await.expect(200);
        assert_eq!(passed.json(), json!({ "verified": true }));
    }
}

#[tokio::test]
async fn a_logout_everywhere_ends_pending_sessions_too() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        let pending = site.login_ann().await;
        site.advance(1);
        let accounts = site.auth.accounts();
        accounts.sign_out_everywhere(&accounts.find(ANN).await.unwrap().id).await.unwrap();
        send(&site, "challenge", &pending, &ann.app.code(&site)).await.expect(401);
    }
}

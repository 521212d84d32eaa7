//! An account that an operator has disabled, from every side.

use std::sync::Arc;

use gatewright_auth::audit::AuditKind;
use gatewright_auth::plugins::email_verification::EmailVerificationPlugin;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::plugins::password_reset::PasswordResetPlugin;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::{AuthConfig, MailKind};
use gatewright_base::{Identity, UserId};
use gatewright_db::testing::TestDb;
use serde_json::json;

use crate::mailed::Post;
use crate::support::{ANN, Answer, Call, PASSWORD, Site, WRONG, config, databases};

async fn site(db: &TestDb) -> (Site, Arc<Post>) {
    let post = Arc::new(Post::default());
    let public_url = Some("https://app.example.com".parse().unwrap());
    let config = AuthConfig { public_url, ..config() };
    let site = Site::with(config, |builder| {
        let builder = builder.database(db.db.clone()).mailer(post.clone()).plugin(TokensPlugin::new());
        let builder = builder.plugin(MagicLinkPlugin::new()).plugin(EmailVerificationPlugin::new());
        builder.plugin(PasswordResetPlugin::new())
    });
    (site.await, post)
}

async fn ann(site: &Site) -> UserId {
    site.auth.accounts().find(ANN).await.unwrap().id
}

/// The token of the latest mail of this kind.
async fn mailed(site: &Site, post: &Post, kind: MailKind) -> String {
    site.auth.settle(std::time::Duration::from_secs(10)).await;
    let mails = post.mails.lock();
    let mail = mails.iter().rev().find(|mail| mail.kind == kind).expect("a mail was sent");
    mail.link.expose().split_once("token=").unwrap().1.to_owned()
}

/// The content of an answer, without parts that differ between any two answers.
fn told(answer: &Answer) -> (u16, String) {
    let body = answer.body.split("\"requestId\"").next().unwrap_or_default();
    (answer.status.as_u16(), body.to_owned())
}

#[tokio::test]
async fn disabling_ends_all_credentials_and_enabling_restores_only_api_tokens() {
    for db in databases().await {
        let (site, _) = site(&db).await;
        let jwt = site.register_ann().await.token();
        let session = site.login_ann().await.expect(200);
        let call = Call::post("/auth/tokens").json(&json!({ "name": "CI" })).cookie_of(&session);
        let token = call.send(&site).await.expect(200).token();
        Call::get("/whoami").cookie_of(&session).send(&site).await.expect(200);
        let stream = site.presented.lock().clone().expect("the request was authenticated");
        let id = ann(&site).await;

        site.auth.accounts().disable(&id).await.unwrap();
        site.me(&session).await.expect(401);
        Call::get("/auth/me").bearer(&jwt).send(&site).await.expect(401);
        Call::get("/auth/me").bearer(&session.token()).send(&site).await.expect(401);
        assert_eq!(Call::get("/whoami").bearer(&token).send(&site).await.json(), "anonymous");
        // A stream's recheck on every heartbeat.
        assert!(matches!(stream.0.again().await.unwrap(), Identity::Anonymous), "{}", db.name);

        site.advance(1);
        site.auth.accounts().enable(&id).await.unwrap();
        site.me(&session).await.expect(401);
        Call::get("/auth/me").bearer(&jwt).send(&site).await.expect(401);
        assert_eq!(Call::get("/whoami").bearer(&token).send(&site).await.json()["credential"], "ApiToken");
        site.login_ann().await.expect(200);
        let names: Vec<_> = site.audited().iter().map(|kind| kind.name()).collect();
        assert!(names.contains(&"account.disabled") && names.contains(&"account.enabled"), "{names:?}");
    }
}

#[tokio::test]
async fn a_disabled_account_answers_like_a_wrong_password_and_the_audit_log_has_the_reason() {
    for db in databases().await {
        let (site, _) = site(&db).await;
        site.register_ann().await;
        let wrong = site.login(ANN, WRONG).await.expect(401);
        let id = ann(&site).await;
        site.auth.accounts().disable(&id).await.unwrap();
        for password in [PASSWORD, WRONG] {
            let answer = site.login(ANN, password).await;
            assert_eq!(told(&answer), told(&wrong), "{password}");
            assert!(answer.set_cookie().is_none());
        }
        let events = site.audit.events();
        let reasons: Vec<_> = events
            .iter()
            .filter(|event| event.kind == AuditKind::LoginFailed && event.user_id.as_ref() == Some(&id))
            .map(|event| event.meta["reason"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(reasons, ["invalid credentials", "the account is disabled", "invalid credentials"]);
    }
}

#[tokio::test]
async fn mailed_links_neither_sign_in_to_nor_change_a_disabled_account() {
    for db in databases().await {
        let (site, post) = site(&db).await;
        let session = site.signed_in_ann().await;
        let id = ann(&site).await;
        let post_json = async |path: &str, body: serde_json::Value| Call::post(path).json(&body).send(&site).await;
        // Links from before the account was disabled.
        Call::post("/auth/send-verification").json(&json!({})).cookie_of(&session).send(&site).await.expect(200);
        post_json("/auth/forgot-password", json!({ "email": ANN })).await.expect(200);
        let verification = mailed(&site, &post, MailKind::EmailVerification).await;
        let reset = mailed(&site, &post, MailKind::PasswordReset).await;
        site.auth.accounts().disable(&id).await.unwrap();
        post_json("/auth/verify-email", json!({ "token": verification })).await.expect(401);
        let new = json!({ "token": reset, "password": "a wholly new password" });
        post_json("/auth/reset-password", new).await.expect(401);
        // And from after.
        let sent = post.mails.lock().len();
        post_json("/auth/forgot-password", json!({ "email": ANN })).await.expect(200);
        site.auth.settle(std::time::Duration::from_secs(10)).await;
        assert_eq!(post.mails.lock().len(), sent, "no reset is mailed");
        post_json("/auth/magic-link/send", json!({ "email": ANN })).await.expect(200);
        let magic = mailed(&site, &post, MailKind::MagicLink).await;
        let answer = post_json("/auth/magic-link/verify", json!({ "token": magic })).await.expect(401);
        assert_eq!((answer.json()["code"].as_str(), answer.set_cookie()), (Some("invalid_credentials"), None));
        // The account is unchanged: it was not claimed.
        site.auth.accounts().enable(&id).await.unwrap();
        let user = site.auth.accounts().find(ANN).await.unwrap();
        assert!(user.password_set && !user.email_verified, "{}", db.name);
        site.advance(1);
        site.login_ann().await.expect(200);
    }
}

#[tokio::test]
async fn a_sign_in_in_progress_ends_too() {
    for db in databases().await {
        let (site, _) = site(&db).await;
        site.register_ann().await;
        let id = ann(&site).await;
        let site = Arc::new(site);
        let logins: Vec<_> = (0..8)
            .map(|_| {
                let site = site.clone();
                tokio::spawn(async move { site.login_ann().await })
            })
            .collect();
        site.auth.accounts().disable(&id).await.unwrap();
        let mut answers = Vec::new();
        for login in logins {
            answers.push(login.await.unwrap());
        }
        site.advance(1);
        site.auth.accounts().enable(&id).await.unwrap();
        for answer in answers.iter().filter(|answer| answer.status == 200) {
            site.me(answer).await.expect(401);
            Call::get("/auth/me").bearer(&answer.token()).send(&site).await.expect(401);
        }
    }
}

//! A thief with the cookie of a session that is not young, and without the password.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use gatewright_auth::audit::AuditKind;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_db::testing::TestDb;
use gatewright_limits::Policy;
use http::Method;
use serde_json::{Value, json};

use super::{Authenticator, begin, enroll_ann, send, site, text, with};
use crate::mailed::Post;
use crate::support::{ANN, Answer, Call, PASSWORD, Site, WRONG, config, databases};

/// The age at which a session is no longer young.
const OLD: i64 = 300;

const ENROLL: &str = "/auth/2fa/enroll";
const CODES: &str = "/auth/2fa/backup-codes";

async fn post(site: &Site, path: &str, session: &Answer, body: &Value) -> Answer {
    Call::post(path).json(body).cookie_of(session).send(site).await
}

#[track_caller]
fn assert_refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status.as_u16(), answer.json()["code"].as_str()), (status, Some(code)), "{}", answer.body);
}

async fn factors(db: &TestDb) -> usize {
    db.db.query("SELECT user_id FROM two_factor", vec![]).await.unwrap().len()
}

#[tokio::test]
async fn an_old_session_enrolls_no_second_factor() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        site.advance(OLD);
        let bare = Call::post(ENROLL).cookie_of(&session).send(&site).await;
        assert_refused(&bare, 403, "session_too_old");
        assert_eq!(bare.detail(), "send the password, or sign in again: the session is older than five minutes");
        for body in [json!({}), json!({ "code": "000000" })] {
            assert_refused(&post(&site, ENROLL, &session, &body).await, 403, "session_too_old");
        }
        for password in [WRONG, ""] {
            let refused = post(&site, ENROLL, &session, &json!({ "password": password })).await;
            assert_refused(&refused, 401, "invalid_credentials");
        }
        let form = Call::post(ENROLL).form(&[("next", "/account")]).cookie_of(&session).send(&site).await.expect(403);
        assert!(!form.body.contains("class=\"qr\""), "{}", form.body);
        assert_eq!(factors(&db).await, 0);
        assert_refused(&send(&site, "verify", &session, "000000").await, 409, "enrollment_not_begun");
        let refusals = site.audit.events().into_iter().filter(|event| event.kind == AuditKind::LoginFailed).count();
        assert_eq!(refusals, 2, "each wrong password is audited");
    }
}

#[tokio::test]
async fn a_young_session_or_the_password_enrolls() {
    for db in databases().await {
        for (age, body) in [(OLD - 1, json!({})), (OLD, json!({ "password": PASSWORD }))] {
            let site = with(&db, config()).await;
            let session = site.signed_in(&format!("user{age}@example.com")).await;
            site.advance(age);
            let begun = post(&site, ENROLL, &session, &body).await.expect(200).json();
            // The proof at the beginning suffices for the end.
            site.advance(OLD);
            let app = Authenticator::new(&text(&begun["secret"]));
            send(&site, "verify", &session, &app.code(&site)).await.expect(200);
        }
    }
}

#[tokio::test]
async fn wrong_passwords_of_enrollments_are_counted_in_parallel_too() {
    for db in databases().await {
        let mut config = config();
        config.limits.login_account.policy = Policy::new(3, Duration::from_mins(15), Duration::from_mins(30));
        let site = with(&db, config).await;
        site.register_ann().await;
        let session = site.login_ann().await.expect(200);
        site.advance(OLD);
        // A request without a password guesses nothing, so it does not lock the owner out.
        for _ in 0..10 {
            assert_refused(&post(&site, ENROLL, &session, &json!({})).await, 403, "session_too_old");
        }
        let wrong = json!({ "password": WRONG });
        let guesses = join_all((0..20).map(|_| post(&site, ENROLL, &session, &wrong))).await;
        let compared = guesses.iter().filter(|answer| answer.status == 401).count();
        assert_eq!(compared, 3, "{}", db.name);
        assert!(guesses.iter().all(|answer| [401, 429].contains(&answer.status.as_u16())));
        post(&site, ENROLL, &session, &json!({ "password": PASSWORD })).await.expect(429);
        assert_eq!(factors(&db).await, 0);
        begin(&site, &site.login_ann().await.expect(200)).await;
    }
}

#[tokio::test]
async fn an_old_session_draws_no_backup_codes_and_disables_nothing() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        site.advance(OLD);
        for method in [Method::GET, Method::POST] {
            let refused = Call::new(method, CODES).cookie_of(&ann.session).send(&site).await;
            assert_refused(&refused, 403, "session_too_old");
        }
        let draw = async |body: Value| post(&site, CODES, &ann.session, &body).await;
        let code = ann.app.code(&site);
        assert_refused(&draw(json!({ "code": code })).await, 403, "session_too_old");
        assert_refused(&draw(json!({ "password": WRONG, "code": code })).await, 401, "invalid_credentials");
        assert_refused(&draw(json!({ "password": PASSWORD })).await, 403, "two_factor_required");
        assert_refused(&draw(json!({ "password": PASSWORD, "code": "000-000" })).await, 401, "invalid_code");
        send(&site, "disable", &ann.session, "0000-0000-0000-0000").await.expect(401);
        // The owner's codes still work, and the owner draws new ones, once by one code.
        let pending = site.login_ann().await;
        send(&site, "challenge", &pending, &ann.codes[0]).await.expect(200);
        let proof = json!({ "password": PASSWORD, "code": code });
        let fresh = draw(proof.clone()).await.expect(200).json();
        assert_eq!(fresh["backupCodes"].as_array().unwrap().len(), 10);
        assert_refused(&draw(proof).await, 401, "invalid_code");
    }
}

#[tokio::test]
async fn a_session_that_passed_the_challenge_is_young_for_five_minutes() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        site.advance(OLD);
        let pending = site.login_ann().await;
        let passed = send(&site, "challenge", &pending, &ann.codes[0]).await.expect(200);
        let get = async || Call::get(CODES).cookie_of(&passed).send(&site).await;
        get().await.expect(200);
        site.advance(OLD - 1);
        get().await.expect(200);
        site.advance(1);
        assert_refused(&get().await, 403, "session_too_old");
    }
}

#[tokio::test]
async fn an_account_without_a_password_needs_a_young_session() {
    for db in databases().await {
        let post_office = Arc::new(Post::default());
        let mut config = config();
        config.public_url = Some("https://app.example.com".parse().unwrap());
        let site = Site::with(config, |builder| {
            let builder = builder.database(db.db.clone()).mailer(post_office.clone());
            builder.plugin(MagicLinkPlugin::new()).plugin(TwoFactorPlugin::new("Blog"))
        });
        let site = site.await;
        let sign_in = async || {
            let address = json!({ "email": "bob@example.com" });
            Call::post("/auth/magic-link/send").json(&address).send(&site).await.expect(200);
            site.auth.settle(Duration::from_mins(1)).await;
            let link = post_office.mails.lock().last().unwrap().link.clone();
            let token = json!({ "token": link.expose().split_once("token=").unwrap().1 });
            site.advance(1);
            Call::post("/auth/magic-link/verify").json(&token).send(&site).await.expect(200)
        };
        let old = sign_in().await;
        site.advance(OLD);
        for body in [json!({}), json!({ "password": PASSWORD })] {
            let refused = post(&site, ENROLL, &old, &body).await;
            assert_refused(&refused, 403, "session_too_old");
            assert_eq!(refused.detail(), "sign in again: this needs a session younger than five minutes");
        }
        let young = sign_in().await;
        let app = begin(&site, &young).await;
        assert_refused(&send(&site, "verify", &old, &app.code(&site)).await, 409, "enrollment_not_begun");
        let enabled = send(&site, "verify", &young, &app.code(&site)).await.expect(200).json();
        let code = &enabled["backupCodes"][0];
        site.advance(OLD);
        for body in [json!({}), json!({ "password": PASSWORD, "code": code })] {
            assert_refused(&post(&site, CODES, &young, &body).await, 403, "session_too_old");
        }
    }
}

#[tokio::test]
async fn only_the_session_that_began_an_enrollment_confirms_it_and_within_15_minutes() {
    for db in databases().await {
        let site = site(&db).await;
        let stolen = site.login_ann().await;
        let own = site.login_ann().await;
        let app = begin(&site, &own).await;
        for age in [0, OLD] {
            site.advance(age);
            let refused = send(&site, "verify", &stolen, &app.code(&site)).await;
            assert_refused(&refused, 409, "enrollment_not_begun");
        }
        site.advance(15 * 60 - OLD);
        assert_refused(&send(&site, "verify", &own, &app.code(&site)).await, 409, "enrollment_not_begun");
        site.login_ann().await.expect(200).token();
        // One that an earlier version began has no session.
        let young = site.login_ann().await;
        let app = begin(&site, &young).await;
        db.db.execute("UPDATE two_factor SET begun_by = NULL", vec![]).await.unwrap();
        assert_refused(&send(&site, "verify", &young, &app.code(&site)).await, 409, "enrollment_not_begun");
    }
}

/// The thief may have the very session in which the owner enrolls.
#[tokio::test]
async fn an_old_session_does_not_see_the_secret_of_an_enrollment_in_progress() {
    for db in databases().await {
        let site = site(&db).await.and_screens();
        let session = site.login_ann().await;
        let secret = |page: &Answer| page.body.contains("class=\"qr\"") || page.body.contains("<code>");
        let wrong = async || {
            let call = Call::post("/auth/2fa/verify").form(&[("code", "nonsense"), ("next", "/account")]);
            call.cookie_of(&session).send(&site).await
        };
        site.advance(OLD - 1);
        let fields = [("password", PASSWORD), ("next", "/account")];
        let begun = Call::post(ENROLL).form(&fields).cookie_of(&session).send(&site).await.expect(200);
        assert!(secret(&begun), "{}", begun.body);
        assert!(secret(&wrong().await.expect(401)), "a young session sees it again");
        site.advance(1);
        let page = wrong().await.expect(401);
        assert!(!secret(&page), "{}", page.body);
        assert!(page.body.contains("action=\"/auth/2fa/verify\"") && page.body.contains("value=\"/account\""));
        assert!(page.body.contains("href=\"/account/second-factor\""), "{}", page.body);
        // Its owner has the secret in the app.
        let key = begun.body.split("<code>").nth(1).unwrap().split("</code>").next().unwrap().replace(' ', "");
        let code = Authenticator::new(&key).code(&site);
        Call::post("/auth/2fa/verify").form(&[("code", &code)]).cookie_of(&session).send(&site).await.expect(200);
    }
}

#[tokio::test]
async fn the_account_page_asks_an_old_session_for_the_proof() {
    for db in databases().await {
        let site = site(&db).await.and_screens();
        let page = async |session: &Answer| site.account(&session.cookie().unwrap()).await;
        let (enroll, codes) = ("<input id=\"enroll-password\"", "<input id=\"backup-codes-password\"");
        let code = "<input id=\"backup-codes-code\"";
        let session = site.login_ann().await;
        let young = page(&session).await;
        assert!(young.contains("action=\"/auth/2fa/enroll\"") && !young.contains(enroll), "{young}");
        site.advance(OLD);
        assert!(page(&session).await.contains(enroll));
        let form = |path: &str, fields: &[(&str, &str)]| Call::post(path).form(fields).cookie_of(&session);
        let refused = form(ENROLL, &[("password", WRONG)]).send(&site).await.expect(401);
        assert!(refused.body.contains("href=\"/account/second-factor\""), "{}", refused.body);
        let begun = form(ENROLL, &[("password", PASSWORD)]).send(&site).await.expect(200);
        let key = begun.body.split("<code>").nth(1).unwrap().split("</code>").next().unwrap().replace(' ', "");
        let app = Authenticator::new(&key);
        form("/auth/2fa/verify", &[("code", &app.code(&site))]).send(&site).await.expect(200);
        site.advance(30);
        let enabled = page(&session).await;
        assert!(enabled.contains(codes) && enabled.contains(code), "{enabled}");
        let fields = [("password", PASSWORD), ("code", &*app.code(&site)), ("next", "/account")];
        let drawn = form(CODES, &fields).send(&site).await.expect(200);
        assert_eq!(drawn.body.matches("<li><code>").count(), 10);
        let pending = site.login(ANN, PASSWORD).await;
        site.advance(30);
        let passed = send(&site, "challenge", &pending, &app.code(&site)).await.expect(200);
        let young = page(&passed).await;
        assert!(young.contains("action=\"/auth/2fa/backup-codes\"") && !young.contains(codes), "{young}");
    }
}

//! The fresh proof that forms of the account page ask for.

use gatewright_auth::AuthConfig;
use gatewright_auth::plugins::account_deletion::AccountDeletionPlugin;
use gatewright_auth::plugins::account_export::AccountExportPlugin;
use gatewright_auth::plugins::email_change::EmailChangePlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_db::testing::TestDb;

use crate::mailed::Post;
use crate::support::{ANN, Answer, Call, PASSWORD, Site, config, databases};
use crate::two_factor::enroll_ann;

async fn site(db: &TestDb) -> Site {
    let public_url = Some("https://app.example.com".parse().unwrap());
    let site = Site::with(AuthConfig { public_url, ..config() }, |builder| {
        let builder = builder.database(db.db.clone()).mailer(std::sync::Arc::new(Post::default()));
        let builder = builder.plugin(TwoFactorPlugin::new("Test")).plugin(EmailChangePlugin::new());
        builder.plugin(AccountExportPlugin).plugin(AccountDeletionPlugin)
    });
    let site = site.await.and_screens();
    site.register_ann().await;
    site
}

async fn page(site: &Site, session: &Answer) -> String {
    site.account(&session.cookie().unwrap()).await
}

/// Names and values of a form's fields.
type Fields = &'static [(&'static str, &'static str)];

/// Each form with the other fields that it needs.
const FORMS: [(&str, &str, Fields); 3] = [
    ("/account/email", "email", &[("email", "new@example.com")]),
    ("/account/export", "export", &[]),
    ("/account/delete", "delete", &[("confirm", ANN)]),
];

#[tokio::test]
async fn every_form_requires_the_same_proof_and_accepts_a_backup_code_once() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await.expect(200);
        let before = page(&site, &session).await;
        let ann = enroll_ann(&site).await;
        let shown = page(&site, &ann.session).await;
        for (_, form, _) in FORMS {
            let password = format!("<input id=\"{form}-password\" name=\"password\" type=\"password\"");
            let code = format!("<input id=\"{form}-code\" name=\"code\" type=\"text\"");
            assert!(before.contains(&password) && !before.contains(&code), "{form}: {before}");
            assert!(shown.contains(&password) && shown.contains(&code), "{form}: {shown}");
        }
        let label = "Code of your authenticator app, or a backup code";
        assert_eq!(shown.matches(label).count(), FORMS.len(), "{shown}");
        assert!(!shown.contains("inputmode=\"numeric\""), "a backup code has letters: {shown}");

        let post = async |path: &str, more: &[(&str, &str)], code: &str| {
            let form = [&[("password", PASSWORD), ("code", code)], more].concat();
            Call::post(path).form(&form).cookie_of(&ann.session).send(&site).await.status.as_u16()
        };
        for ((path, _, more), code) in FORMS.into_iter().zip(&ann.codes) {
            assert_eq!(post(path, more, "").await, 403, "{path} without a code");
            assert_eq!(post(path, more, "AAAAA-AAAAA").await, 401, "{path} with a wrong one");
            if path == "/account/delete" {
                assert_eq!(post(path, more, &ann.codes[0]).await, 401, "a spent code");
            }
            let done = post(path, more, code).await;
            assert!([200, 303].contains(&done), "{path} on {}: {done}", db.name);
        }
        site.login_ann().await.expect(401);
    }
}

/// Where a session is asked for the password, with the other fields and the name of the field.
const DOORS: [(&str, Fields, &str); 4] = [
    ("/account/email", &[("email", "new@example.com")], "password"),
    ("/account/export", &[], "password"),
    ("/account/delete", &[("confirm", ANN)], "password"),
    ("/account/password", &[("password", "another good password")], "current_password"),
];

/// The attack: a thief of a session tries passwords, so that the owner cannot act.
#[tokio::test]
async fn wrong_passwords_of_a_stolen_session_block_that_session_alone() {
    for db in databases().await {
        for (path, more, field) in DOORS {
            let site = site(&db).await;
            let [stolen, second, third, owners] = sessions(&site).await;
            site.advance(5 * 60);
            let post = async |session: &Answer, password: &str| {
                let form = [&[(field, password)], more].concat();
                Call::post(path).form(&form).cookie_of(session).send(&site).await.status.as_u16()
            };
            let exhaust = async |session: &Answer, tries: usize| {
                for _ in 0..tries {
                    assert_eq!(post(session, crate::support::WRONG).await, 401, "{path} on {}", db.name);
                }
                assert_eq!(post(session, PASSWORD).await, 429, "{path} on {}", db.name);
            };
            exhaust(&stolen, 10).await;
            assert_eq!(post(&owners, crate::support::WRONG).await, 401, "{path}: the owner is asked as before");
            // Several stolen sessions share the account's budget.
            exhaust(&second, 10).await;
            exhaust(&third, 9).await;
            assert_eq!(post(&owners, PASSWORD).await, 429, "{path}");
            // The owner signs in again, and acts.
            let fresh = site.login_ann().await.expect(200);
            assert_eq!(post(&stolen, PASSWORD).await, 429, "{path}");
            let done = post(&fresh, PASSWORD).await;
            assert!([200, 303].contains(&done), "{path} on {}: {done}", db.name);
            if path != "/account/delete" {
                let user = site.auth.accounts().find(ANN).await.unwrap();
                site.auth.accounts().delete(&user.id).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn wrong_codes_of_a_stolen_session_block_that_session_alone() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        // The owner's own session, proven by a code.
        let pending = site.login_ann().await.expect(200);
        let owners = code(&site, "challenge", &ann.app.code(&site), "198.51.100.7", &pending).await.expect(200);
        site.advance(5 * 60);
        for _ in 0..10 {
            code(&site, "disable", "zzz", "198.51.100.8", &ann.session).await.expect(401);
        }
        code(&site, "disable", &ann.codes[0], "198.51.100.9", &ann.session).await.expect(429);
        code(&site, "disable", &ann.codes[0], "198.51.100.7", &owners).await.expect(200);
    }
}

#[tokio::test]
async fn an_operator_unlocks_the_sessions_of_an_account_too() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await.expect(200);
        site.advance(5 * 60);
        let post = async |password: &str| {
            Call::post("/account/export").form(&[("password", password)]).cookie_of(&session).send(&site).await
        };
        for _ in 0..10 {
            post(crate::support::WRONG).await.expect(401);
        }
        post(PASSWORD).await.expect(429);
        let user = site.auth.accounts().find(ANN).await.unwrap();
        site.auth.accounts().unlock(&user.id).await.unwrap();
        assert_ne!(post(PASSWORD).await.status, 429, "{}", db.name);
    }
}

async fn sessions(site: &Site) -> [Answer; 4] {
    [
        site.login_ann().await.expect(200),
        site.login_ann().await.expect(200),
        site.login_ann().await.expect(200),
        site.login_ann().await.expect(200),
    ]
}

/// Sends a code from an address, so that limits of addresses do not matter.
async fn code(site: &Site, endpoint: &str, code: &str, from: &'static str, session: &Answer) -> Answer {
    let call = Call::post(&format!("/auth/2fa/{endpoint}")).json(&serde_json::json!({ "code": code }));
    call.from(from).cookie_of(session).send(site).await
}
